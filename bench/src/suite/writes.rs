//! P6: writes, against the bare upsert and against the cache-aside application.

use super::bench::Bench;
use super::cluster::Cluster;
use super::postgres::Postgres;
use super::process::Core;
use super::rounds::{Medians, Shape, load, report};
use super::section::Section;
use super::servers::{self, Server};
use crate::load::Report;

/// How many clients write at once.
const CLIENTS: [usize; 2] = [8, 32];

struct Writers<'a> {
    bench: &'a Bench,
    cluster: &'a Cluster<'a>,
    app: &'a Server,
}

impl Writers<'_> {
    /// PUTs through an HTTP server. The load shares the server's core: Postgres has the other one alone.
    fn put(&self, server: &Server, shape: &Shape) -> anyhow::Result<Report> {
        let scale = &self.bench.scale;
        let (seconds, warm_up, pid) =
            (scale.seconds.to_string(), scale.warm_up.to_string(), server.process.pid().to_string());
        let more = ["--method", "put", "--seconds", &seconds, "--warm-up", &warm_up, "--cpu-of", &pid];
        load(self.bench, server.address, shape, Core::Server, &more)
    }

    /// The bare upsert.
    fn upsert(&self, shape: &Shape) -> anyhow::Result<Report> {
        let scale = &self.bench.scale;
        let launch = self.bench.launch("plain-upserts", Core::Server);
        let mut command = launch.command(self.bench.program("plain-upserts")?);
        command.args(["--database-url", &self.cluster.database.url()]);
        command.args(["--connections", &shape.connections.to_string(), "--keys", &shape.keys.to_string()]);
        command.args([
            "--users",
            &shape.space.users.to_string(),
            "--value-bytes",
            &shape.space.value_bytes.to_string(),
        ]);
        command.args(["--seconds", &scale.seconds.to_string(), "--warm-up", &scale.warm_up.to_string()]);
        report(&mut command)
    }

    fn round(&self, shape: &Shape, reports: &mut [Vec<Report>; 3]) -> anyhow::Result<()> {
        reports[0].push(self.put(self.cluster.node()?, shape)?);
        reports[1].push(self.upsert(shape)?);
        reports[2].push(self.put(self.app, shape)?);
        Ok(())
    }
}

/// P6.
pub(crate) fn writes(bench: &Bench, postgres: &Postgres) -> anyhow::Result<Section> {
    let redis = servers::redis(bench, Core::Server)?;
    let cluster = Cluster::start(bench, postgres.database("p6")?, Some(&redis), Core::Server, 1, "1GiB")?;
    let mut section = Section::comparison("P6", "writes");
    let shape = Shape::reads(bench, CLIENTS[0], 256);
    cluster.database.insert_entries(shape.space, shape.keys)?;
    cluster.database.insert_app_entries(shape.space, shape.keys)?;
    cluster.database.sql("CREATE TABLE plain_entries (LIKE entries INCLUDING ALL)")?;
    cluster.database.sql("INSERT INTO plain_entries SELECT * FROM entries")?;
    cluster.database.sql("VACUUM ANALYZE plain_entries")?;
    let app = servers::app(bench, Core::Server, &cluster.database, &redis)?;
    let writers = Writers { bench, cluster: &cluster, app: &app };
    for clients in CLIENTS {
        let shape = Shape { connections: clients, ..shape.clone() };
        let mut reports = [Vec::new(), Vec::new(), Vec::new()];
        for _ in 0..bench.scale.rounds {
            writers.round(&shape, &mut reports)?;
        }
        let medians = reports.map(|reports| Medians::of(1, &reports));
        let names = ["PUT at the node", "the upsert, unfenced, by sqlx", "PUT at the axum app"];
        section.compare(clients, 256, &names, &medians);
    }
    section.note("Postgres has the load's core alone, with its default of fsync on; everything else, the load too, is on the other: so every way of writing has the same Postgres. All wait for the disk: a node does so whatever the server's synchronous_commit says.");
    Ok(section)
}
