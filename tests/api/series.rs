//! I03: the series of `/metrics` come from fixed sets, whatever is asked for and by whom.

use std::collections::BTreeSet;

use futures_util::{StreamExt, stream};
use reqwest::Method;
use tests::cluster::Cluster;

use crate::support::{ask, small_cluster};

/// Names with labels, without the value.
async fn series(cluster: &Cluster) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for base in [cluster.gateway_url(), cluster.nodes["n1"].url()] {
        let text = ask(&base, Method::GET, "/metrics", &[]).await.text();
        let names = text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.rsplit_once(' '));
        all.extend(names.map(|(name, _)| name.to_owned()));
    }
    all
}

/// One of everything that a user, key, path or method of its own may do.
async fn ask_of_everything(base: &str, number: usize) {
    let user = format!("metric-user-{number}");
    let key = format!("/v1/entries/metric-key-{number}");
    let unknown = format!("/metric-path-{number}/{number}");
    let own_method = Method::from_bytes(format!("METRIC{number}").as_bytes()).expect("a method");
    let requests = [
        (Method::GET, key.as_str()),
        (Method::PUT, &key),
        (Method::PUT, &key),
        (Method::GET, &key),
        (Method::HEAD, &key),
        (Method::DELETE, &key),
        (Method::DELETE, &key),
        (Method::GET, &unknown),
        (own_method.clone(), &key),
        (own_method, &unknown),
        (Method::GET, "/v1/entries/%00"),
    ];
    let mut statuses = Vec::new();
    for (method, path) in requests {
        let answer = ask(base, method, path, &[("X-User-ID", &user)]).await;
        assert!(answer.status < 500, "{number}: {answer:?}");
        statuses.push(answer.status);
    }
    assert_eq!(statuses, [404, 201, 204, 200, 200, 204, 404, 404, 405, 404, 400]);
}

#[tokio::test]
async fn three_hundred_users_keys_paths_and_methods_add_no_series() {
    let cluster = small_cluster(1, &[]).await;
    let base = cluster.gateway_url();
    ask_of_everything(&base, 0).await;
    let before = series(&cluster).await;
    stream::iter(1..=300).for_each_concurrent(8, |number| ask_of_everything(&base, number)).await;
    let after = series(&cluster).await;
    let added: Vec<_> = after.difference(&before).collect();
    // Which tier answers a read that meets a write is chance: a fixed set of reasons.
    assert!(added.iter().all(|name| name.contains("{reason=") || name.contains("{tier=")), "{added:?}");
    let told = after.iter().find(|name| name.to_lowercase().contains("metric-") || name.contains("METRIC"));
    assert_eq!(told, None);
    assert!(after.len() < 200, "{} series", after.len());
}
