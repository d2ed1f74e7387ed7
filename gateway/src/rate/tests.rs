//! The limits together: which of them refuses, what that costs the others, and what answers say.

use std::time::Duration;

use http::Response;

use super::*;

fn limits(user: &str, client: &str, total: &str) -> RateLimits {
    let quota = |text: &str| (!text.is_empty()).then(|| text.parse().expect("a rate"));
    let settings = RateSettings { rate_user: quota(user), rate_client: quota(client), rate_total: quota(total) };
    RateLimits::new(&settings, &mut Registry::default(), Instant::now()).expect("a limit")
}

fn ask(limits: &RateLimits, user: &str, client: &str, after: Duration) -> Result<Standing, Response<()>> {
    at(limits, user, client, limits.origin + after)
}

fn at(limits: &RateLimits, user: &str, client: &str, now: Instant) -> Result<Standing, Response<()>> {
    let user = UserId::parse(user.as_bytes()).expect("a user");
    let admitted = limits.admit(&user, client.parse().expect("an address"), now);
    admitted.map_err(|refusal| refusal.map(drop))
}

/// The answer to a refused request: status, `Retry-After`, `RateLimit`, `RateLimit-Policy`.
fn told(response: &Response<()>) -> (u16, &str, &str, &str) {
    let header = |name: &str| response.headers().get(name).map_or("", |value| value.to_str().expect("ASCII"));
    (response.status().as_u16(), header("retry-after"), header("ratelimit"), header("ratelimit-policy"))
}

#[test]
fn without_a_limit_there_is_nothing_to_ask() {
    assert!(RateLimits::new(&RateSettings::default(), &mut Registry::default(), Instant::now()).is_none());
}

#[test]
fn a_user_over_its_limit_is_told_when_to_come_again_and_no_other_is_touched() {
    let limits = limits("100/m burst=2", "", "");
    let begin = Duration::from_secs(5);
    let mut headers = HeaderMap::new();
    limits.tell(ask(&limits, "a", "10.0.0.1", begin).expect("let through"), &mut headers);
    assert_eq!(headers["ratelimit"], "\"user\";r=1;t=1");
    assert_eq!(headers["ratelimit-policy"], "\"user\";q=2;w=2");
    ask(&limits, "a", "10.0.0.1", begin).expect("let through");
    let refused = ask(&limits, "a", "10.0.0.2", begin).expect_err("over the limit");
    assert_eq!(told(&refused), (429, "1", "\"user\";r=0;t=1", "\"user\";q=2;w=2"));
    ask(&limits, "b", "10.0.0.1", begin).expect("another user");
    ask(&limits, "a", "10.0.0.1", begin + Duration::from_millis(600)).expect("one has come back");
}

#[test]
fn waits_are_told_in_whole_seconds_rounded_up() {
    let limits = limits("1/m", "", "");
    ask(&limits, "a", "10.0.0.1", Duration::ZERO).expect("the first");
    let wait = |after| {
        let refused = ask(&limits, "a", "10.0.0.1", after).expect_err("over the limit");
        refused.headers()["retry-after"].to_str().expect("a number").to_owned()
    };
    assert_eq!(wait(Duration::ZERO), "60");
    assert_eq!(wait(Duration::from_millis(58_001)), "2");
    assert_eq!(wait(Duration::from_millis(59_999)), "1");
}

#[test]
fn an_address_is_limited_whoever_it_says_it_is_and_an_ipv6_network_is_one_client() {
    let limits = limits("", "2/h", "");
    for (number, client) in ["10.0.0.1", "::ffff:10.0.0.1", "10.0.0.1"].iter().enumerate() {
        assert_eq!(ask(&limits, &format!("user-{number}"), client, Duration::ZERO).is_ok(), number < 2);
    }
    for (number, client) in ["2001:db8::1", "2001:db8::2", "2001:db8:0:0:ffff::"].iter().enumerate() {
        assert_eq!(ask(&limits, "a", client, Duration::ZERO).is_ok(), number < 2);
    }
    assert!(ask(&limits, "a", "2001:db8:0:1::1", Duration::ZERO).is_ok());
}

#[test]
fn a_request_that_one_limit_refuses_takes_nothing_of_the_others() {
    let limits = limits("2/h", "3/h", "4/h");
    for number in 0..100 {
        assert_eq!(ask(&limits, "a", "10.0.0.1", Duration::ZERO).is_ok(), number < 2);
    }
    assert!(ask(&limits, "b", "10.0.0.1", Duration::ZERO).is_ok(), "the address has one left");
    let refused = ask(&limits, "b", "10.0.0.1", Duration::ZERO).expect_err("the address has none left");
    assert_eq!(told(&refused).2, "\"client\";r=0;t=1200");
    assert_eq!(told(&refused).3, "\"user\";q=2;w=3600, \"client\";q=3;w=3600");
    assert!(ask(&limits, "c", "10.0.0.2", Duration::ZERO).is_ok(), "the last one of all");
    let refused = ask(&limits, "d", "10.0.0.3", Duration::ZERO).expect_err("nobody has one left");
    assert_eq!(told(&refused), (429, "900", "\"total\";r=0;t=900", "\"total\";q=4;w=3600"));
}

#[test]
fn a_clock_that_goes_back_costs_one_bucket_at_most() {
    let limits = limits("10/s", "", "");
    let late = Duration::from_secs(3600);
    assert_eq!((0..100).filter(|_| ask(&limits, "a", "10.0.0.1", late).is_ok()).count(), 10);
    // Before it began, too: the time is then that of the beginning.
    let early = limits.origin.checked_sub(Duration::from_secs(1)).unwrap_or(limits.origin);
    let refused = at(&limits, "a", "10.0.0.1", early).expect_err("empty as it was");
    assert_eq!(told(&refused).1, "1");
}
