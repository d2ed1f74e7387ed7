//! What these tests share: one cluster, to which each test adds gateways with settings of their own; tokens; requests.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use reqwest::Method;
use serde_json::{Value, json};
use tests::cluster::{Cluster, ClusterOptions, Database};
use tests::http::{Answer, answered, client};
use tests::processes::{Env, Process, free_address};
use tokio::runtime::Runtime;

/// How long something may take that is looked for again and again: generous, for a busy machine.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// Of gateways that verify tokens by a secret.
pub(crate) const SECRET: &str = "Zx9SECRET of at least thirty-two bytes";

struct Shared {
    // The cluster first: it ends its processes while the runtime still runs.
    cluster: Cluster,
    runtime: Runtime,
}

/// Tries a claim on the cluster that all tests running at the moment share: two nodes on a file, one gateway without any of this.
pub(crate) fn on_shared(claim: impl AsyncFnOnce(&Cluster)) {
    static HELD: Mutex<Weak<Shared>> = Mutex::new(Weak::new());
    let shared = {
        let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        held.upgrade().unwrap_or_else(|| {
            let runtime = Runtime::new().expect("a runtime");
            let options =
                ClusterOptions { nodes: 2, database: Database::Sqlite, redis: 0, ..ClusterOptions::default() };
            let cluster = runtime.block_on(Cluster::start(options));
            let fresh = Arc::new(Shared { cluster, runtime });
            *held = Arc::downgrade(&fresh);
            fresh
        })
    };
    shared.runtime.block_on(claim(&shared.cluster));
}

/// A further gateway of the cluster.
pub(crate) struct Gateway {
    pub(crate) process: Process,
    pub(crate) address: SocketAddr,
}

/// The settings of a gateway of this cluster that listens at the address.
pub(crate) fn settings(cluster: &Cluster, address: SocketAddr, env: &[(&str, &str)]) -> Env {
    let mut all = cluster.migrator_env();
    all.push(("SHARDCACHE_LISTEN".to_owned(), address.to_string()));
    all.extend(env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    all
}

impl Gateway {
    pub(crate) async fn start(cluster: &Cluster, env: &[(&str, &str)]) -> Self {
        let address = free_address();
        let mut process = Process::start("gateway", &[], &settings(cluster, address, env));
        process.wait_ready(address, "/readyz").await;
        Self { process, address }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// One request without a body.
    pub(crate) async fn ask(&self, method: Method, path: &str, headers: &[(&str, &str)]) -> Answer {
        self.send(method, path, headers, String::new()).await
    }

    pub(crate) async fn get(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        self.ask(Method::GET, path, headers).await
    }

    pub(crate) async fn put(&self, key: &str, headers: &[(&str, &str)], value: &str) -> Answer {
        self.send(Method::PUT, &format!("/v1/entries/{key}"), headers, value.to_owned()).await
    }

    pub(crate) async fn send(&self, method: Method, path: &str, headers: &[(&str, &str)], body: String) -> Answer {
        let mut request = client().request(method, format!("{}{path}", self.url()));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        answered(if body.is_empty() { request } else { request.body(body) }).await
    }
}

/// A file for the settings of gateways, removed with its directory.
pub(crate) struct TemporaryFile {
    path: std::path::PathBuf,
    _directory: tempfile::TempDir,
}

impl TemporaryFile {
    pub(crate) fn new(content: &str) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let file = Self { path: directory.path().join("file"), _directory: directory };
        file.write(content);
        file
    }

    pub(crate) fn write(&self, content: &str) {
        std::fs::write(&self.path, content).expect("a file can be written");
    }

    pub(crate) fn path(&self) -> &str {
        self.path.to_str().expect("UTF-8")
    }
}

pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs()
}

/// `Bearer …` of a token with these claims, by the secret.
pub(crate) fn bearer_with(claims: &Value) -> String {
    let key = EncodingKey::from_secret(SECRET.as_bytes()).expect("a secret");
    format!("Bearer {}", encode(&Header::new(Algorithm::HS256), claims, &key).expect("signed"))
}

/// `Bearer …` of a good token of the user.
pub(crate) fn bearer(user: &str) -> String {
    bearer_with(&json!({"sub": user, "exp": now() + 600}))
}

/// Asserts a problem document, and what a 401 must say.
pub(crate) fn assert_problem(answer: &Answer, status: u16, code: &str) {
    assert_eq!((answer.status, answer.code().as_str()), (status, code), "{answer:?}");
    let challenged = answer.header("www-authenticate").starts_with("Bearer realm=\"shardcache\"");
    assert_eq!(challenged, status == 401, "{answer:?}");
}
