//! P11: how many of a real trace's requests L1 answers, between LRU and what is possible.

use super::bench::Bench;
use super::cluster::Cluster;
use super::postgres::Postgres;
use super::process::Core;
use super::rounds::{Shape, load, warm};
use super::section::{Section, count};
use super::trace;
use crate::keyspace::KeySpace;

/// L1, in percent of the different keys.
const PERCENTS: [usize; 3] = [1, 5, 10];
/// Requests of a smoke run.
const SMOKE_REQUESTS: usize = 2000;

struct Replay<'a> {
    bench: &'a Bench,
    postgres: &'a Postgres,
    shape: Shape,
    requests: usize,
}

/// P11.
pub(crate) fn hit_ratio(bench: &Bench, postgres: &Postgres) -> anyhow::Result<Section> {
    let mut trace = trace::web12()?;
    trace.truncate(bench.scale.pick(usize::MAX, SMOKE_REQUESTS));
    let all = trace::distinct(&trace);
    let path = bench.scratch().join("trace");
    std::fs::write(&path, trace.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>())?;
    // One connection: the requests come in the trace's order.
    let space = KeySpace { users: bench.scale.users, value_bytes: 256 };
    let shape = Shape { connections: 1, keys: all as u64, space, more: Vec::new() };
    let each = bytes_of_an_entry(bench, postgres, &shape)?;
    let shape = shape.with(&["--sequence", &path.to_string_lossy()]);
    let replay = Replay { bench, postgres, shape, requests: trace.len() };
    let header = ["L1 holds", "entries", "LRU", "cache-node", "optimal", "of the gap from LRU to optimal"];
    let mut section = Section::new("P11", "hit ratio of L1 on a real trace", &header);
    for percent in PERCENTS {
        let capacity = (all * percent).div_ceil(100);
        let bytes = (capacity as f64 * each).ceil();
        let node = replay.run(&format!("of{percent}"), &format!("{bytes:.0}B"))?;
        let (lru, optimal) = (trace::lru(&trace, capacity), trace::optimal(&trace, capacity));
        let closed = (node - lru) / (optimal - lru).max(f64::EPSILON) * 100.0;
        let three = |ratio: f64| format!("{ratio:.3}");
        section.row([
            format!("{percent} %"),
            count(capacity as f64),
            three(lru),
            three(node),
            three(optimal),
            format!("{closed:.0} %"),
        ]);
    }
    section.note(format!(
        "{} requests on {} keys, in order over one connection. An L1 of so many entries has so many times {each:.0} B, which is what \
         the node itself says an entry of it takes. Trace `web12`: © headissue GmbH, Jens Wilke; CC BY 4.0; published with the Caffeine simulator \
         (tests/data/traces). LRU and optimal (Belady) are computed for the same requests.",
        count(trace.len() as f64), count(all as f64)
    ));
    Ok(section)
}

/// What the node says an entry takes in L1.
fn bytes_of_an_entry(bench: &Bench, postgres: &Postgres, shape: &Shape) -> anyhow::Result<f64> {
    let cluster = Cluster::start(bench, postgres.database("p11_roomy")?, None, Core::Server, 1, "1GiB")?;
    cluster.database.insert_entries(shape.space, shape.keys)?;
    warm(bench, cluster.node()?.address, &Shape { connections: 64, ..shape.clone() }.each_once())?;
    let entries = cluster.metric("shardcache_node_l1_entries", "")?;
    Ok(cluster.metric("shardcache_node_l1_bytes", "")? / entries.max(1.0))
}

impl Replay<'_> {
    /// The share of L1 hits in an L1 of that size.
    fn run(&self, name: &str, l1_bytes: &str) -> anyhow::Result<f64> {
        let database = self.postgres.database(&format!("p11_{name}"))?;
        let cluster = Cluster::start(self.bench, database, None, Core::Server, 1, l1_bytes)?;
        cluster.database.insert_entries(self.shape.space, self.shape.keys)?;
        let report = load(self.bench, cluster.node()?.address, &self.shape, Core::Load, &[])?;
        anyhow::ensure!(report.errors.is_empty(), "the replay failed: {:?}", report.errors);
        anyhow::ensure!(report.answers == self.requests as u64, "{} of {} requests", report.answers, self.requests);
        Ok(cluster.metric("shardcache_node_reads_total", "tier=\"l1\"")? / self.requests as f64)
    }
}
