//! P13: how long a start takes.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::bench::Bench;
use super::cluster::Cluster;
use super::postgres::Postgres;
use super::process::Core;
use super::rounds::median;
use super::section::Section;
use super::servers::{self, Server};

/// How often each is started.
const STARTS: usize = 5;

/// P13.
pub(crate) fn start(bench: &Bench, postgres: &Postgres) -> anyhow::Result<Section> {
    let mut section = Section::new("P13", "from start to ready", &["program", "starts", "median", "slowest"]);
    let starts = bench.scale.pick(STARTS, 1);
    let redis = servers::redis(bench, Core::Load)?;
    let mut cluster = Cluster::start(bench, postgres.database("p13")?, Some(&redis), Core::Any, 1, "256MiB")?;
    let mut times = Vec::new();
    for _ in 0..starts {
        let Some(Server { process, .. }) = cluster.nodes.pop() else { break };
        process.stop(Signal::TERM)?;
        let began = Instant::now();
        let node = cluster.launch_node("n1", Core::Any)?;
        times.push(began.elapsed());
        cluster.nodes.push(node);
    }
    section.row(row("cache-node, a member of a ring, on PostgreSQL and Redis", &times));
    let mut times = Vec::new();
    for number in 0..starts {
        times.push(standalone(bench, number)?);
    }
    section.row(row("shardcache, gateway and three nodes, on a new SQLite file", &times));
    section.note("A node is ready when /readyz is 200, shardcache when it says so on stdout; looked at every 2 ms.");
    Ok(section)
}

fn row(name: &str, times: &[Duration]) -> [String; 4] {
    let milliseconds = |seconds: f64| format!("{:.0} ms", seconds * 1000.0);
    let seconds: Vec<f64> = times.iter().map(Duration::as_secs_f64).collect();
    let slowest = seconds.iter().copied().fold(0.0, f64::max);
    [name.to_owned(), times.len().to_string(), milliseconds(median(seconds)), milliseconds(slowest)]
}

fn standalone(bench: &Bench, number: usize) -> anyhow::Result<Duration> {
    let name = format!("shardcache-{number}");
    let launch = bench.launch(&name, Core::Any);
    let mut command = launch.command(bench.program("shardcache")?);
    command.arg("--data-dir").arg(bench.scratch().join(&name)).args(["--listen", "127.0.0.1:0"]);
    let began = Instant::now();
    let mut process = launch.start(&mut command)?;
    let log = launch.logs.join(format!("{name}.log"));
    let says = || std::fs::read_to_string(&log).is_ok_and(|log| log.contains("shardcache is ready"));
    process.wait(says)?;
    let took = began.elapsed();
    process.stop(Signal::TERM)?;
    Ok(took)
}
