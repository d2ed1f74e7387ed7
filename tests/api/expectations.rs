//! `Expect: 100-continue` (E04): asked before the body, so that what is refused is refused before it is sent.

use std::time::Duration;

use tests::http::RawConnection;

use crate::support::{SOON, VALUE_MAX, assert_raw_problem, gateway, on_shared};

/// Curl gives up waiting for the 100 after a second: well below.
const AT_ONCE: Duration = Duration::from_millis(700);

fn head(method: &str, more: &str) -> Vec<u8> {
    format!("{method} /v1/entries/k HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n{more}\r\n").into_bytes()
}

#[test]
fn a_valid_put_gets_its_100_and_then_its_answer() {
    on_shared(async |cluster| {
        let mut connection = RawConnection::open(gateway(cluster)).await;
        for (user, status) in [("expects", 201), ("expects", 204)] {
            connection.send(&head("PUT", &format!("X-User-ID: {user}\r\nContent-Length: 5\r\n"))).await;
            assert_eq!(connection.answer(AT_ONCE).await.map(|answer| answer.status), Some(100));
            connection.send(b"hello").await;
            assert_eq!(connection.answer(SOON).await.map(|answer| answer.status), Some(status));
        }
        assert_eq!(cluster.user("expects").get("k").await.text(), "hello");
    });
}

#[test]
fn a_chunked_put_gets_its_100_too() {
    on_shared(async |cluster| {
        let mut connection = RawConnection::open(gateway(cluster)).await;
        connection.send(&head("PUT", "X-User-ID: expects-chunked\r\nTransfer-Encoding: chunked\r\n")).await;
        assert_eq!(connection.answer(AT_ONCE).await.map(|answer| answer.status), Some(100));
        connection.send(b"5\r\nhello\r\n0\r\n\r\n").await;
        assert_eq!(connection.answer(SOON).await.map(|answer| answer.status), Some(201));
    });
}

#[test]
fn what_is_refused_is_refused_without_a_100_and_without_waiting_for_the_body() {
    on_shared(async |cluster| {
        let too_large = format!("X-User-ID: expects\r\nContent-Length: {}\r\n", VALUE_MAX + 1);
        let cases = [
            ("PUT", too_large.as_str(), 413, "value_too_large"),
            ("PUT", "Content-Length: 5\r\n", 400, "user_id_missing"),
            ("PUT", "X-User-ID: a\r\nX-User-ID: b\r\nContent-Length: 5\r\n", 400, "user_id_invalid"),
            ("PUT", "Transfer-Encoding: chunked\r\n", 400, "user_id_missing"),
            ("POST", "X-User-ID: expects\r\nContent-Length: 5\r\n", 405, "method_not_allowed"),
            ("DELETE", "X-User-ID: expects\r\nContent-Length: 5\r\n", 400, "request_invalid"),
        ];
        for (method, more, status, code) in cases {
            let mut connection = RawConnection::open(gateway(cluster)).await;
            connection.send(&head(method, more)).await;
            let answer = connection.answer(AT_ONCE).await.unwrap_or_else(|| panic!("no answer to {method} {more}"));
            assert_raw_problem(&answer, status, code);
            // Whether the body follows is open: the connection must not be used again.
            assert!(connection.closes_within(SOON).await, "{method} {more}");
        }
    });
}
