//! P1 to P4: reads that are hits, at the node, over the hop, over the whole path, and in L2.

use super::bench::Bench;
use super::cluster::Cluster;
use super::postgres::Postgres;
use super::process::Core;
use super::rounds::{Shape, Subject, interleave, warm};
use super::section::Section;
use super::servers::{self, Server};

/// Connections and value sizes that are measured.
const SHAPES: [(usize, usize); 3] = [(64, 256), (8, 256), (64, 4096)];
/// Room for every key.
const L1_ROOMY: &str = "1GiB";
/// Room for one key in a hundred, so that nearly every read goes to L2.
const L1_TINY: &str = "64KiB";
/// The same of the few keys of a smoke run.
const L1_TINY_SMOKE: &str = "8KiB";

fn subject<'a>(name: &'a str, under_test: &[&'a Server], beside: &[&'a Server]) -> Subject<'a> {
    Subject {
        name,
        // The one that clients talk to comes first.
        target: under_test[0].address,
        same_body: false,
        under_test: under_test.iter().map(|server| &server.process).collect(),
        beside: beside.iter().map(|server| &server.process).collect(),
    }
}

fn compare(bench: &Bench, section: &mut Section, shape: &Shape, subjects: &[Subject]) -> anyhow::Result<()> {
    let medians = interleave(bench, subjects, shape)?;
    let names: Vec<&str> = subjects.iter().map(|subject| subject.name).collect();
    section.compare(shape.connections, shape.space.value_bytes, &names, &medians);
    Ok(())
}

/// A node whose L1 holds the keys of all shapes.
fn warm_node<'a>(
    bench: &'a Bench,
    postgres: &'a Postgres,
    name: &str,
    redis: Option<&'a Server>,
) -> anyhow::Result<Cluster<'a>> {
    let cluster = Cluster::start(bench, postgres.database(name)?, redis, Core::Server, 1, L1_ROOMY)?;
    for value_bytes in [256, 4096] {
        let shape = Shape::reads(bench, 64, value_bytes);
        cluster.database.insert_entries(shape.space, shape.keys)?;
        warm(bench, cluster.node()?.address, &shape.each_once())?;
    }
    Ok(cluster)
}

/// P1.
pub(crate) fn l1_hit(bench: &Bench, postgres: &Postgres) -> anyhow::Result<Section> {
    let redis = servers::redis(bench, Core::Load)?;
    let cluster = warm_node(bench, postgres, "p1", Some(&redis))?;
    let mut section = Section::comparison("P1", "an L1 hit at the node, over HTTP");
    for (connections, value_bytes) in SHAPES {
        let bare = servers::bare_hyper(bench, Core::Server, value_bytes)?;
        let nginx = servers::nginx_body(bench, Core::Server, value_bytes)?;
        let one_answer = |name, server| Subject { same_body: true, ..subject(name, &[server], &[]) };
        let subjects = [
            subject("cache-node", &[cluster.node()?], &[]),
            one_answer("bare hyper", &bare),
            one_answer("nginx `return 200`", &nginx),
        ];
        compare(bench, &mut section, &Shape::reads(bench, connections, value_bytes), &subjects)?;
    }
    section.note(format!(
        "The node has {} keys of {} users in L1, PostgreSQL and Redis behind it; the peers have one answer.",
        bench.scale.keys, bench.scale.users
    ));
    Ok(section)
}

/// P2.
pub(crate) fn hop(bench: &Bench, postgres: &Postgres) -> anyhow::Result<Section> {
    let cluster = warm_node(bench, postgres, "p2", None)?;
    let node = cluster.node()?;
    node.process.pin(Core::Load)?;
    let gateway = cluster.gateway(Core::Server)?;
    let nginx = servers::nginx_hash(bench, Core::Server, node.address)?;
    let haproxy = servers::haproxy(bench, Core::Server, node.address)?;
    let mut section = Section::comparison("P2", "the hop: a proxy in front of the same node");
    for (connections, value_bytes) in SHAPES {
        let shape = Shape::reads(bench, connections, value_bytes);
        let subjects = [
            subject("gateway", &[&gateway], &[node]),
            subject("nginx `hash … consistent`", &[&nginx], &[node]),
            subject("haproxy `hash-type consistent`", &[&haproxy], &[node]),
        ];
        compare(bench, &mut section, &shape, &subjects)?;
    }
    section.note("One node, so that every proxy sends every user to the same place. The proxy has a core of its own; node and load share the other.");
    Ok(section)
}

/// P3.
pub(crate) fn whole_path(bench: &Bench, postgres: &Postgres) -> anyhow::Result<Section> {
    let redis = servers::redis(bench, Core::Server)?;
    let cluster = warm_node(bench, postgres, "p3", None)?;
    let gateway = cluster.gateway(Core::Server)?;
    let app = warm_app(bench, &cluster, &redis)?;
    let nginx = servers::nginx_hash(bench, Core::Server, app.address)?;
    let mut section = Section::comparison("P3", "the whole path, all servers of a path on one core");
    for (connections, value_bytes) in SHAPES {
        let subjects = [
            subject("gateway → node, L1 hit", &[&gateway, cluster.node()?], &[]),
            subject("nginx → axum app → Redis hit", &[&nginx, &app, &redis], &[]),
        ];
        compare(bench, &mut section, &Shape::reads(bench, connections, value_bytes), &subjects)?;
    }
    Ok(section)
}

/// The application with all keys in Redis.
fn warm_app(bench: &Bench, cluster: &Cluster, redis: &Server) -> anyhow::Result<Server> {
    let sizes = [256, 4096].map(|value_bytes| Shape::reads(bench, 64, value_bytes));
    for shape in &sizes {
        cluster.database.insert_app_entries(shape.space, shape.keys)?;
    }
    let app = servers::app(bench, Core::Server, &cluster.database, redis)?;
    for shape in sizes {
        warm(bench, app.address, &shape.each_once())?;
    }
    Ok(app)
}

/// P4.
pub(crate) fn l2_hit(bench: &Bench, postgres: &Postgres) -> anyhow::Result<Section> {
    let redis = servers::redis(bench, Core::Load)?;
    let l1_bytes = bench.scale.pick(L1_TINY, L1_TINY_SMOKE);
    let cluster = Cluster::start(bench, postgres.database("p4")?, Some(&redis), Core::Server, 1, l1_bytes)?;
    let node = cluster.node()?;
    let mut section = Section::comparison("P4", "an L2 hit at the node, L1 cold");
    let app = warm_app(bench, &cluster, &redis)?;
    for (connections, value_bytes) in SHAPES {
        let shape = Shape::reads(bench, connections, value_bytes);
        cluster.database.insert_entries(shape.space, shape.keys)?;
        warm(bench, node.address, &shape.clone().each_once())?;
        let tier = |tier: &str| cluster.metric("shardcache_node_reads_total", tier);
        let before = (tier("tier=\"l2\"")?, tier("")?);
        let subjects = [subject("cache-node", &[node], &[&redis]), subject("axum app", &[&app], &[&redis])];
        compare(bench, &mut section, &shape, &subjects)?;
        let share = (tier("tier=\"l2\"")? - before.0) / (tier("")? - before.1).max(1.0);
        section.note(format!(
            "{connections} connections, {}: {:.1} % of the node's reads were L2 hits.",
            super::section::bytes(value_bytes as f64),
            share * 100.0
        ));
    }
    section
        .note(format!("{} keys, an L1 of {l1_bytes}. The same Redis for both, on the load's core.", bench.scale.keys));
    Ok(section)
}
