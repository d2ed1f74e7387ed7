//! Two operators at once, or one verb given twice: one winner, and the other is told why not (D04).

use std::time::Duration;

use tempfile::TempDir;
use tests::cluster::Cluster;
use tests::processes::{Finished, Process, free_address, run};

use crate::support::{Door, FlipHeld, add_standby, cluster, members, refused, shares};

/// How long a flip is held for the second operator: less than a statement of the migrator may take (3 s).
const HELD: Duration = Duration::from_millis(1500);

/// Runs both in the same second, the flip held back until both are under way or one is refused.
async fn race(cluster: &Cluster, owner: &str, first: &[&str], second: &[&str]) -> [Finished; 2] {
    let held = FlipHeld::of(cluster, owner).await;
    let release = async {
        tokio::time::sleep(HELD).await;
        held.release().await;
    };
    let (first, second, ()) = tokio::join!(cluster.migrator(first), cluster.migrator(second), release);
    [first, second]
}

/// Exactly one has won; the other ended with a reason and one of these codes.
fn one_winner(ended: &[Finished; 2], loser_codes: &[i32]) -> usize {
    let codes = ended.each_ref().map(|finished| finished.code.expect("no signal"));
    let winner = codes.iter().position(|code| *code == 0).unwrap_or_else(|| panic!("no winner: {ended:#?}"));
    let loser = &ended[1 - winner];
    assert!(loser_codes.contains(&codes[1 - winner]), "{ended:#?}");
    assert!(loser.stderr.contains("migrator: ") && loser.stderr.contains(" is "), "a reason: {loser:#?}");
    winner
}

#[tokio::test]
async fn two_operators_at_once_have_one_winner() {
    let mut cluster = cluster(1).await;
    let gateway = Door::of(&cluster, 0);
    for name in ["n4", "n5"] {
        add_standby(&mut cluster, name, &[]).await;
    }
    // 3: the other's change was seen; 1: the plan was made for the ring before it.
    let ended = race(&cluster, "n1", &["add-node", "n4"], &["remove-node", "n1"]).await;
    let expected: &[&str] = match one_winner(&ended, &[3, 1]) {
        0 => &["n1", "n2", "n3", "n4"],
        _ => &["n2", "n3"],
    };
    gateway.follows(2).await;
    assert_eq!(members(&gateway.ring().await), expected);

    let ended = race(&cluster, "n2", &["add-node", "n5"], &["add-node", "n5"]).await;
    one_winner(&ended, &[3, 1]);
    gateway.follows(3).await;
    assert!(members(&gateway.ring().await).contains(&"n5".to_owned()));
}

#[tokio::test]
async fn while_a_change_runs_others_are_told_what_runs_and_who_runs_it() {
    let mut cluster = cluster(1).await;
    add_standby(&mut cluster, "n4", &[]).await;
    let gateway = Door::of(&cluster, 0);
    let held = FlipHeld::of(&cluster, "n1").await;
    let mut running = cluster.start_migrator(&["add-node", "n4"]);
    gateway.sees_phase("sealed").await;
    let operator = format!("pid {}", running.pid());
    let (removing, adding) = tokio::join!(
        refused(&cluster, &["remove-node", "n2"], 3, "(add-node n4) is active in phase sealed"),
        refused(&cluster, &["add-node", "n4"], 3, "(add-node n4) is active in phase sealed"),
    );
    for loser in [removing, adding] {
        assert!(loser.stderr.contains(&operator) && loser.stderr.contains("migrator resume"), "{loser:#?}");
    }
    held.release().await;
    assert_eq!(running.wait_end(Duration::from_secs(20)).await.code(), Some(0), "{}", running.log_tail());
    gateway.follows(2).await;
}

#[tokio::test]
async fn a_verb_given_twice_is_carried_out_once_and_an_idle_one_not_at_all() {
    let mut cluster = cluster(1).await;
    add_standby(&mut cluster, "n4", &[]).await;
    let gateway = Door::of(&cluster, 0);
    for verb in ["resume", "abort"] {
        refused(&cluster, &[verb], 1, "no ring change is active").await;
    }
    for (verb, epoch) in [("abort", 1), ("resume", 2)] {
        let held = FlipHeld::of(&cluster, "n1").await;
        let mut migrator = cluster.start_migrator(&["add-node", "n4"]);
        gateway.sees_phase("sealed").await;
        migrator.kill();
        held.release().await;
        let (verbs, again) = ([verb], [verb]);
        let (first, second) = tokio::join!(cluster.migrator(&verbs), cluster.migrator(&again));
        // The second finds it done by the first, or joins in and ends the same way.
        let codes = [first.code, second.code];
        assert!(codes.contains(&Some(0)), "{first:#?}{second:#?}");
        assert!(codes.iter().all(|code| matches!(code, Some(0 | 1))), "{first:#?}{second:#?}");
        for ended in [first, second].iter().filter(|ended| ended.code != Some(0)) {
            assert!(ended.stderr.contains("no ring change is active"), "{ended:#?}");
        }
        gateway.follows(epoch).await;
    }
    for verb in ["resume", "abort"] {
        refused(&cluster, &[verb], 1, "no ring change is active").await;
    }
    refused(&cluster, &["add-node", "n4"], 1, "n4 is a member already").await;
    assert_eq!(gateway.epoch().await, 2);
}

#[tokio::test]
async fn the_last_member_cannot_leave() {
    const BOUND: Duration = Duration::from_secs(30);
    let data = TempDir::new().expect("a directory");
    let (listen, directory) = (free_address(), data.path().display().to_string());
    let options = ["--nodes", "1", "--listen", &listen.to_string(), "--data-dir", &directory];
    let mut standalone = Process::start("shardcache", &options, &Vec::new());
    standalone.wait_ready(listen, "/readyz").await;
    let database = vec![("DATABASE_URL".to_owned(), format!("sqlite://{directory}/shardcache.db"))];
    let ended = run("migrator", &["remove-node", "node-1"], &database, BOUND).await;
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    assert!(ended.stderr.contains("node-1 is the last member"), "{ended:#?}");
    let gateway = Door::new(&format!("http://{listen}"));
    assert_eq!((gateway.epoch().await, shares(&gateway.ring().await)["node-1"]), (1, 4096));
}
