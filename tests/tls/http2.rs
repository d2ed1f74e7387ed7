//! HTTP/2 at the gateway's door: agreed on by TLS, or known before on a plain connection.

use bytes::Bytes;
use futures_util::future::join_all;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper::{Request, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tests::cluster::{Cluster, ClusterOptions, Database};
use tests::http::RawConnection;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::certificates::{SOON, TlsClient};
use crate::scene::Scene;

type Sender = SendRequest<Full<Bytes>>;

async fn http2<S>(stream: S) -> Sender
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = handshake(TokioExecutor::new(), TokioIo::new(stream)).await.expect("HTTP/2");
    tokio::spawn(connection);
    sender
}

/// Status, ETag and body.
async fn ask(sender: &Sender, method: &str, url: &str, body: &[u8]) -> (u16, String, Bytes) {
    let mut sender = sender.clone();
    let body = Full::from(body.to_vec());
    let request = Request::builder().method(method).uri(url).version(Version::HTTP_2).header("x-user-id", "u");
    let asking = async {
        let answer = sender.send_request(request.body(body).expect("a request")).await.expect("an answer");
        let status = answer.status().as_u16();
        let tag = answer.headers().get("etag").and_then(|tag| tag.to_str().ok()).unwrap_or_default().to_owned();
        (status, tag, answer.into_body().collect().await.expect("a whole body").to_bytes())
    };
    timeout(SOON, asking).await.expect("answered in time")
}

async fn many_at_once(sender: &Sender, base: &str) {
    let large = vec![b'x'; 300_000];
    assert_eq!(ask(sender, "PUT", &format!("{base}/v1/entries/large"), &large).await.0, 201);
    let puts = (0..50).map(async |number: u32| {
        let url = format!("{base}/v1/entries/k{number}");
        ask(sender, "PUT", &url, number.to_string().as_bytes()).await.0
    });
    assert!(join_all(puts).await.iter().all(|status| *status == 201));
    let gets = (0..50).map(async |number: u32| {
        let (status, tag, body) = ask(sender, "GET", &format!("{base}/v1/entries/k{number}"), b"").await;
        assert_eq!((status, &body[..], tag.is_empty()), (200, number.to_string().as_bytes(), false));
    });
    let all_large = (0..10).map(async |_| ask(sender, "GET", &format!("{base}/v1/entries/large"), b"").await.2);
    let (large_ones, _) = tokio::join!(join_all(all_large), join_all(gets));
    assert!(large_ones.iter().all(|body| *body == large));
    assert_eq!(ask(sender, "HEAD", &format!("{base}/v1/entries/large"), b"").await.0, 200);
    assert_eq!(ask(sender, "TRACE", &format!("{base}/v1/entries/large"), b"").await.0, 405);
    assert_eq!(ask(sender, "GET", &format!("{base}/nope"), b"").await.0, 404);
}

#[tokio::test]
async fn http2_is_agreed_on_by_tls_and_old_clients_get_http1() {
    let scene = Scene::start(1).await;
    let base = format!("https://{}", scene.gateway);
    for (offered, agreed) in [(&["h2", "http/1.1"][..], "h2"), (&["http/1.1"], "http/1.1"), (&[], "")] {
        let client = TlsClient::new(&scene.outer, None, offered);
        let stream = client.connect(scene.gateway).await.expect("a connection");
        let told = stream.get_ref().1.alpn_protocol().unwrap_or_default().to_vec();
        assert_eq!(String::from_utf8_lossy(&told), agreed);
        if agreed == "h2" {
            many_at_once(&http2(stream).await, &base).await;
        }
    }
}

async fn plain_cluster() -> Cluster {
    let database = Database::Sqlite;
    Cluster::start(ClusterOptions { nodes: 1, database, redis: 0, ..ClusterOptions::default() }).await
}

#[tokio::test]
async fn a_plain_connection_that_begins_with_the_preface_is_http2() {
    let cluster = plain_cluster().await;
    let (gateway, node) = (cluster.gateways[0].address, cluster.nodes["n1"].address);
    let stream = TcpStream::connect(gateway).await.expect("a connection");
    many_at_once(&http2(stream).await, &cluster.gateway_url()).await;

    // Another beginning is HTTP/1, in however many pieces it comes; and nodes know nothing of HTTP/2.
    let mut pieces = RawConnection::open(gateway).await;
    for piece in ["P", "R", "I * HTTP/1.1\r\nHost: x\r\n", "\r\n"] {
        pieces.send(piece.as_bytes()).await;
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!(pieces.answer(SOON).await.map(|answer| answer.status), Some(404));
    let mut to_node = RawConnection::open(node).await;
    to_node.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
    assert!(to_node.answer(SOON).await.is_none_or(|answer| answer.status == 400));
    assert!(to_node.closes_within(SOON).await);
}

#[tokio::test]
async fn a_stop_answers_the_requests_of_an_http2_connection_and_then_ends_it() {
    let mut cluster = plain_cluster().await;
    let stream = TcpStream::connect(cluster.gateways[0].address).await.expect("a connection");
    let sender = http2(stream).await;
    let url = format!("{}/v1/ring", cluster.gateway_url());
    assert_eq!(ask(&sender, "GET", &url, b"").await.0, 200);
    let stopped = cluster.gateways[0].process.stop().await;
    assert!(stopped.success(), "{stopped:?}");
    assert!(sender.is_closed());
}
