//! P7: a fourth node comes in under load, warm and cold; what it is handed, also without load, against a raw copy of the same
//! bytes.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use anyhow::Context;
use serde::Deserialize;

use super::bench::Bench;
use super::cluster::Cluster;
use super::postgres::Postgres;
use super::process::Core;
use super::rounds::{Shape, load, median, warm};
use super::section::{Section, count};
use super::servers::Server;
use crate::keyspace::KeySpace;
use crate::load::Report;

/// How long after the begin of the load the verb is started.
const LEAD: Duration = Duration::from_millis(1000);
/// The raw copy is written in pieces of this size, as the handoff's batches are.
const PIECE: usize = 64 << 10;
/// The raw copy is made so often, and the middle one counts: it takes milliseconds.
const RAW_COPIES: usize = 5;
/// The size of the larger values, of which there are fewer.
const LARGE: usize = 4096;
const FEWER: u64 = 5;

/// What `migrator --json` says of a change, as far as we need it.
#[derive(Debug, Deserialize)]
struct Summary {
    copied_entries: u64,
    copied_bytes: u64,
    moved_slots: u64,
    warm_share: Option<f64>,
    write_pause_ms: Option<u64>,
    phases_ms: Phases,
}

#[derive(Debug, Deserialize)]
struct Phases {
    copy_keys: Option<u64>,
}

/// A window of load, with or without a change in it.
struct Window {
    report: Report,
    origin_reads: f64,
    /// Of these, of sealed slots, which are not served from memory.
    sealed_reads: f64,
    change: Option<(Summary, f64)>,
}

/// The load of every window: the same requests.
fn mix(bench: &Bench) -> (Vec<String>, f64) {
    let rate = bench.scale.pick(2000.0, 200.0);
    let seconds = bench.scale.pick(12.0, 3.0);
    let requests = (rate * seconds) as u64;
    let more = [
        "--distribution",
        "zipf:0.99",
        "--writes",
        "10",
        "--rate",
        &rate.to_string(),
        "--requests",
        &requests.to_string(),
    ]
    .map(str::to_owned);
    (more.to_vec(), seconds)
}

fn window(bench: &Bench, cluster: &Cluster, gateway: &Server, shape: &Shape, verb: &[&str]) -> anyhow::Result<Window> {
    let sealed = || cluster.metric("shardcache_node_bypasses_total", "reason=\"sealed\"");
    let (reads_before, sealed_before) = (cluster.origin_reads()?, sealed()?);
    let (report, change) = std::thread::scope(|scope| {
        let running = scope.spawn(|| load(bench, gateway.address, shape, Core::Any, &[]));
        let change = if verb.is_empty() { Ok(None) } else { change_under_load(cluster, verb).map(Some) };
        let report = running.join().map_err(|_| anyhow::anyhow!("the load's thread panicked"));
        (report, change)
    });
    let (report, change) = (report??, change?);
    let (origin_reads, sealed_reads) = (cluster.origin_reads()? - reads_before, sealed()? - sealed_before);
    Ok(Window { report, origin_reads, sealed_reads, change })
}

fn change_under_load(cluster: &Cluster, verb: &[&str]) -> anyhow::Result<(Summary, f64)> {
    std::thread::sleep(LEAD);
    change(cluster, verb)
}

fn change(cluster: &Cluster, verb: &[&str]) -> anyhow::Result<(Summary, f64)> {
    let began = Instant::now();
    let said = cluster.migrator(&[verb, &["--json"]].concat())?;
    let seconds = began.elapsed().as_secs_f64();
    // Events, one a line; the last one is the result.
    let summary = said.trim().lines().last().unwrap_or_default();
    Ok((serde_json::from_str(summary).with_context(|| format!("not a summary: {said}"))?, seconds))
}

/// P7.
pub(crate) fn add_node(bench: &Bench, postgres: &Postgres) -> anyhow::Result<Section> {
    postgres.process.pin(Core::Any)?;
    let Filled { cluster, gateway, mut shape, filled } = fill(bench, postgres, "p7", 256, bench.scale.entries)?;
    let (space, keys) = (shape.space, shape.keys);
    let (more, seconds) = mix(bench);
    shape.more = more;
    let steady = window(bench, &cluster, &gateway, &shape, &[])?;
    let warm = window(bench, &cluster, &gateway, &shape, &["add-node", "n4"])?;
    cluster.migrator(&["remove-node", "n4"])?;
    let (alone, _) = change(&cluster, &["add-node", "n4"])?;
    cluster.migrator(&["remove-node", "n4"])?;
    let cold = window(bench, &cluster, &gateway, &shape, &["add-node", "n4", "--cold"])?;
    let header = [
        "window",
        "requests",
        "errors",
        "origin reads",
        "of sealed slots",
        "÷ no change",
        "more, of 1000 requests",
        "change took",
        "p50 ms",
        "p99 ms",
        "longest wait ms",
    ];
    let mut section = Section::new("P7", "a fourth node under load", &header);
    for (name, window) in [("no change", &steady), ("add-node", &warm), ("add-node --cold: a bare flip", &cold)] {
        row(&mut section, name, window, &steady);
    }
    section.note(format!(
        "{} entries of 256 B of {} users in the L1 of three nodes on PostgreSQL without Redis, filled by `mget` through the gateway at {} a second; \
         {} s windows of the same requests, Zipf 0.99, 10 % writes, latency from the moment each request is due. Nothing is pinned.",
        count(keys as f64), count(space.users as f64), count(filled), seconds
    ));
    if let Some((summary, took)) = &warm.change {
        section.note(handoff("under this load", summary)?);
        section.note(what_was_kept(summary));
        if LEAD.as_secs_f64() + took > seconds {
            section.note("**The change took longer than the window.**".to_owned());
        }
    }
    section.note(handoff("without load", &alone)?);
    // They keep the processors busy, and the memory.
    drop((cluster, gateway));
    let large = fill(bench, postgres, "p7_large", LARGE, (bench.scale.entries / FEWER).max(1))?;
    let (summary, _) = change(&large.cluster, &["add-node", "n4"])?;
    section.note(handoff(&format!("of values of {LARGE} B, without load"), &summary)?);
    Ok(section)
}

