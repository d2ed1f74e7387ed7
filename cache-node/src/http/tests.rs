//! Answers from L1 over a socket: the short way and the long way say the same.

use placement::Epoch;
use service::listen::{ServeOptions, serve};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use wire::headers::X_SHARDCACHE_DETACHED;

use super::*;
use crate::interleavings::{Fixture, fixture, put};
use crate::metrics::{Tier, TierLabels};
use crate::write_path::WriteRequest;

/// Makes a request go the long way, and asks for nothing.
const LONG_WAY: (http::HeaderName, &str) = (X_SHARDCACHE_DETACHED, "0");

struct Server {
    fixture: Fixture,
    connection: TcpStream,
    stop: CancellationToken,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// A node that holds the entry `k`, and a connection to it.
async fn server() -> Server {
    let fixture = fixture().await;
    fixture.node.write(put("k", "value")).await.expect("write");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
    let connection = TcpStream::connect(listener.local_addr().expect("address")).await.expect("connect");
    let stop = CancellationToken::new();
    let app = App::new(Arc::clone(&fixture.node));
    tokio::spawn(serve(listener, app, ServeOptions::default(), stop.clone()));
    Server { fixture, connection, stop }
}

impl Server {
    /// The answer's head and body, its header lines in order of their names, without the date.
    async fn get(&mut self, path: &str, headers: &[(&str, &str)]) -> (Vec<String>, String) {
        let mut request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nx-user-id: user-1\r\nx-request-id: r\r\n");
        headers.iter().for_each(|(name, value)| request.push_str(&format!("{name}: {value}\r\n")));
        self.connection.write_all(format!("{request}\r\n").as_bytes()).await.expect("sent");
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            head.push(char::from(self.connection.read_u8().await.expect("a head")));
        }
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap_or("0");
        let mut body = vec![0; length.parse().expect("a length")];
        self.connection.read_exact(&mut body).await.expect("a body");
        let mut lines: Vec<_> = head.lines().map(str::to_owned).filter(|line| !line.starts_with("date: ")).collect();
        lines.sort();
        (lines, String::from_utf8(body).expect("utf-8"))
    }

    fn answered_by_l1(&self) -> u64 {
        self.fixture.node.metrics.reads.get(&TierLabels { tier: Tier::l1 })
    }
}

#[tokio::test]
async fn both_ways_to_an_entry_in_l1_give_the_same_answer() {
    let mut server = server().await;
    let (name, value) = (LONG_WAY.0.as_str().to_owned(), LONG_WAY.1);
    let texts = [("text/plain", None), (DEFAULT_TYPE, Some("no-store")), ("", Some("")), ("text/html", None)];
    for (content_type, cache_control) in texts {
        let WriteRequest { name: entry, precondition, .. } = put("k", "value");
        let kind = origin::WriteKind::Put {
            value: bytes::Bytes::from_static(b"value"),
            content_type: content_type.to_owned(),
            cache_control: cache_control.map(str::to_owned),
        };
        server.fixture.node.write(WriteRequest { name: entry, kind, precondition, until: None }).await.expect("write");
        let before = server.answered_by_l1();
        let short = server.get("/v1/entries/k", &[]).await;
        let long = server.get("/v1/entries/k", &[(&name, value)]).await;
        assert_eq!(short, long);
        assert_eq!(server.answered_by_l1() - before, 2);
        assert!(short.0.contains(&format!("content-type: {content_type}")), "{:?}", short.0);
    }
}

#[tokio::test]
async fn both_ways_to_an_entry_that_is_not_in_l1_give_the_same_answer() {
    let mut server = server().await;
    let long_way = [(LONG_WAY.0.as_str().to_owned(), LONG_WAY.1)];
    let long_way = [(long_way[0].0.as_str(), long_way[0].1)];
    let k = put("k", "value").name;
    for path in ["/v1/entries/k", "/v1/entries/none"] {
        let mut answers = Vec::new();
        for headers in [&[][..], &long_way] {
            server.fixture.node.l1.clear();
            answers.push(server.get(path, headers).await);
        }
        assert_eq!(answers[0], answers[1], "{path}");
        assert!(answers[0].0.iter().any(|line| line.contains("shardcache-l1; fwd=miss")), "{answers:?}");
    }
    // A slot of another's.
    server.fixture.node.slots.lock(k.slot).hold = Default::default();
    server.fixture.node.slots.lock(k.slot).publish();
    let answers = [server.get("/v1/entries/k", &[]).await, server.get("/v1/entries/k", &long_way).await];
    assert_eq!(answers[0], answers[1]);
    assert!(answers[0].0.iter().any(|line| line.starts_with("HTTP/1.1 421")), "{answers:?}");
}

#[tokio::test]
async fn a_row_whose_texts_can_stand_in_no_head_is_answered_all_the_same() {
    let mut server = server().await;
    let mut odd = put("odd", "value");
    if let origin::WriteKind::Put { content_type, .. } = &mut odd.kind {
        *content_type = "a\r\nb: c".to_owned();
    }
    server.fixture.node.write(odd).await.expect("write");
    for _ in 0..2 {
        server.fixture.node.l1.clear();
        let (head, body) = server.get("/v1/entries/odd", &[]).await;
        assert!(head.contains(&format!("content-type: {DEFAULT_TYPE}")), "{head:?}");
        assert_eq!(body, "value");
    }
}

const DEFAULT_TYPE: &str = wire::headers::DEFAULT_CONTENT_TYPE;

#[tokio::test]
async fn an_answer_from_l1_says_the_epoch_seen_last() {
    let mut server = server().await;
    for epoch in [7, 8] {
        server.fixture.node.status.set_epoch(Epoch(epoch));
        let (head, body) = server.get("/v1/entries/k", &[]).await;
        assert!(head.contains(&format!("x-ring-epoch: {epoch}")), "{head:?}");
        assert_eq!(body, "value");
    }
}

#[tokio::test]
async fn whatever_is_out_of_the_ordinary_is_answered_the_long_way() {
    let mut server = server().await;
    let cases = [
        ("/v1/entries/k", vec![("x-user-id", "user-1")], "400"),
        ("/v1/entries/k", vec![("x-user-id", "user-2")], "400"),
        ("/v1/entries/a%2", vec![], "400"),
        ("/v1/entries/%6b", vec![], "200"),
        ("/v1/entries/other", vec![], "404"),
        ("/v1/entries/k", vec![("if-match", "\"0\"")], "412"),
        ("/v1/entries/k", vec![("if-none-match", "*")], "304"),
        ("/v1/entries/k", vec![("x-shardcache-detached", "1")], "200"),
    ];
    for (path, headers, status) in cases {
        let (head, _) = server.get(path, &headers).await;
        assert!(
            head.iter().any(|line| line.starts_with(&format!("HTTP/1.1 {status}"))),
            "{path} {headers:?}: {head:?}"
        );
    }
}

#[tokio::test]
async fn an_entry_whose_absence_l1_holds_is_not_found() {
    let mut server = server().await;
    for _ in 0..2 {
        let (head, _) = server.get("/v1/entries/none", &[]).await;
        assert!(head.iter().any(|line| line.starts_with("HTTP/1.1 404")), "{head:?}");
    }
    assert_eq!(server.answered_by_l1(), 1);
}

#[tokio::test]
async fn a_read_is_counted_once_for_the_sampling_whichever_way_it_goes() {
    let mut server = server().await;
    let before = server.fixture.node.auditor.reads();
    server.get("/v1/entries/k", &[]).await;
    server.get("/v1/entries/none", &[]).await;
    assert_eq!(server.fixture.node.auditor.reads() - before, 2);
}
