//! J04: the passwords of connection URLs show nowhere, whatever goes wrong with the servers they are for.

use std::time::Duration;

use futures_util::{StreamExt, stream};
use reqwest::Method;
use serde_json::json;
use tests::cluster::{Cluster, ClusterOptions};
use tests::http::{Answer, User, answered};
use tests::poll::{eventually, until};
use tests::processes::{Env, Process, free_address};
use tests::redis::RedisServer;

use crate::support::{SOON, VALUE_MAX, ask, assert_problem, variables};

const SECRET: &str = "Zx9SECRET";
/// How long a program is watched that neither ends nor says what it waits for.
const WATCHED: Duration = Duration::from_secs(4);
const PROGRAMS_AT_A_TIME: usize = 4;

/// Runs a program until it ends or waits for its servers; what it printed, and whether it ended by itself.
async fn observe(program: &'static str, args: Vec<String>, mut env: Env) -> (String, bool) {
    let data = tempfile::tempdir().expect("a temporary directory");
    env.push(("SHARDCACHE_LISTEN".to_owned(), free_address().to_string()));
    env.push(("SHARDCACHE_DATA_DIR".to_owned(), data.path().display().to_string()));
    let args: Vec<_> = args.iter().map(String::as_str).collect();
    let mut process = Process::start(program, &args, &env);
    let ended = until(WATCHED, async || {
        let ended = !process.is_running();
        (ended || process.log().contains("waiting for the database")).then_some(ended)
    });
    let ended = ended.await.unwrap_or(false);
    process.kill();
    (process.log(), ended)
}

fn arguments(program: &str) -> Vec<String> {
    if program == "migrator" { vec!["status".to_owned()] } else { Vec::new() }
}

#[tokio::test]
async fn a_database_url_that_leads_nowhere_or_is_none_is_told_without_its_password() {
    let nowhere = [
        format!("postgres://shardcache:{SECRET}@{}/shardcache", free_address()),
        format!("postgres://shardcache:{SECRET}@no-such-host.invalid:5432/shardcache"),
    ];
    let malformed = [
        format!("postgres://shardcache:{SECRET}@host:port/shardcache"),
        format!("postgres://shardcache:{SECRET}@:5432:1/x"),
        format!("postgres://shardcache:{SECRET}#@host/x y"),
        format!("postgres://host/x?password={SECRET}&sslmode=bogus"),
        format!("mysql://shardcache:{SECRET}@host/x"),
        SECRET.to_owned(),
    ];
    let mut cases = Vec::new();
    for program in ["cache-node", "gateway", "migrator", "shardcache"] {
        for url in nowhere.iter().chain(&malformed) {
            cases.push((program, arguments(program), variables(&[("DATABASE_URL", url)]), malformed.contains(url)));
        }
        let by_flag = [arguments(program), vec!["--database-url".to_owned(), malformed[0].clone()]].concat();
        cases.push((program, by_flag, Env::new(), true));
    }
    let observed = stream::iter(cases).map(async |(program, args, env, malformed)| {
        let (log, ended) = observe(program, args, env).await;
        assert!(!log.contains(SECRET), "{program}: {log}");
        if malformed {
            assert!(ended, "{program} goes on with a malformed URL: {log}");
            assert!(log.contains("DATABASE_URL") || log.contains("--database-url"), "{program}: {log}");
        }
        assert!(!log.contains("panicked"), "{program}: {log}");
    });
    observed.buffer_unordered(PROGRAMS_AT_A_TIME).collect::<Vec<()>>().await;
}

#[tokio::test]
async fn a_redis_url_that_leads_nowhere_or_is_none_is_told_without_its_password() {
    let open = RedisServer::start().await.expect("redis starts");
    // The server wants no password: AUTH fails.
    let wrong = format!("redis://user:{SECRET}@127.0.0.1:{}", open.port());
    let nowhere = format!("redis://:{SECRET}@{}", free_address());
    let malformed = [
        format!("redis://:{SECRET}@host:port"),
        format!("http://:{SECRET}@host"),
        format!("redis://:{SECRET}@127.0.0.1:1/notadatabase"),
        format!("{nowhere},{SECRET}"),
    ];
    let mut cases = Vec::new();
    for program in ["cache-node", "shardcache"] {
        for url in [&wrong, &nowhere].into_iter().chain(&malformed) {
            cases.push((program, url, malformed.contains(url)));
        }
    }
    let observed = stream::iter(cases).map(async |(program, url, malformed)| {
        let data = tempfile::tempdir().expect("a temporary directory");
        let database = format!("sqlite://{}", data.path().join("x.db").display());
        let env = [("REDIS_URL", url.as_str()), ("DATABASE_URL", &database), ("RUST_LOG", "debug")];
        let (log, ended) = observe(program, Vec::new(), variables(&env)).await;
        assert!(!log.contains(SECRET), "{program}: {log}");
        assert!(!malformed || (ended && log.contains("REDIS_URL")), "{program}: {log}");
        assert!(malformed || !ended, "{program} ended: a cache serves without L2: {log}");
    });
    observed.buffer_unordered(PROGRAMS_AT_A_TIME).collect::<Vec<()>>().await;
}

