//! P10: what an entry costs in memory beside its value, and what an idle connection costs.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use super::bench::Bench;
use super::cluster::Cluster;
use super::http::hold_idle;
use super::postgres::Postgres;
use super::process::Core;
use super::rounds::{Shape, warm};
use super::section::{Section, count};
use super::servers::{self, Server, redis_info};
use crate::keyspace::KeySpace;
use crate::limits;

/// The values that are kept.
const SIZES: [usize; 2] = [100, 1024];
/// Room for all of them.
const ROOM: &str = "8GiB";
const ROOM_MEGABYTES: u64 = 8192;
/// How many commands are sent to a peer before its answers are read.
const BATCH: u64 = 500;
/// How many reads make L1 do its sums.
const SOME_READS: u64 = 2000;
/// Idle connections. A server of ours has 10,000 at most; some are left for the runner.
pub(crate) const IDLE: usize = 9900;

/// What a server had before and has after the fill, in bytes.
struct Grown {
    resident: u64,
    /// By its own account.
    told: Option<u64>,
}

/// P10.
pub(crate) fn memory(bench: &Bench, postgres: &Postgres) -> anyhow::Result<Section> {
    // Where entries come from is not measured here, but takes time.
    postgres.process.pin(Core::Any)?;
    let header = [
        "server",
        "value",
        "entries",
        "resident bytes per entry over its value",
        "by its own account",
        "entries/s put in",
    ];
    let mut section = Section::new("P10", "memory per entry, and per idle connection", &header);
    for value_bytes in SIZES {
        let shape = Shape {
            connections: 8,
            keys: bench.scale.entries,
            space: KeySpace { users: bench.scale.users, value_bytes },
            more: Vec::new(),
        };
        let mut row = |name: &str, grown: Grown, seconds: f64| {
            let over = |bytes: u64| count((bytes as f64 / shape.keys as f64 - value_bytes as f64).max(0.0));
            let told = grown.told.map_or("–".to_owned(), over);
            let rate = count(shape.keys as f64 / seconds);
            section.row([
                name.to_owned(),
                format!("{value_bytes} B"),
                count(shape.keys as f64),
                over(grown.resident),
                told,
                rate,
            ]);
        };
        let (grown, seconds) = node(bench, postgres, &shape)?;
        row("cache-node", grown, seconds);
        let (grown, seconds) = redis(bench, &shape)?;
        row("redis-server", grown, seconds);
        let (grown, seconds) = memcached(bench, &shape)?;
        row("memcached", grown, seconds);
    }
    for note in idle(bench, postgres)? {
        section.note(note);
    }
    section.note("Resident: VmRSS full minus empty, divided by the entries; keys are included, of 13 to 21 bytes (`b100-17/item/5017`). The node is filled by `mget` from PostgreSQL, the peers by pipelined SETs. \"By its own account\": Redis' used_memory, the node's `l1_bytes`.");
    Ok(section)
}

fn node(bench: &Bench, postgres: &Postgres, shape: &Shape) -> anyhow::Result<(Grown, f64)> {
    let name = format!("p10_{}", shape.space.value_bytes);
    let cluster = Cluster::start(bench, postgres.database(&name)?, None, Core::Server, 1, ROOM)?;
    cluster.database.insert_entries(shape.space, shape.keys)?;
    let node = cluster.node()?;
    let before = node.process.resident_bytes()?;
    let began = Instant::now();
    warm(bench, node.address, &shape.clone().mget())?;
    let seconds = began.elapsed().as_secs_f64();
    // L1 does its sums when it is used: a few reads bring them up to date.
    let some = Shape { keys: shape.keys.min(SOME_READS), ..shape.clone() }.each_once();
    let (waited, mut held) = (Instant::now(), 0);
    while held != shape.keys && waited.elapsed() < limits::READY {
        warm(bench, node.address, &some)?;
        held = cluster.metric("shardcache_node_l1_entries", "")? as u64;
    }
    anyhow::ensure!(held == shape.keys, "the node holds {held} of {} entries", shape.keys);
    let resident = node.process.resident_bytes()?.saturating_sub(before);
    let told = cluster.metric("shardcache_node_l1_bytes", "")? as u64;
    cluster.database.sql("TRUNCATE entries")?;
    Ok((Grown { resident, told: Some(told) }, seconds))
}

