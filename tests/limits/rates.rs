//! A user or an address over its limit gets 429 with the fields, and nobody else is touched.

use std::time::Duration;

use tests::http::RawConnection;

use crate::support::{cluster, get_with, page};

const SOON: Duration = Duration::from_secs(10);

#[tokio::test]
async fn a_user_over_its_limit_gets_429_with_the_fields_and_another_user_is_not_touched() {
    let cluster = cluster(&[("SHARDCACHE_RATE_USER", "3/h"), ("SHARDCACHE_RATE_TOTAL", "1000/s")]).await;
    let (heavy, other) = (cluster.user("heavy"), cluster.user("other"));
    for left in ["2", "1", "0"] {
        let answer = get_with(&heavy, "k", &[]).await;
        assert_eq!(answer.status, 404, "{answer:?}");
        assert_eq!(answer.header("ratelimit-policy"), "\"user\";q=3;w=3600");
        assert!(answer.header("ratelimit").starts_with(&format!("\"user\";r={left};t=")), "{answer:?}");
    }
    let refused = get_with(&heavy, "k", &[]).await;
    assert_eq!((refused.status, refused.code().as_str()), (429, "rate_limited"), "{refused:?}");
    let wait: u64 = refused.header("retry-after").parse().expect("seconds");
    assert!((600..=1200).contains(&wait), "{wait}");
    assert_eq!(refused.header("ratelimit"), format!("\"user\";r=0;t={wait}"));
    assert_eq!(refused.header("ratelimit-policy"), "\"user\";q=3;w=3600");
    assert!(!refused.text().contains("heavy"));
    // Neither the key nor the method makes it another user.
    assert_eq!(heavy.put("other-key", "v").await.status, 429);
    assert_eq!(other.put("k", "v").await.status, 201);
    assert_eq!(other.get("k").await.text(), "v");
    let metrics = page(&cluster, "/metrics").await.text();
    assert!(metrics.contains("shardcache_gateway_rate_limited_total{limit=\"user\"} 2"), "{metrics}");
    assert!(!metrics.contains("heavy"));
}

#[tokio::test]
async fn an_address_is_limited_whatever_users_it_names_and_a_refused_body_costs_no_connection() {
    let cluster = cluster(&[("SHARDCACHE_RATE_CLIENT", "2/h")]).await;
    let mut connection = RawConnection::open(cluster.gateways[0].address).await;
    let mut statuses = Vec::new();
    for number in 0..6 {
        let put = format!(
            "PUT /v1/entries/k HTTP/1.1\r\nhost: x\r\nx-user-id: user-{number}\r\ncontent-length: 5\r\n\r\nvalue"
        );
        connection.send(put.as_bytes()).await;
        let answer = connection.answer(SOON).await.expect("the connection is kept");
        assert!(!answer.head.contains("connection: close"), "{}", answer.head);
        statuses.push(answer.status);
    }
    assert_eq!(statuses, [201, 201, 429, 429, 429, 429]);
    // A large one is not read, and the connection ends with the answer.
    let put = "PUT /v1/entries/k HTTP/1.1\r\nhost: x\r\nx-user-id: a\r\ncontent-length: 1000000\r\n\r\n";
    connection.send(put.as_bytes()).await;
    let answer = connection.answer(SOON).await.expect("an answer before the body");
    assert!(answer.status == 429 && answer.head.contains("connection: close"), "{}", answer.head);
    // What is no request of the data plane is not limited.
    assert_eq!(page(&cluster, "/readyz").await.status, 200);
}
