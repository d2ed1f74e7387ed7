//! Clients that go away in the middle of a request.

use tests::http::{RawConnection, User};
use tests::poll::eventually;

use crate::support::{HEALED, cluster, from_l1, from_l2, owner, postgres, put_row, row_value, says, value_of};

fn put(key: &str, value: &str) -> String {
    format!(
        "PUT /v1/entries/{key} HTTP/1.1\r\nHost: x\r\nX-User-ID: ada\r\nContent-Length: {}\r\n\r\n{value}",
        value.len()
    )
}

/// The row is locked, so that each write is caught at another point: at the database, in the key's queue, on its way.
async fn two_hundred_hang_up(through_the_gateway: bool) {
    let mut cluster = cluster(2, 1, &[]).await;
    put_row(&mut cluster, "ada", "k", "first").await;
    let ada = cluster.user("ada");
    assert!(says(&ada.get("k").await, "first"));
    let node = owner(&ada).await;
    let node_address = cluster.node(&node).address;
    let node_url = cluster.node(&node).url();
    let address = if through_the_gateway { cluster.gateways[0].address } else { node_address };
    let mut session = postgres(&mut cluster).session().await.expect("a session");
    session.run("BEGIN; SELECT 1 FROM entries WHERE key = 'k' FOR UPDATE").await.expect("locked");
    let mut clients = Vec::new();
    for number in 0..200 {
        let mut client = RawConnection::open(address).await;
        client.send(put("k", &format!("value-{number}")).as_bytes()).await;
        clients.push(client);
        if number % 3 == 0 {
            // Some go at once.
            clients.pop();
        }
    }
    eventually("writes wait for the row", HEALED, async || {
        value_of(&node_url, "shardcache_node_requests_in_progress").await > 0
    })
    .await;
    drop(clients);
    session.run("ROLLBACK").await.expect("released");
    settles(&mut cluster, &ada).await;
    eventually("nothing is left in progress", HEALED, async || {
        value_of(&node_url, "shardcache_node_requests_in_progress").await == 0
    })
    .await;
    settles(&mut cluster, &ada).await;
}

/// The key can be written, and L1, L2 and Postgres have the same value of it.
async fn settles(cluster: &mut tests::cluster::Cluster, user: &User) {
    eventually("the key is not written any more and can be read from L1", HEALED, async || {
        let before = row_value(cluster, "ada", "k").await.expect("a row");
        let answer = user.get("k").await;
        let after = row_value(cluster, "ada", "k").await.expect("a row");
        if before != after {
            return false;
        }
        assert!(says(&answer, &after), "the row has {after}: {answer:?}");
        from_l1(&answer)
    })
    .await;
    eventually("the key can be written", HEALED, async || user.put("k", "last").await.status == 204).await;
    let answer = user.get("k").await;
    assert!(says(&answer, "last"), "{answer:?}");
    assert_eq!(row_value(cluster, "ada", "k").await.as_deref(), Some("last"));
}

#[tokio::test]
async fn clients_of_a_node_that_hang_up_leave_the_key_writable_and_the_tiers_equal() {
    two_hundred_hang_up(false).await;
}

#[tokio::test]
async fn clients_of_the_gateway_that_hang_up_leave_the_key_writable_and_the_tiers_equal() {
    two_hundred_hang_up(true).await;
}

#[tokio::test]
async fn readers_that_hang_up_do_not_take_the_answer_of_the_others_with_them() {
    let mut cluster = cluster(1, 1, &[]).await;
    put_row(&mut cluster, "ada", "k", "v").await;
    let base = cluster.node("n1").url();
    let address = cluster.node("n1").address;
    let mut session = postgres(&mut cluster).session().await.expect("a session");
    session.run("BEGIN; LOCK TABLE entries IN ACCESS EXCLUSIVE MODE").await.expect("locked");
    let mut leader = RawConnection::open(address).await;
    leader.send(b"GET /v1/entries/k HTTP/1.1\r\nHost: x\r\nX-User-ID: ada\r\n\r\n").await;
    eventually("the load runs", HEALED, async || value_of(&base, "shardcache_node_origin_reads_total").await == 1)
        .await;
    let ada = User::new(&base, "ada");
    let joined = tokio::spawn(async move { ada.get("k").await });
    eventually("another has joined", HEALED, async || {
        value_of(&base, "shardcache_node_requests_in_progress").await == 2 || joined.is_finished()
    })
    .await;
    drop(leader);
    session.run("ROLLBACK").await.expect("released");
    let answer = joined.await.expect("the reader ends");
    assert!(says(&answer, "v"), "{answer:?}");
    assert_eq!(value_of(&base, "shardcache_node_origin_reads_total").await, 1);
    let again = cluster.user("ada").get("k").await;
    assert!(from_l1(&again) || from_l2(&again), "{again:?}");
}