fn redis(bench: &Bench, shape: &Shape) -> anyhow::Result<(Grown, f64)> {
    let server = servers::redis(bench, Core::Server)?;
    let before = (server.process.resident_bytes()?, redis_info(&server, "used_memory")?);
    let began = Instant::now();
    fill(&server, shape, b"+OK\r\n", |key, value, out| {
        write!(out, "*3\r\n$3\r\nSET\r\n${}\r\n{key}\r\n${}\r\n", key.len(), value.len())?;
        out.write_all(value)?;
        out.write_all(b"\r\n")
    })?;
    let seconds = began.elapsed().as_secs_f64();
    let resident = server.process.resident_bytes()?.saturating_sub(before.0);
    let told = redis_info(&server, "used_memory")?.saturating_sub(before.1);
    Ok((Grown { resident, told: Some(told) }, seconds))
}

fn memcached(bench: &Bench, shape: &Shape) -> anyhow::Result<(Grown, f64)> {
    let server = servers::memcached(bench, Core::Server, ROOM_MEGABYTES)?;
    let before = server.process.resident_bytes()?;
    let began = Instant::now();
    fill(&server, shape, b"STORED\r\n", |key, value, out| {
        write!(out, "set {key} 0 0 {}\r\n", value.len())?;
        out.write_all(value)?;
        out.write_all(b"\r\n")
    })?;
    let seconds = began.elapsed().as_secs_f64();
    Ok((Grown { resident: server.process.resident_bytes()?.saturating_sub(before), told: None }, seconds))
}

/// Sends every key to a peer; each must be acknowledged.
fn fill(
    server: &Server,
    shape: &Shape,
    acknowledged: &[u8],
    command: impl Fn(&str, &[u8], &mut Vec<u8>) -> std::io::Result<()>,
) -> anyhow::Result<()> {
    let mut stream = TcpStream::connect(server.address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(limits::ANSWER))?;
    let (mut out, mut answers) = (Vec::new(), Vec::new());
    for first in (0..shape.keys).step_by(BATCH as usize) {
        let batch = first..shape.keys.min(first + BATCH);
        out.clear();
        for key in batch.clone() {
            let name = format!("{}/{}", shape.space.user(key), KeySpace::key(key));
            command(&name, &shape.space.value(key), &mut out)?;
        }
        stream.write_all(&out)?;
        answers.resize(batch.count() * acknowledged.len(), 0);
        stream.read_exact(&mut answers)?;
        anyhow::ensure!(
            answers.chunks(acknowledged.len()).all(|answer| answer == acknowledged),
            "a peer refuses an entry"
        );
    }
    Ok(())
}

fn idle(bench: &Bench, postgres: &Postgres) -> anyhow::Result<Vec<String>> {
    let cluster = Cluster::start(bench, postgres.database("p10_idle")?, None, Core::Server, 1, "64MiB")?;
    let gateway = cluster.gateway(Core::Server)?;
    let shape = Shape::reads(bench, 1, 256);
    cluster.database.insert_entries(shape.space, 1)?;
    let count = bench.scale.pick(IDLE, 100);
    let mut notes = Vec::new();
    for (name, server) in [("the node", cluster.node()?), ("the gateway", &gateway)] {
        // The first requests are not what is measured.
        drop(hold_idle(server.address, 64, &shape.space.user(0), &KeySpace::key(0))?);
        let before = server.process.resident_bytes()?;
        let held = hold_idle(server.address, count, &shape.space.user(0), &KeySpace::key(0))?;
        let grown = server.process.resident_bytes()?.saturating_sub(before);
        let each = grown as f64 / 1024.0 / held.len() as f64;
        notes.push(format!(
            "{count} idle connections to {name}, each after one answered request: {each:.1} KiB resident each."
        ));
    }
    Ok(notes)
}