#[tokio::test]
async fn help_shows_no_value_of_the_environment() {
    let url = format!("postgres://shardcache:{SECRET}@host/x");
    let redis = format!("redis://:{SECRET}@host");
    let env = variables(&[("DATABASE_URL", &url), ("REDIS_URL", &redis), ("SHARDCACHE_CLUSTER_TOKEN", SECRET)]);
    for program in ["cache-node", "gateway", "migrator", "shardcache"] {
        let help = tests::processes::run(program, &["--help"], &env, SOON).await;
        assert_eq!(help.code, Some(0), "{help:?}");
        assert!(!format!("{help:?}").contains(SECRET), "{help:?}");
        assert!(help.stdout.contains("DATABASE_URL"), "{help:?}");
    }
}

/// A problem that says nothing of what is behind the product.
fn assert_discreet(answer: &Answer, ports: &[u16]) {
    let text = answer.text();
    let lower = text.to_lowercase();
    for told in ["sqlx", "select", "insert", "postgres", "redis", "127.0.0.1", "refused", "os error", "pool"] {
        assert!(!lower.contains(told), "{told} in {text}");
    }
    assert!(ports.iter().all(|port| !text.contains(&port.to_string())), "{text}");
}

async fn ask_everything(user: &User, number: usize) -> Vec<Answer> {
    let key = format!("/v1/entries/cold-{number}");
    let keys = json!({"keys": [format!("mget-{number}")]}).to_string();
    vec![
        answered(user.request(Method::GET, &key)).await,
        answered(user.request(Method::PUT, &key).body("value-9f2c")).await,
        answered(user.request(Method::DELETE, &key)).await,
        answered(user.request(Method::GET, "/v1/entries")).await,
        answered(user.request(Method::POST, "/v1/entries:mget").body(keys)).await,
    ]
}

#[tokio::test]
async fn servers_that_drop_while_running_leave_no_trace_of_their_passwords() {
    let mut redis = RedisServer::start().await.expect("redis starts");
    redis.cli(&["CONFIG", "SET", "requirepass", SECRET]).await.expect("a password is set");
    let redis_url = format!("redis://:{SECRET}@127.0.0.1:{}", redis.port());
    let env = variables(&[("REDIS_URL", &redis_url), ("RUST_LOG", "debug")]);
    let options = ClusterOptions { nodes: 1, redis: 0, env, ..ClusterOptions::default() };
    let mut cluster = Cluster::start(options).await;
    let user = cluster.user("discreet-user");
    let (node, gateway) = (cluster.nodes["n1"].url(), cluster.gateway_url());
    assert_eq!(user.put("discreet-key", "value-9f2c").await.status, 201);
    eventually("L2 is in use, so the password is right", SOON, async || {
        let absent = user.get(&format!("absent-{}", rand::random::<u64>())).await;
        absent.header("cache-status").contains("shardcache-l2; fwd=miss; stored")
    })
    .await;

    redis.kill().await.expect("killed");
    let postgres = cluster.postgres.as_mut().expect("on Postgres");
    let ports = [postgres.port(), redis.port()];
    postgres.stop().await.expect("stopped");
    let mut number = 0;
    eventually("reads are refused for want of the database", SOON, async || {
        number += 1;
        let answers = ask_everything(&user, number).await;
        for answer in answers.iter().filter(|answer| answer.status >= 400) {
            assert!(matches!(answer.status, 503 | 504), "{answer:?}");
            assert_discreet(answer, &ports);
        }
        answers[0].code() == "origin_unavailable"
    })
    .await;
    assert_problem(&user.get("cold").await, 503, "origin_unavailable");
    let too_large = user.put("cold", vec![0; VALUE_MAX + 1]).await;
    assert_problem(&too_large, 413, "value_too_large");

    let mut seen = String::new();
    for base in [&node, &gateway] {
        for path in ["/metrics", "/readyz", "/healthz", "/v1/ring", "/"] {
            seen += &ask(base, Method::GET, path, &[]).await.text();
        }
    }
    seen += &observe("migrator", vec!["status".to_owned()], cluster.migrator_env()).await.0;
    cluster.postgres.as_mut().expect("on Postgres").restart().await.expect("restarted");
    eventually("the database is back", Duration::from_secs(20), async || user.get("cold").await.status == 404).await;
    let wrong: Env = cluster
        .migrator_env()
        .into_iter()
        .map(|(name, value)| (name, value.replace(SECRET, "Zx9SECRETwrong")))
        .collect();
    for program in ["migrator", "gateway", "cache-node"] {
        seen += &observe(program, arguments(program), wrong.clone()).await.0;
    }
    for member in [&cluster.nodes["n1"], &cluster.gateways[0]] {
        let log = member.process.log();
        assert!(!log.contains("panicked"), "{log}");
        seen += &log;
    }
    for secret in [SECRET, "value-9f2c", "discreet-key", "discreet-user"] {
        let line = seen.lines().find(|line| line.contains(secret));
        assert_eq!(line, None, "{secret} is shown");
    }
}
