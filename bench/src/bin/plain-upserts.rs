//! A peer: the upsert of a PUT without fence, straight to Postgres, from so many clients at once.
//!
//! Each client has a connection of its own and one statement on its way. Prints what `bench-load` prints.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bench::keyspace::KeySpace;
use bench::load::Report;
use clap::Parser;
use hdrhistogram::Histogram;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use sqlx::{Connection, PgConnection};

/// Upserts in a closed loop.
#[derive(Clone, Parser)]
struct Options {
    /// The database, with a table `plain_entries` like the product's `entries`, and its sequence
    #[arg(long)]
    database_url: String,
    /// Clients
    #[arg(long)]
    connections: u64,
    /// How long to measure, in seconds
    #[arg(long)]
    seconds: f64,
    /// How long to run before that, in seconds
    #[arg(long)]
    warm_up: f64,
    /// How many keys there are
    #[arg(long)]
    keys: u64,
    /// How many users the keys are spread over
    #[arg(long)]
    users: u64,
    /// The size of each value
    #[arg(long)]
    value_bytes: usize,
}

/// What the product's PUT does to its row.
const UPSERT: &str = "INSERT INTO plain_entries AS e (usr, key, value, content_type, cache_control, version, updated_ms) \
    VALUES ($1, $2, $3, $4, $5, nextval('version_seq'), floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) \
    ON CONFLICT (usr, key) DO UPDATE SET value = EXCLUDED.value, content_type = EXCLUDED.content_type, \
        cache_control = EXCLUDED.cache_control, version = nextval('version_seq'), updated_ms = EXCLUDED.updated_ms \
    RETURNING e.version, (e.xmax = 0) AS created";

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    let start = Instant::now();
    let measured_from = start + Duration::from_secs_f64(options.warm_up);
    let end = measured_from + Duration::from_secs_f64(options.seconds);
    let clients: Vec<_> = (0..options.connections)
        .map(|number| tokio::spawn(client(options.clone(), number, measured_from, end)))
        .collect();
    let mut latencies = Histogram::<u64>::new(3)?;
    for client in clients {
        latencies.add(client.await??)?;
    }
    let microseconds = |quantile| latencies.value_at_quantile(quantile) as f64 / 1000.0;
    let report = Report {
        answers: latencies.len(),
        seconds: options.seconds,
        rps: latencies.len() as f64 / options.seconds,
        p50_us: microseconds(0.5),
        p99_us: microseconds(0.99),
        p99_9_us: microseconds(0.999),
        max_us: latencies.max() as f64 / 1000.0,
        errors: BTreeMap::new(),
        ..Report::default()
    };
    println!("{}", serde_json::to_string(&report)?);
    Ok(())
}

async fn client(options: Options, number: u64, from: Instant, end: Instant) -> anyhow::Result<Histogram<u64>> {
    let space = KeySpace { users: options.users, value_bytes: options.value_bytes };
    let mut rng = SmallRng::seed_from_u64(number);
    let mut connection = PgConnection::connect(&options.database_url).await?;
    let mut latencies = Histogram::new(3)?;
    loop {
        let sent = Instant::now();
        if sent >= end {
            return Ok(latencies);
        }
        let key = rng.random_range(0..options.keys);
        let (version, _created): (i64, bool) = sqlx::query_as(UPSERT)
            .bind(space.user(key))
            .bind(KeySpace::key(key))
            .bind(space.value(key))
            .bind("application/octet-stream")
            .bind(None::<&str>)
            .fetch_one(&mut connection)
            .await?;
        anyhow::ensure!(version > 0, "an upsert answers with its version");
        let now = Instant::now();
        if now >= from && now <= end {
            latencies.record((now - sent).as_nanos() as u64)?;
        }
    }
}
