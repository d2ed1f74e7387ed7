//! A database without room for the new ring: the change is given up with the reason, and goes through once there is room.

use tests::checker::Checker;
use tests::cluster::Cluster;
use tests::door::{Door, members, users};
use tests::ring_change::{add_standby, cluster, done, json, refused};

use crate::support::assert_registers;

/// What Postgres says when a file cannot grow (SQLSTATE 53100), raised where the test wants it.
const FULL: &str = "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
    RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100'; END $$";
/// The flip cannot write the epoch.
const NO_EPOCH: &str = "CREATE TRIGGER full_disk BEFORE INSERT ON ring_epochs \
    FOR EACH ROW EXECUTE FUNCTION full_disk()";
/// The seal cannot be journaled.
const NO_SEAL: &str = "CREATE TRIGGER full_disk BEFORE UPDATE ON ring_changes \
    FOR EACH ROW WHEN (NEW.phase = 'sealed') EXECUTE FUNCTION full_disk()";
const THREE: [&str; 3] = ["n1", "n2", "n3"];
const FOUR: [&str; 4] = ["n1", "n2", "n3", "n4"];

async fn sql(cluster: &Cluster, sql: &str) -> String {
    cluster.postgres.as_ref().expect("on Postgres").sql(sql).await.expect("the statement runs")
}

/// Runs the verb against the full database: it ends, says why, and nothing of the ring has changed.
async fn given_up(cluster: &Cluster, verb: &[&str], expected: &[&str], epoch: u64) {
    const OWNERS: &str = "SELECT slot, owner FROM slots ORDER BY slot";
    let before = sql(cluster, OWNERS).await;
    let ended = cluster.migrator(verb).await;
    println!("{verb:?}: exit {:?}: {}", ended.code, ended.stderr.lines().last().unwrap_or_default());
    match ended.code {
        Some(4) => {
            let last = json(cluster, &["status"]).await["last_change"].clone();
            assert_eq!(last["phase"], "aborted", "{last}");
            assert!(last["reason"].to_string().contains("53100"), "{last}");
        }
        // Not even the end could be journaled: it is left, and says which verb leads on.
        Some(1) => {
            assert!(ended.stderr.contains("is left in phase") && ended.stderr.contains("migrator abort"), "{ended:#?}");
            done(cluster, &["abort"]).await;
        }
        _ => panic!("neither aborted nor left: {ended:#?}"),
    }
    assert!(ended.stderr.contains("53100"), "it names the reason: {ended:#?}");
    let status = json(cluster, &["status"]).await;
    assert_eq!((status["epoch"].as_u64(), status["change"].is_null()), (Some(epoch), true), "{status}");
    let gateway = Door::of(cluster, 0);
    gateway.follows(epoch).await;
    assert_eq!(members(&gateway.ring().await), expected);
    assert_eq!(sql(cluster, OWNERS).await, before, "the slots are with their old owners");
}

#[tokio::test]
async fn a_change_that_finds_the_database_full_leaves_the_old_ring_and_succeeds_when_there_is_room() {
    let mut cluster = cluster(1).await;
    add_standby(&mut cluster, "n4", &[]).await;
    let gateway = Door::of(&cluster, 0);
    let all = users(60);
    gateway.put_all(&all, "before").await;
    sql(&cluster, FULL).await;
    let checker = Checker::start(vec![gateway.clone()], 53100);
    let mut epoch = 1;
    for (trigger, table) in [(NO_EPOCH, "ring_epochs"), (NO_SEAL, "ring_changes")] {
        for (verb, old, new) in [(["add-node", "n4"], &THREE[..], &FOUR[..]), (["remove-node", "n4"], &FOUR, &THREE)] {
            sql(&cluster, trigger).await;
            given_up(&cluster, &verb, old, epoch).await;
            // Its slots take writes again although there is still no room for a change.
            let value = format!("after {verb:?} at {table}");
            gateway.put_all(&all, &value).await;
            gateway.read_all(&all, &value).await;
            sql(&cluster, &format!("DROP TRIGGER full_disk ON {table}")).await;
            done(&cluster, &verb).await;
            epoch += 1;
            gateway.follows(epoch).await;
            assert_eq!(members(&gateway.ring().await), new);
            gateway.read_all(&all, &value).await;
            checker.goes_on(200).await;
        }
    }
    assert_registers(&checker.finish().await);
    refused(&cluster, &["abort"], 1, "no ring change is active").await;
}
