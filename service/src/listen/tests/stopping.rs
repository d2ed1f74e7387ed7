//! A stop: what is in flight is answered, what is idle is closed, and nobody holds it up for longer than allowed.

use super::*;

#[tokio::test]
async fn idle_connections_are_closed_at_once_by_a_stop() {
    let server = Server::start(patient()).await;
    let mut idle = server.connect().await;
    send(&mut idle, GET).await;
    up_to(&mut idle, "ok").await;
    let mut silent = server.connect().await;
    // The listener takes connections in turn, so that an answer to a later one shows that the silent one was taken.
    let mut later = server.connect().await;
    send(&mut later, GET).await;
    up_to(&mut later, "ok").await;
    server.stop.cancel();
    assert_eq!(to_the_end(&mut idle).await, "");
    assert_eq!(to_the_end(&mut silent).await, "");
    server.has_stopped().await;
}

#[tokio::test]
async fn a_request_in_flight_is_answered_during_a_stop_and_its_connection_closed() {
    let server = Server::start(patient()).await;
    let mut busy = server.connect().await;
    send(&mut busy, GET_WAIT).await;
    server.request_has_come().await;
    server.stops_listening().await;
    server.gate.go_on.add_permits(1);
    let answer = to_the_end(&mut busy).await.to_lowercase();
    assert!(answer.contains("\r\nconnection: close\r\n") && answer.ends_with("ok"), "{answer}");
    server.has_stopped().await;
}

#[tokio::test]
async fn an_answer_on_its_way_past_hyper_is_given_during_a_stop_and_its_connection_closed() {
    let server = Server::start(patient()).await;
    let mut busy = server.connect().await;
    send(&mut busy, "GET /soon/a HTTP/1.1\r\nhost: x\r\n\r\n").await;
    server.request_has_come().await;
    server.stops_listening().await;
    server.gate.go_on.add_permits(1);
    assert_eq!(to_the_end(&mut busy).await, echoed("lane", "a"));
    server.has_stopped().await;
}

#[tokio::test]
async fn a_body_on_its_way_is_taken_and_answered_during_a_stop() {
    let server = Server::start(patient()).await;
    let mut busy = server.connect().await;
    send(&mut busy, "PUT /put HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 6\r\n\r\n").await;
    // Shows that the handler has begun.
    up_to(&mut busy, "100 Continue\r\n\r\n").await;
    server.stop.cancel();
    send(&mut busy, "abcdef").await;
    assert!(to_the_end(&mut busy).await.ends_with("6 bytes: ok"));
    server.has_stopped().await;
}

#[tokio::test]
async fn neither_a_stuck_reader_nor_an_endless_request_holds_a_stop_up_beyond_the_drain_timeout() {
    let drain_timeout = Duration::from_millis(200);
    let server = Server::start(ServeOptions { drain_timeout, ..patient() }).await;
    let mut stuck = server.connect().await;
    send(&mut stuck, GET_LARGE).await;
    up_to(&mut stuck, "\r\n\r\n").await;
    let mut endless = server.connect().await;
    send(&mut endless, GET_WAIT).await;
    server.request_has_come().await;
    let begin = tokio::time::Instant::now();
    server.stop.cancel();
    server.has_stopped().await;
    assert!(begin.elapsed() >= drain_timeout, "they had their time");
    assert_eq!(to_the_end(&mut endless).await, "");
}

#[tokio::test]
async fn whoever_asks_just_then_is_answered_once_more_and_told_that_it_was_the_last() {
    for path in ["/", "/at-once/a"] {
        let server = Server::start(patient()).await;
        // Taken in turn: the answer to the later one shows that the other was taken.
        let mut new = server.connect().await;
        let mut asking = server.connect().await;
        send(&mut asking, GET).await;
        up_to(&mut asking, "ok").await;
        server.stops_listening().await;
        for client in [&mut asking, &mut new] {
            send(client, &format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n")).await;
            let answer = to_the_end(client).await.to_lowercase();
            assert!(answer.starts_with("http/1.1 200") && answer.contains("\r\nconnection: close\r\n"), "{answer}");
        }
        server.has_stopped().await;
    }
}
