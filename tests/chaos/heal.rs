//! After the faults: everybody is served again in time, and all tiers agree with the origin.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use futures_util::future::join_all;
use reqwest::Method;
use serde_json::Value;
use tests::clients::Recorded;
use tests::door::Door;
use tests::history::{EntryName, Operation, Outcome};
use tests::http::send;
use tests::postgres::PostgresServer;
use tests::processes::STOP_BOUND;

use crate::stage::Stage;

/// How soon after the last fault every read and write of every user is served through every gateway: two leases, the grace, a
/// takeover, and the pauses of whatever has backed off meanwhile, on a busy machine.
pub(crate) const SERVED_BOUND: Duration = Duration::from_secs(30);
/// How soon no change of the ring is under way and every member is up and has slots: a change that nobody carries on is
/// resumed, or given up after three tries, and those that are back are let in one after the other.
pub(crate) const SETTLED_BOUND: Duration = Duration::from_secs(90);
/// How often a round of reads is repeated because late writes landed in it.
const ROUNDS_MAX: usize = 3;

/// How long it took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Healed {
    /// Until everybody was served.
    pub(crate) served: Duration,
    /// Until the ring had come to rest as well.
    pub(crate) settled: Duration,
}

/// Waits until all is well.
pub(crate) async fn heal(stage: &mut Stage, recorded: &mut Recorded) -> anyhow::Result<Healed> {
    let start = Instant::now();
    // Whatever their migrators were at is left to the controllers.
    stage.operators.clear();
    let mut served = None;
    loop {
        stage.is_whole()?;
        let refused = recorded.refused_by(&stage.doors).await;
        if refused == 0 {
            served.get_or_insert(start.elapsed());
        }
        ensure!(served.is_some() || start.elapsed() < SERVED_BOUND, "{refused} requests are not served in time");
        let unrest = unrest(&stage.doors).await;
        match (refused, unrest) {
            (0, None) => {
                let settled = start.elapsed();
                return Ok(Healed { served: served.unwrap_or(settled), settled });
            }
            (_, unrest) => ensure!(start.elapsed() < SETTLED_BOUND, "{refused} refused, and: {unrest:?}"),
        }
    }
}

/// Why the ring has not come to rest, as any gateway sees it.
async fn unrest(doors: &[Door]) -> Option<String> {
    let rings = doors.iter().map(|door| send(door.request(Method::GET, "anyone", "/v1/ring")));
    let rings = join_all(rings).await;
    let rings: Vec<Value> = rings.into_iter().flatten().filter(|ring| ring.status == 200).map(|r| r.json()).collect();
    let restless = |ring: &Value| {
        let away = |member: &Value| member["state"] != "up" || member["slots"] == 0;
        !ring["change"].is_null()
            || ring["epoch"] != rings[0]["epoch"]
            || ring["members"].as_array().is_none_or(|members| members.iter().any(away))
    };
    if rings.len() < doors.len() {
        return Some("a gateway does not tell the ring".to_owned());
    }
    rings.iter().find(|ring| restless(ring)).map(Value::to_string)
}

/// Reads every key through every gateway, from L1 as well as from L2 and the origin, and compares it with its row; how many
/// answers came from L2 after all nodes had been started with an empty L1.
pub(crate) async fn agreement(stage: &mut Stage, recorded: &mut Recorded) -> anyhow::Result<u64> {
    // The second time what the first has put into L1.
    for _ in 0..2 {
        agree(stage, recorded).await?;
    }
    restart_nodes(stage).await;
    heal(stage, recorded).await.context("after a restart of all nodes")?;
    agree(stage, recorded).await.context("after a restart of all nodes")?;
    let mut from_l2 = 0;
    for node in stage.cluster.nodes.values() {
        from_l2 += Door::new(&node.url()).counted("shardcache_node_reads_total{tier=\"l2\"}").await;
    }
    Ok(from_l2)
}

async fn restart_nodes(stage: &mut Stage) {
    for node in stage.cluster.nodes.values() {
        node.process.ask_to_stop();
    }
    for node in stage.cluster.nodes.values_mut() {
        node.process.wait_end(STOP_BOUND).await;
    }
    for node in stage.cluster.nodes.values_mut() {
        node.restart();
    }
}

async fn agree(stage: &mut Stage, recorded: &mut Recorded) -> anyhow::Result<()> {
    for _ in 0..ROUNDS_MAX {
        let before = rows(stage.postgres()).await?;
        let earlier = recorded.history.operations.len();
        let unanswered = recorded.read_every_key(&stage.doors).await;
        ensure!(unanswered == 0, "{unanswered} keys were not read: {:?}", recorded.read_errors);
        if rows(stage.postgres()).await? != before {
            continue;
        }
        let wrong = disagreements(&recorded.history.operations[earlier..], &recorded.history.names, &before);
        ensure!(wrong.is_empty(), "tiers disagree with the origin:\n{}", wrong.join("\n"));
        return Ok(());
    }
    bail!("the rows do not come to rest: somebody still writes")
}

/// Value and version by user and key.
type Rows = BTreeMap<(String, String), (u64, u64)>;

async fn rows(postgres: &PostgresServer) -> anyhow::Result<Rows> {
    let table = postgres.sql("SELECT usr, key, version, convert_from(value, 'UTF8') FROM entries").await?;
    table.lines().map(|line| row(line).with_context(|| format!("a row of nobody: {line}"))).collect()
}

/// A body is `seed:value`.
fn row(line: &str) -> Option<((String, String), (u64, u64))> {
    let [user, key, version, body] = line.split('|').collect::<Vec<_>>()[..] else { return None };
    let value = body.split_once(':')?.1.parse().ok()?;
    Some(((user.to_owned(), key.to_owned()), (value, version.parse().ok()?)))
}

/// Reads that do not say what the row of their entry says.
fn disagreements(reads: &[Operation], names: &[EntryName], rows: &Rows) -> Vec<String> {
    let mut wrong = Vec::new();
    for read in reads {
        let Some(EntryName { user, key }) = names.get(read.key as usize) else { continue };
        let row = rows.get(&(user.clone(), key.clone())).copied().unzip();
        let (value, version) = row;
        if read.outcome != (Outcome::Read { value, version }) {
            wrong.push(format!("{user} {key}: row {value:?} v{version:?}, read {read}"));
        }
    }
    wrong
}

mod checks {
    use tests::history::Action;

    use super::*;

    fn read(key: u32, seen: Option<(u64, u64)>) -> Operation {
        let (value, version) = seen.unzip();
        let outcome = Outcome::Read { value, version };
        Operation { client: 0, key, action: Action::Get, outcome, begun: Duration::ZERO, ended: Duration::ZERO }
    }

    #[test]
    fn a_read_of_another_value_version_or_absence_disagrees_with_the_row() {
        let names = ["k0", "k1"].map(|key| EntryName { user: "u".to_owned(), key: key.to_owned() });
        let rows = Rows::from([row("u|k0|9|5:17").expect("a row")]);
        let judged = |key, seen| disagreements(&[read(key, seen)], &names, &rows).len();
        assert_eq!((judged(0, Some((17, 9))), judged(1, None)), (0, 0));
        assert_eq!((judged(0, Some((16, 9))), judged(0, Some((17, 8))), judged(0, None)), (1, 1, 1));
        assert_eq!(judged(1, Some((17, 9))), 1);
    }
}
