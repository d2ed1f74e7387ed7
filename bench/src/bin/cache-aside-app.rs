//! A peer: the service that people build today, axum with Redis in front of Postgres, cache-aside.
//!
//! GET: Redis, on a miss the row and `SETEX`. PUT: the row, then `DEL`. Nothing keeps a reader from storing an old value after
//! a writer's `DEL`; that is what it is compared with.

use std::net::SocketAddr;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Router, serve};
use clap::Parser;
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;
use tokio::net::TcpListener;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Entries of users, cache-aside.
#[derive(Parser)]
struct Options {
    /// Where to listen
    #[arg(long)]
    listen: SocketAddr,
    /// The database, with a table `app_entries (usr, key, value, updated_ms)`
    #[arg(long)]
    database_url: String,
    /// The cache
    #[arg(long)]
    redis_url: String,
}

/// As many as a cache node has.
const DATABASE_CONNECTIONS: u32 = 16;
/// As long as a cache node keeps an entry in L2.
const CACHED_SECONDS: u64 = 3600;

/// How long Redis may take: a busy machine is no reason for an error.
const REDIS_ANSWER: Duration = Duration::from_secs(5);

const READ: &str = "SELECT value FROM app_entries WHERE usr = $1 AND key = $2";
const WRITE: &str = "INSERT INTO app_entries (usr, key, value, updated_ms) \
    VALUES ($1, $2, $3, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) \
    ON CONFLICT (usr, key) DO UPDATE SET value = EXCLUDED.value, updated_ms = EXCLUDED.updated_ms";

#[derive(Clone)]
struct App {
    redis: MultiplexedConnection,
    database: PgPool,
}

/// A part of the back end failed.
struct Failed(anyhow::Error);

impl<E: Into<anyhow::Error>> From<E> for Failed {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        eprintln!("{:#}", self.0);
        StatusCode::SERVICE_UNAVAILABLE.into_response()
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    let tcp = redis::io::tcp::TcpSettings::default().set_nodelay(true);
    let info = redis::IntoConnectionInfo::into_connection_info(options.redis_url.as_str())?.set_tcp_settings(tcp);
    let patient = redis::AsyncConnectionConfig::new().set_response_timeout(Some(REDIS_ANSWER));
    let redis = redis::Client::open(info)?.get_multiplexed_async_connection_with_config(&patient).await?;
    let pool = PgPoolOptions::new().max_connections(DATABASE_CONNECTIONS);
    let database = pool.connect(&options.database_url).await?;
    let router = Router::new()
        .route("/v1/entries/{*key}", get(read).put(write))
        .route("/readyz", get(|| async { "ok" }))
        .with_state(App { redis, database });
    let listener = TcpListener::bind(options.listen).await?;
    let listener = axum::serve::ListenerExt::tap_io(listener, |stream| {
        // A connection that is gone already is its client's affair.
        let _ = stream.set_nodelay(true);
    });
    serve(listener, router).await?;
    Ok(())
}

fn user(headers: &HeaderMap) -> Result<&str, StatusCode> {
    headers.get("x-user-id").and_then(|value| value.to_str().ok()).ok_or(StatusCode::BAD_REQUEST)
}

fn cache_key(user: &str, key: &str) -> String {
    format!("entry:{user}:{key}")
}

async fn read(State(mut app): State<App>, Path(key): Path<String>, headers: HeaderMap) -> Result<Response, Failed> {
    let user = match user(&headers) {
        Ok(user) => user,
        Err(status) => return Ok(status.into_response()),
    };
    let cache_key = cache_key(user, &key);
    let cached: Option<Bytes> = app.redis.get(&cache_key).await?;
    let value = match cached {
        Some(value) => value,
        None => {
            let row: Option<(Vec<u8>,)> =
                sqlx::query_as(READ).bind(user).bind(&key).fetch_optional(&app.database).await?;
            let Some((value,)) = row else { return Ok(StatusCode::NOT_FOUND.into_response()) };
            let () = app.redis.set_ex(&cache_key, &value[..], CACHED_SECONDS).await?;
            value.into()
        }
    };
    Ok(([(header::CONTENT_TYPE, "application/octet-stream")], value).into_response())
}

async fn write(
    State(mut app): State<App>,
    Path(key): Path<String>,
    headers: HeaderMap,
    value: Bytes,
) -> Result<Response, Failed> {
    let user = match user(&headers) {
        Ok(user) => user,
        Err(status) => return Ok(status.into_response()),
    };
    sqlx::query(WRITE).bind(user).bind(&key).bind(&value[..]).execute(&app.database).await?;
    let () = app.redis.del(cache_key(user, &key)).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
