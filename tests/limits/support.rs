//! A small cluster with limits, and one request of a user.

use reqwest::Method;
use tests::cluster::{Cluster, ClusterOptions, Database};
use tests::http::{Answer, User, answered};

/// One node on a file, without L2.
pub(crate) async fn cluster(env: &[(&str, &str)]) -> Cluster {
    let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Cluster::start(ClusterOptions { nodes: 1, database: Database::Sqlite, redis: 0, env, ..ClusterOptions::default() })
        .await
}

/// `GET` of a key with headers.
pub(crate) async fn get_with(user: &User, key: &str, headers: &[(&str, &str)]) -> Answer {
    let request = user.request(Method::GET, &format!("/v1/entries/{key}"));
    answered(headers.iter().fold(request, |request, (name, value)| request.header(*name, *value))).await
}

/// A page of the gateway.
pub(crate) async fn page(cluster: &Cluster, path: &str) -> Answer {
    answered(cluster.user("anyone").request(Method::GET, path)).await
}
