//! What the tests of the interface share: one cluster for all that do not disturb it, problem documents, raw requests.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use reqwest::Method;
use serde_json::Value;
use tests::cluster::{Cluster, ClusterOptions, Database};
use tests::http::{Answer, RawAnswer, RawConnection, User, answered};
use tests::processes::Env;
use tokio::runtime::Runtime;

/// How long an answer may take that waits for nothing: generous, for a busy machine.
pub(crate) const SOON: Duration = Duration::from_secs(10);

/// The largest value of the clusters, in bytes: the default.
pub(crate) const VALUE_MAX: usize = 1 << 20;

/// The cluster and the runtime that drives its servers; dropped by the last test that uses it.
struct Shared {
    // The cluster first: it ends its processes while the runtime still runs.
    cluster: Cluster,
    runtime: Runtime,
}

/// Tries a claim on the cluster that all tests running at the moment share: Postgres, Redis, two nodes, one gateway.
pub(crate) fn on_shared(claim: impl AsyncFnOnce(&Cluster)) {
    let shared = shared();
    shared.runtime.block_on(claim(&shared.cluster));
}

fn shared() -> Arc<Shared> {
    static HELD: Mutex<Weak<Shared>> = Mutex::new(Weak::new());
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    held.upgrade().unwrap_or_else(|| {
        let runtime = Runtime::new().expect("a runtime");
        let cluster = runtime.block_on(Cluster::start(ClusterOptions { nodes: 2, ..ClusterOptions::default() }));
        let fresh = Arc::new(Shared { cluster, runtime });
        *held = Arc::downgrade(&fresh);
        fresh
    })
}

/// A cluster on a file, without L2, for a test that disturbs it.
pub(crate) async fn small_cluster(nodes: usize, env: &[(&str, &str)]) -> Cluster {
    let database = Database::Sqlite;
    Cluster::start(ClusterOptions { nodes, database, redis: 0, env: variables(env), ..ClusterOptions::default() }).await
}

/// Variables as the harness wants them.
pub(crate) fn variables(env: &[(&str, &str)]) -> Env {
    env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// The version in an entity tag.
pub(crate) fn version(answer: &Answer) -> u64 {
    let tag = answer.header("etag");
    let number = tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"')).and_then(|number| number.parse().ok());
    number.unwrap_or_else(|| panic!("no version in {answer:?}"))
}

/// Asserts a problem document with all its members.
pub(crate) fn assert_problem(answer: &Answer, status: u16, code: &str) {
    assert_eq!((answer.status, answer.code().as_str()), (status, code), "{answer:?}");
    assert_eq!(answer.header("content-type"), "application/problem+json", "{answer:?}");
    assert_document(&answer.json(), status, code);
    let again_later = matches!(status, 429 | 503);
    assert_eq!(answer.headers.contains_key("retry-after"), again_later, "{answer:?}");
}

/// Asserts a problem document on a raw connection.
pub(crate) fn assert_raw_problem(answer: &RawAnswer, status: u16, code: &str) {
    let document: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    assert_eq!((answer.status, document["code"].as_str()), (status, Some(code)), "{answer:?}");
    assert!(answer.head.contains("content-type: application/problem+json"), "{}", answer.head);
    assert_document(&document, status, code);
}

fn assert_document(document: &Value, status: u16, code: &str) {
    assert_eq!(document["type"], format!("urn:shardcache:problem:{code}"));
    assert_eq!(document["status"], status);
    assert_eq!(document["code"], code);
    for member in ["title", "detail"] {
        assert!(document[member].as_str().is_some_and(|text| !text.is_empty()), "{member} in {document}");
    }
}

/// A request with a body, headers and no user but what `headers` names.
pub(crate) async fn ask(base: &str, method: Method, path: &str, headers: &[(&str, &str)]) -> Answer {
    let mut request = tests::http::client().request(method, format!("{base}{path}"));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    answered(request).await
}

/// `GET` of a key with headers.
pub(crate) async fn get_with(user: &User, key: &str, headers: &[(&str, &str)]) -> Answer {
    with_headers(user, Method::GET, key, headers, "").await
}

/// Any method on a key, with headers and a body.
pub(crate) async fn with_headers(
    user: &User,
    method: Method,
    key: &str,
    headers: &[(&str, &str)],
    body: &'static str,
) -> Answer {
    let mut request = user.request(method, &format!("/v1/entries/{key}"));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    answered(if body.is_empty() { request } else { request.body(body) }).await
}

/// Sends bytes on a connection of their own; the first answer.
pub(crate) async fn raw(address: SocketAddr, bytes: &[u8]) -> RawAnswer {
    let mut connection = RawConnection::open(address).await;
    connection.send(bytes).await;
    connection.answer(SOON).await.unwrap_or_else(|| panic!("no answer to {:?}", String::from_utf8_lossy(bytes)))
}

/// The first gateway's address.
pub(crate) fn gateway(cluster: &Cluster) -> SocketAddr {
    cluster.gateways[0].address
}

/// Gateway and one node: what must hold at both.
pub(crate) fn gateway_and_node(cluster: &Cluster) -> [SocketAddr; 2] {
    [gateway(cluster), cluster.nodes["n1"].address]
}

/// The node that owns a user's slot.
pub(crate) async fn owner(user: &User) -> String {
    let answer = answered(user.request(Method::GET, "/v1/ring/locate")).await;
    answer.json()["owner"].as_str().unwrap_or_else(|| panic!("no owner: {answer:?}")).to_owned()
}

/// A user of the first gateway whose slot the node owns.
pub(crate) async fn user_of(cluster: &Cluster, node: &str) -> User {
    for number in 0..1000 {
        let user = cluster.user(&format!("user-{number}"));
        if owner(&user).await == node {
            return user;
        }
    }
    panic!("{node} owns no slot of a thousand users");
}
