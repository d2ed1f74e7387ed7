//! Several failure controllers: one leads, another follows at once, and one that was frozen does nothing when it wakes.

use std::time::{Duration, Instant};

use tests::poll::eventually;

use crate::support::{HEALED, Users, cluster, done, leader, logs, status};

/// How often it has become the leader.
fn terms(watch: &tests::processes::Process) -> usize {
    watch.log().lines().filter(|line| line.contains("\"leading\"")).count()
}

#[tokio::test]
async fn a_leader_frozen_beyond_its_term_does_nothing_when_it_wakes_and_stands_by() {
    let mut cluster = cluster().await;
    let first = leader(&cluster, "2s").await;
    let mut second = cluster.start_migrator(&["watch", "--grace", "2s"]);
    logs(&second, "standing by").await;
    let all = Users::new(&cluster, 60);
    all.put_all("first").await;

    cluster.node("n3").process.kill();
    // It has seen the node go, and would take it over next.
    logs(&first, "down: n3").await;
    first.pause();
    logs(&second, "are taken over").await;
    eventually("all can write", HEALED, async || all.can_put_all("second").await).await;
    let so_far = done(&cluster).await;
    assert_eq!(so_far, ["takeover n3"]);

    first.resume();
    logs(&first, "the term is over").await;
    logs(&first, "standing by").await;
    all.read_all("second").await;
    assert_eq!((done(&cluster).await, terms(&first)), (so_far, 1));

    // A leader that is told to stop gives the post back: the other need not wait for the term to run out.
    let asked = Instant::now();
    assert_eq!(second.stop().await.code(), Some(0));
    eventually("the first leads again", HEALED, async || terms(&first) == 2).await;
    assert!(asked.elapsed() < Duration::from_secs(3), "{:?}", asked.elapsed());
}

#[tokio::test]
async fn the_check_says_who_leads_and_fails_only_when_nobody_does() {
    let cluster = cluster().await;
    let nobody = cluster.migrator(&["watch", "--check"]).await;
    assert_eq!(nobody.code, Some(1), "{nobody:?}");
    assert!(nobody.stderr.contains("no failure controller is leading"), "{nobody:?}");
    let mut watch = leader(&cluster, "10s").await;
    eventually("the note says how things stand", HEALED, async || {
        let led = cluster.migrator(&["watch", "--check"]).await;
        led.code == Some(0) && led.stdout.contains("all members are up")
    })
    .await;
    let controller = status(&cluster).await["controller"].clone();
    assert_eq!((&controller["leading"], &controller["note"]), (&true.into(), &"all members are up".into()));
    assert_eq!(watch.stop().await.code(), Some(0));
    assert_eq!(cluster.migrator(&["watch", "--check"]).await.code, Some(1));
}

#[tokio::test]
async fn without_the_database_a_controller_says_so_once_and_leads_again_when_it_is_back() {
    let mut cluster = cluster().await;
    let mut watch = leader(&cluster, "2s").await;
    cluster.postgres.as_mut().expect("on Postgres").stop().await.expect("stopped");
    logs(&watch, "the term is over").await;
    logs(&watch, "cannot work now, and keeps trying").await;
    let check = cluster.migrator(&["watch", "--check"]).await;
    assert_eq!(check.code, Some(0), "no fault of a controller: {check:?}");
    cluster.postgres.as_mut().expect("on Postgres").restart().await.expect("started");
    eventually("it leads again", HEALED, async || terms(&watch) == 2).await;
    let all = Users::new(&cluster, 30);
    eventually("all can write", HEALED, async || all.can_put_all("after").await).await;
    assert_eq!(done(&cluster).await, [""; 0], "nobody was taken over");
    let said = watch.log().lines().filter(|line| line.contains("keeps trying")).count();
    assert!(said <= 3, "{said} times: {}", watch.log_tail());
    assert!(watch.is_running());
}

#[tokio::test]
async fn a_controller_stops_quickly_also_while_the_database_does_not_answer() {
    let cluster = cluster().await;
    let mut watch = leader(&cluster, "2s").await;
    cluster.postgres.as_ref().expect("on Postgres").pause().expect("paused");
    let asked = Instant::now();
    assert_eq!(watch.stop().await.code(), Some(0));
    assert!(asked.elapsed() < Duration::from_secs(5), "{:?}: {}", asked.elapsed(), watch.log_tail());
    cluster.postgres.as_ref().expect("on Postgres").resume().expect("resumed");
}
