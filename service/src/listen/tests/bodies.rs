//! Bodies that are asked for, too large, too slow or not wanted: whoever is refused can read why.

use super::*;

/// Far more than the buffers of both sockets hold, and less than is read of a refused body.
const FAR_TOO_MUCH: usize = 50 << 20;
const PIECE: usize = 64 << 10;

fn head(path: &str, headers: &str) -> String {
    format!("PUT {path} HTTP/1.1\r\nhost: x\r\n{headers}\r\n\r\n")
}

/// Sends a body of 50 MiB without waiting for anything, and only then reads: what comes to the end.
async fn answer_to_far_too_much(server: &Server, path: &str, expect: &str, chunked: bool) -> String {
    let mut large = server.connect().await;
    let framing =
        if chunked { "transfer-encoding: chunked".to_owned() } else { format!("content-length: {FAR_TOO_MUCH}") };
    send(&mut large, &head(path, &format!("{expect}{framing}"))).await;
    let data = "y".repeat(PIECE);
    let piece = if chunked { format!("{PIECE:x}\r\n{data}\r\n") } else { data };
    let sending = async {
        for sent in 0..FAR_TOO_MUCH / PIECE {
            if let Err(error) = large.write_all(piece.as_bytes()).await {
                panic!("{path} {expect:?}: no longer read after {sent} pieces: {error}");
            }
        }
        if chunked {
            large.write_all(b"0\r\n\r\n").await.expect("the server reads on");
        }
    };
    timeout(SOON, sending).await.expect("sent in time");
    to_the_end(&mut large).await
}

#[tokio::test]
async fn a_client_that_sends_far_too_much_can_read_why_it_was_refused() {
    let server = Server::start(patient()).await;
    for expect in ["", "expect: 100-continue\r\n"] {
        for chunked in [false, true] {
            // A body of unknown length is asked for before it is found too large.
            let answer = answer_to_far_too_much(&server, "/put", expect, chunked).await;
            let last = answer.strip_prefix("HTTP/1.1 100 Continue\r\n\r\n").filter(|_| chunked).unwrap_or(&answer);
            assert!(last.starts_with("HTTP/1.1 413 "), "{expect:?} {chunked}: {answer}");
        }
    }
}

#[tokio::test]
async fn a_client_that_is_refused_before_its_body_is_looked_at_can_read_why() {
    let server = Server::start(patient()).await;
    for expect in ["", "expect: 100-continue\r\n"] {
        let answer = answer_to_far_too_much(&server, "/refused", expect, false).await;
        assert!(answer.starts_with("HTTP/1.1 401 "), "{expect:?}: {answer}");
    }
}

#[tokio::test]
async fn a_client_that_asks_first_is_told_to_go_on() {
    let server = Server::start(patient()).await;
    let mut asking = server.connect().await;
    send(&mut asking, &head("/put", "expect: 100-continue\r\ncontent-length: 3")).await;
    assert_eq!(up_to(&mut asking, "\r\n\r\n").await, "HTTP/1.1 100 Continue\r\n\r\n");
    send(&mut asking, "abc").await;
    assert!(up_to(&mut asking, "ok").await.ends_with("3 bytes: ok"));
}

#[tokio::test]
async fn a_client_that_asks_first_and_is_refused_is_never_told_to_go_on() {
    let server = Server::start(patient()).await;
    let refused = async |path, status: &str| {
        let mut refused = server.connect().await;
        send(&mut refused, &head(path, "expect: 100-continue\r\ncontent-length: 3000")).await;
        let answer = to_the_end(&mut refused).await;
        assert!(answer.starts_with(status) && !answer.contains("100 Continue"), "{answer}");
    };
    tokio::join!(refused("/put", "HTTP/1.1 413 "), refused("/refused", "HTTP/1.1 401 "));
}

#[tokio::test]
async fn a_body_of_unknown_length_is_refused_where_it_passes_the_limit() {
    let server = Server::start(patient()).await;
    let mut chunked = server.connect().await;
    let at_limit = format!("{BODY_LIMIT:x}\r\n{}\r\n", "y".repeat(BODY_LIMIT as usize));
    let begin = head("/put", "transfer-encoding: chunked") + &at_limit;
    send(&mut chunked, &format!("{begin}0\r\n\r\n")).await;
    assert!(up_to(&mut chunked, "ok").await.ends_with("1000 bytes: ok"));
    // One byte more, and the end never comes.
    send(&mut chunked, &format!("{begin}1\r\ny\r\n")).await;
    assert!(up_to(&mut chunked, "\r\n\r\n").await.starts_with("HTTP/1.1 413 "));
}

#[tokio::test]
async fn a_client_that_is_too_slow_and_reads_only_at_the_end_can_read_why_it_was_refused() {
    let server = Server::start(patient()).await;
    let mut slow = server.connect().await;
    send(&mut slow, &head("/put-soon", "content-length: 900")).await;
    let mut pace = tokio::time::interval(Duration::from_millis(10));
    for _ in 0..60 {
        pace.tick().await;
        slow.write_all(&[b'a'; 15]).await.expect("the server reads on");
    }
    let answer = to_the_end(&mut slow).await;
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
}

#[tokio::test]
async fn a_body_that_ends_early_or_is_not_framed_is_broken_and_harms_nobody() {
    let server = Server::start(patient()).await;
    let mut unframed = server.connect().await;
    send(&mut unframed, &(head("/put", "transfer-encoding: chunked") + "zz\r\n")).await;
    assert!(to_the_end(&mut unframed).await.starts_with("HTTP/1.1 400 "));
    let mut gone = server.connect().await;
    send(&mut gone, &(head("/put", "content-length: 10") + "abc")).await;
    drop(gone);
    let mut next = server.connect().await;
    send(&mut next, &(head("/put", "content-length: 3") + "abc")).await;
    assert!(up_to(&mut next, "ok").await.ends_with("3 bytes: ok"));
}
