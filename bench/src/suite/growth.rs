//! P12: whether reads cost more with more entries, users, nodes or idle connections.

use super::bench::Bench;
use super::cluster::Cluster;
use super::http::hold_idle;
use super::memory::IDLE;
use super::plot::{Curve, Plot};
use super::postgres::Postgres;
use super::process::Core;
use super::rounds::{Medians, Shape, Subject, interleave, warm};
use super::section::{Section, count};
use super::servers::Server;
use crate::keyspace::KeySpace;

const VALUE_BYTES: usize = 100;
/// Room for everything.
const ROOM: &str = "8GiB";

/// One step of a growth.
type Step = (u64, Medians);

/// P12.
pub(crate) fn growth(bench: &Bench, postgres: &Postgres) -> anyhow::Result<Section> {
    // Where entries come from is not measured here, but takes time.
    postgres.process.pin(Core::Any)?;
    let header = ["what grows", "to", "rps", "÷ first", "CPU µs", "p99 µs", "÷ first", "errors"];
    let mut section = Section::new("P12", "cost growth", &header);
    add(&mut section, "entries in L1", "growth-entries.svg", &entries(bench, postgres)?);
    add(&mut section, "users", "growth-users.svg", &users(bench, postgres)?);
    add(&mut section, "nodes in one process, with gateway", "growth-nodes.svg", &nodes(bench, postgres)?);
    add(&mut section, "idle connections", "growth-idle.svg", &idle(bench, postgres)?);
    section.note(format!("L1 hits of uniformly drawn keys, values of {VALUE_BYTES} B, 64 connections, at the node; with the nodes in one process through its gateway, nodes and gateway together on one core."));
    section.note(format!(
        "{} entries at most, and 100,000 users, of one entry each: ten times as many would take the run over its 15 minutes.",
        count(bench.scale.entries as f64)
    ));
    Ok(section)
}

fn add(section: &mut Section, what: &str, file: &str, steps: &[Step]) {
    let Some((_, first)) = steps.first() else { return };
    for (to, it) in steps {
        section.answers += it.answers;
        section.errors += it.errors;
        section.row([
            what.to_owned(),
            count(*to as f64),
            count(it.rps),
            format!("{:.2}", it.rps / first.rps),
            format!("{:.1}", it.cpu_us),
            format!("{:.0}", it.p99_us),
            format!("{:.2}", it.p99_us / first.p99_us),
            it.errors.to_string(),
        ]);
    }
    let x: Vec<f64> = steps.iter().map(|(to, _)| *to as f64).collect();
    let rps = Curve {
        name: "requests a second",
        y: steps.iter().map(|(_, it)| it.rps).collect(),
        label: |rps| format!("{:.0}k", rps / 1000.0),
    };
    let p99 = Curve {
        name: "99th percentile",
        y: steps.iter().map(|(_, it)| it.p99_us).collect(),
        label: |us| if us < 1000.0 { format!("{us:.0} µs") } else { format!("{:.1} ms", us / 1000.0) },
    };
    let title = format!("L1 hits by {what}, first point = 100 %");
    let plot = Plot { title: &title, x_name: what, x: &x, curves: &[rps, p99] };
    section.plots.push((file.to_owned(), plot.svg()));
}

fn measure(bench: &Bench, server: &Server, shape: &Shape) -> anyhow::Result<Medians> {
    let subject = Subject {
        name: "",
        target: server.address,
        same_body: false,
        under_test: vec![&server.process],
        beside: Vec::new(),
    };
    Ok(interleave(bench, &[subject], shape)?.pop().unwrap_or_default())
}

fn shape(keys: u64, users: u64) -> Shape {
    Shape { connections: 64, keys, space: KeySpace { users, value_bytes: VALUE_BYTES }, more: Vec::new() }
}

/// 10⁴, 10⁵ … entries, as far as there are.
fn entries(bench: &Bench, postgres: &Postgres) -> anyhow::Result<Vec<Step>> {
    let cluster = Cluster::start(bench, postgres.database("p12_entries")?, None, Core::Server, 1, ROOM)?;
    let all = bench.scale.entries;
    let users = bench.scale.users;
    cluster.database.insert_entries(shape(all, users).space, all)?;
    let mut steps = Vec::new();
    let mut held = 0;
    for upto in [100, 10_000, 100_000, 1_000_000, 10_000_000]
        .into_iter()
        .filter(|upto| *upto <= all && (bench.scale.smoke || *upto >= 10_000))
    {
        // Only the new ones are asked for.
        let new = shape(upto - held, users).mget().with(&["--first-key", &held.to_string()]);
        warm(bench, cluster.node()?.address, &new)?;
        held = upto;
        steps.push((upto, measure(bench, cluster.node()?, &shape(upto, users))?));
    }
    Ok(steps)
}

/// The same number of entries, of more and more users.
fn users(bench: &Bench, postgres: &Postgres) -> anyhow::Result<Vec<Step>> {
    let cluster = Cluster::start(bench, postgres.database("p12_users")?, None, Core::Server, 1, ROOM)?;
    let keys = bench.scale.entries.min(100_000);
    let mut steps = Vec::new();
    for users in [10, 1000, 100_000].into_iter().filter(|users| *users <= keys) {
        let all = shape(keys, users);
        cluster.database.insert_entries(all.space, keys)?;
        warm(bench, cluster.node()?.address, &all.clone().mget())?;
        steps.push((users, measure(bench, cluster.node()?, &all)?));
    }
    Ok(steps)
}

/// More and more nodes in one process.
fn nodes(bench: &Bench, postgres: &Postgres) -> anyhow::Result<Vec<Step>> {
    let mut steps = Vec::new();
    let all = shape(bench.scale.keys, bench.scale.users);
    for nodes in bench.scale.pick(vec![1, 2, 4, 8, 16], vec![1, 2]) {
        let name = format!("p12_nodes{nodes}");
        let database = postgres.database(&name)?;
        let launch = bench.launch(&name, Core::Server);
        let address = bench.free_address()?;
        let mut command = launch.command(bench.program("shardcache")?);
        command.env("DATABASE_URL", database.url()).args([
            "--nodes",
            &nodes.to_string(),
            "--listen",
            &address.to_string(),
        ]);
        command.arg("--data-dir").arg(bench.scratch().join(&name));
        let mut process = launch.start(&mut command)?;
        let log = bench.scratch().join(format!("{name}.log"));
        process.wait(|| std::fs::read_to_string(&log).is_ok_and(|log| log.contains("shardcache is ready")))?;
        database.insert_entries(all.space, all.keys)?;
        let server = Server { process, address };
        warm(bench, address, &all.clone().each_once())?;
        steps.push((nodes, measure(bench, &server, &all)?));
    }
    Ok(steps)
}

/// More and more connections that say nothing.
fn idle(bench: &Bench, postgres: &Postgres) -> anyhow::Result<Vec<Step>> {
    let cluster = Cluster::start(bench, postgres.database("p12_idle")?, None, Core::Server, 1, ROOM)?;
    let all = shape(bench.scale.keys, bench.scale.users);
    cluster.database.insert_entries(all.space, all.keys)?;
    let node = cluster.node()?;
    warm(bench, node.address, &all.clone().each_once())?;
    let mut steps = Vec::new();
    for idle in bench.scale.pick(vec![64, 1000, IDLE], vec![16, 64]) {
        let held = hold_idle(node.address, idle, &all.space.user(0), &KeySpace::key(0))?;
        steps.push((idle as u64, measure(bench, node, &all)?));
        drop(held);
    }
    Ok(steps)
}