/// Three nodes that have every entry in memory, and a fourth without slots.
struct Filled<'a> {
    cluster: Cluster<'a>,
    gateway: Server,
    shape: Shape,
    /// Entries a second.
    filled: f64,
}

fn fill<'a>(
    bench: &'a Bench,
    postgres: &'a Postgres,
    database: &str,
    value_bytes: usize,
    keys: u64,
) -> anyhow::Result<Filled<'a>> {
    let mut cluster = Cluster::start(bench, postgres.database(database)?, None, Core::Any, 3, "2GiB")?;
    let gateway = cluster.gateway(Core::Any)?;
    let space = KeySpace { users: bench.scale.pick(10_000, 50), value_bytes };
    let shape = Shape { connections: 64, keys, space, more: Vec::new() };
    cluster.database.insert_entries(space, keys)?;
    let began = Instant::now();
    warm(bench, gateway.address, &shape.clone().mget())?;
    let filled = keys as f64 / began.elapsed().as_secs_f64();
    cluster.add_standby(Core::Any)?;
    Ok(Filled { cluster, gateway, shape, filled })
}

fn row(section: &mut Section, name: &str, window: &Window, steady: &Window) {
    let errors: u64 = window.report.errors.values().sum();
    section.answers += window.report.answers;
    section.errors += errors;
    let milliseconds = |us: f64| format!("{:.1}", us / 1000.0);
    section.row([
        name.to_owned(),
        count((window.report.answers + errors) as f64),
        errors.to_string(),
        count(window.origin_reads),
        count(window.sealed_reads),
        format!("{:.2}", window.origin_reads / steady.origin_reads.max(1.0)),
        format!("{:.2}", (window.origin_reads - steady.origin_reads) * 1000.0 / (window.report.answers.max(1)) as f64),
        window.change.as_ref().map_or("–".to_owned(), |(_, seconds)| format!("{seconds:.2} s")),
        milliseconds(window.report.p50_us),
        milliseconds(window.report.p99_us),
        milliseconds(window.report.max_us),
    ]);
}

/// How fast entries were handed over. The time is that of the whole phase: from the question of what there is to copy, which
/// takes a look at every entry in memory, until the migrator has heard that all of it has arrived.
fn handoff(how: &str, summary: &Summary) -> anyhow::Result<String> {
    let copying = summary.phases_ms.copy_keys.unwrap_or_default().max(1) as f64 / 1000.0;
    let raw =
        (0..RAW_COPIES).map(|_| loopback_copy(summary.copied_bytes)).collect::<anyhow::Result<_>>().map(median)?;
    let megabytes = summary.copied_bytes as f64 / 1e6;
    Ok(format!(
        "Handoff {how}: {} entries, {megabytes:.1} MB of keys and values, {} slots in {copying:.3} s: {} entries/s, {:.0} MB/s. \
         A raw copy of as many bytes over loopback took {raw:.3} s, {:.0} MB/s; the handoff's rate is {:.3} of it.",
        count(summary.copied_entries as f64),
        summary.moved_slots,
        count(summary.copied_entries as f64 / copying),
        megabytes / copying,
        megabytes / raw,
        raw / copying
    ))
}

fn what_was_kept(summary: &Summary) -> String {
    let warm = summary.warm_share.map_or("unknown".to_owned(), |share| format!("{:.1} %", share * 100.0));
    let pause = summary.write_pause_ms.map_or("unknown".to_owned(), |ms| format!("{ms} ms"));
    format!("Kept warm: {warm} of the entries held before; write pause of moving slots: {pause}.")
}

/// The time it takes to write and read so many bytes over a loopback connection.
fn loopback_copy(bytes: u64) -> anyhow::Result<f64> {
    let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
    let address = listener.local_addr()?;
    let began = Instant::now();
    let writer = std::thread::spawn(move || -> std::io::Result<()> {
        let mut stream = TcpStream::connect(address)?;
        let piece = vec![0; PIECE];
        let mut left = bytes;
        while left > 0 {
            let count = left.min(PIECE as u64);
            stream.write_all(&piece[..count as usize])?;
            left -= count;
        }
        Ok(())
    });
    let (mut stream, _) = listener.accept()?;
    let mut buffer = vec![0; PIECE];
    let mut copied = 0;
    loop {
        let count = stream.read(&mut buffer)?;
        if count == 0 {
            break;
        }
        copied += count as u64;
    }
    writer.join().map_err(|_| anyhow::anyhow!("the writer panicked"))??;
    anyhow::ensure!(copied == bytes, "copied {copied} of {bytes} bytes");
    Ok(began.elapsed().as_secs_f64().max(f64::EPSILON))
}
