//! What the tests of sick nodes share.

use reqwest::Method;
use tests::cluster::{Cluster, ClusterOptions, Database};
use tests::fault_proxy::FaultProxy;
use tests::http::{Answer, User, answered};

/// A cluster on a file, without L2.
pub(crate) async fn cluster(nodes: usize, env: &[(&str, &str)]) -> Cluster {
    let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let options = ClusterOptions { nodes, database: Database::Sqlite, redis: 0, env, ..ClusterOptions::default() };
    Cluster::start(options).await
}

/// One more member, `far`, behind a proxy whose faults meet connections that begin with `only`.
pub(crate) async fn far_node(cluster: &mut Cluster, only: &'static str) -> FaultProxy {
    let proxy = cluster.add_standby_behind("far", only, &[]).await;
    let added = cluster.migrator(&["add-node", "far"]).await;
    assert_eq!(added.code, Some(0), "{added:?}\n{}", cluster.log_tails());
    proxy
}

/// A user of the first gateway whose slot the node owns.
pub(crate) async fn user_of(cluster: &Cluster, node: &str) -> User {
    for number in 0..1000 {
        let user = cluster.user(&format!("user-{number}"));
        let located = answered(user.request(Method::GET, "/v1/ring/locate")).await.json();
        if located["owner"] == node {
            return user;
        }
    }
    panic!("{node} owns no slot of a thousand users");
}

/// What the gateway's `/readyz` says.
pub(crate) async fn readiness(cluster: &Cluster) -> String {
    answered(cluster.user("anyone").request(Method::GET, "/readyz")).await.text()
}

/// A number of the gateway's `/metrics`.
pub(crate) async fn counter(cluster: &Cluster, series: &str) -> u64 {
    let text = answered(cluster.user("anyone").request(Method::GET, "/metrics")).await.text();
    let found = text.lines().find_map(|line| line.strip_prefix(series)?.trim().parse().ok());
    found.unwrap_or_else(|| panic!("no {series} in {text}"))
}

/// Asserts that it was not executed and may be tried again.
pub(crate) fn assert_unavailable(answer: &Answer) {
    assert_eq!((answer.status, answer.code().as_str()), (503, "owner_unavailable"), "{answer:?}");
    assert!(!answer.header("retry-after").is_empty(), "{answer:?}");
}
