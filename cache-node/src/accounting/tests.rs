//! Accounts as the node's report shows them.

use super::*;

fn at(seconds: u64) -> Moment {
    Moment::from_nanos(0).plus(Duration::from_secs(1_000 + seconds))
}

fn report(accounting: &Accounting, limit: usize, now: Moment) -> UsersReport {
    accounting.top("n1".parse().expect("a node id"), Incarnation(1), limit, now)
}

#[test]
fn a_sampled_hit_counts_as_as_many_as_it_stands_for() {
    let accounting = Accounting::new(at(0));
    (0..100).for_each(|_| accounting.sampled_hit("ada", 1024, at(0)));
    let report = report(&accounting, 10, at(10));
    let ada = &report.users[0];
    assert_eq!((ada.requests_per_second, ada.bytes_per_second), (160.0, 160.0 * 1024.0));
    assert_eq!((ada.share, ada.share_at_most, ada.counted_seconds), (1.0, 1.0, 10));
    // 160 requests a second at 6 µs and 0.3 µs for the KiB.
    assert!((report.cores - 160.0 * 6.3e-6).abs() < 1e-9, "{report:?}");
}

#[test]
fn who_costs_most_comes_first_not_who_asks_most() {
    let accounting = Accounting::new(at(0));
    for _ in 0..10 {
        accounting.lock().add("reads", Amount::of_request(100), at(1));
        accounting.lock().add("reads", Amount::of_request(100), at(1));
        accounting.lock().add("writes", Amount::of_request(100), at(1));
        accounting.lock().add("writes", Amount::of_work(Work::Write), at(1));
    }
    let report = report(&accounting, 1, at(2));
    assert_eq!((report.users.len(), report.users_counted), (1, 2));
    let first = &report.users[0];
    assert_eq!((first.user.as_str(), first.requests_per_second), ("writes", 5.0));
    assert!((0.75..0.85).contains(&first.share), "{}", first.share);
}

#[test]
fn only_the_last_minutes_count() {
    let accounting = Accounting::new(at(0));
    accounting.lock().add("before", Amount::of_request(0).times(10_000), at(1));
    for second in 600..900 {
        accounting.lock().add("now", Amount::of_request(0).times(10), at(second));
    }
    let report = report(&accounting, 10, at(900));
    assert_eq!(report.users[0].user, "now");
    assert!(report.users[0].share > 0.98, "{report:?}");
    assert!((9.0..11.0).contains(&report.users[0].requests_per_second), "{report:?}");
}

#[test]
fn an_idle_node_reports_nobody_and_no_share_of_nothing() {
    let accounting = Accounting::new(at(0));
    let report = report(&accounting, 10, at(0));
    assert_eq!((report.users.len(), report.cores, report.requests_per_second), (0, 0.0, 0.0));
}

#[test]
fn hits_are_sampled_by_chance_about_one_in_so_many() {
    let accounting = Accounting::new(at(0));
    (0..160_000).for_each(|_| accounting.hit("ada", 0, at(0)));
    let counted = accounting.lock().sketch.total().requests;
    // Ten standard deviations: 16 × √(160,000 × 1/16 × 15/16) = 1,549.
    assert!(counted.abs_diff(160_000) < 15_490, "{counted}");
}
