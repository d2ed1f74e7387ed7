//! Where a body ends (E05): one reading or a refusal, and what hides behind a body is never carried out.

use tests::http::RawConnection;

use crate::support::{SOON, gateway, gateway_and_node, on_shared};

const HEAD: &str = "PUT /v1/entries/carrier HTTP/1.1\r\nHost: x\r\nX-User-ID: smuggler\r\n";
const HIDDEN: &str = "DELETE /v1/entries/canary HTTP/1.1\r\nHost: x\r\nX-User-ID: smuggler\r\n\r\n";

/// Each with the status it must have; 0: any below 500.
fn ambiguous() -> Vec<(String, u16)> {
    let length = HIDDEN.len() + 5;
    let put = |headers: &str, body: &str| format!("{HEAD}{headers}\r\n\r\n{body}");
    let chunked_end = format!("0\r\n\r\n{HIDDEN}");
    vec![
        (put(&format!("Content-Length: {length}\r\nTransfer-Encoding: chunked"), &chunked_end), 0),
        (put(&format!("Transfer-Encoding: chunked\r\nContent-Length: {length}"), &chunked_end), 0),
        (put(&format!("Content-Length: 0\r\nContent-Length: {length}"), &chunked_end), 400),
        (put(&format!("Content-Length: {length}\r\nContent-Length: 0"), &chunked_end), 400),
        (put("Content-Length: ", HIDDEN), 400),
        (put("Content-Length: +5", &chunked_end), 400),
        (put("Content-Length: -5", &chunked_end), 400),
        (put("Content-Length: 5,5", &chunked_end), 400),
        (put("Content-Length: 0x5", &chunked_end), 400),
        (put("Content-Length: 5 5", &chunked_end), 400),
        (put("Transfer-Encoding: xchunked", &chunked_end), 400),
        (put("Transfer-Encoding: identity", &chunked_end), 400),
        (put("Transfer-Encoding: chunked, identity", &chunked_end), 400),
        (put("Transfer-Encoding: \"chunked\"", &chunked_end), 400),
        (put("Transfer-Encoding : chunked", &chunked_end), 400),
        (put("Transfer-Encoding:\r\n chunked", &chunked_end), 400),
        (put("X: y\r\n folded: z\r\nContent-Length: 0", &format!("x{HIDDEN}")), 400),
        (put("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity", &chunked_end), 400),
        (put("Transfer-Encoding: chunked", &format!("5;ext=\n\r\nhello\r\n0\r\n{HIDDEN}")), 0),
        (put("Transfer-Encoding: chunked", &format!("g\r\n{HIDDEN}")), 400),
        (put("Transfer-Encoding: chunked", &format!("-1\r\n{HIDDEN}")), 400),
        (put("Transfer-Encoding: chunked", &format!("100000000000000005\r\nhello\r\n0\r\n\r\n{HIDDEN}")), 400),
        (put("Transfer-Encoding: chunked", &format!("5\r\nhelloXX\r\n0\r\n\r\n{HIDDEN}")), 400),
        (put(&format!("content-length\u{b}: 0\r\nContent-Length: {length}"), &chunked_end), 400),
        (
            format!(
                "PUT /v1/entries/carrier HTTP/1.0\r\nX-User-ID: smuggler\r\nTransfer-Encoding: chunked\r\n\r\n{chunked_end}"
            ),
            400,
        ),
    ]
}

#[test]
fn what_hides_behind_an_ambiguous_body_is_never_carried_out() {
    on_shared(async |cluster| {
        let user = cluster.user("smuggler");
        let canary = user.put("canary", "alive").await;
        for address in gateway_and_node(cluster) {
            for (request, status) in ambiguous() {
                let mut connection = RawConnection::open(address).await;
                connection.send(request.as_bytes()).await;
                let answer = connection.answer(SOON).await.unwrap_or_else(|| panic!("no answer to {request}"));
                let right = if status == 0 { answer.status < 500 } else { answer.status == status };
                assert!(right, "{request}\n{answer:?}");
                let second = connection.answer(SOON).await;
                assert_eq!(second, None, "a second request was seen in {request}");
            }
        }
        let after = user.get("canary").await;
        assert_eq!((after.text(), after.header("etag")), ("alive".to_owned(), canary.header("etag")));
    });
}

#[test]
fn equal_lengths_twice_bare_line_feeds_and_trailing_blanks_have_one_reading() {
    on_shared(async |cluster| {
        let ways = [
            "PUT /v1/entries/k HTTP/1.1\r\nHost: x\r\nX-User-ID: readings\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
            "PUT /v1/entries/k HTTP/1.1\nHost: x\nX-User-ID: readings\nContent-Length: 3\n\nabc",
            "PUT /v1/entries/k HTTP/1.1\r\nHost: x\r\nX-User-ID: readings\r\nTransfer-Encoding: chunked\t\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
            "PUT /v1/entries/k HTTP/1.1\r\nHost: x\r\nX-User-ID: readings\r\nTransfer-Encoding: Chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\nTrailer: t\r\n\r\n",
        ];
        for way in ways {
            let mut connection = RawConnection::open(gateway(cluster)).await;
            connection.send(way.as_bytes()).await;
            connection.send(b"GET /v1/entries/k HTTP/1.1\r\nHost: x\r\nX-User-ID: readings\r\n\r\n").await;
            let put = connection.answer(SOON).await.expect("an answer to the PUT");
            if put.status == 400 {
                continue;
            }
            let get = connection.answer(SOON).await.unwrap_or_else(|| panic!("no second answer after {way}"));
            assert!(matches!(put.status, 201 | 204), "{way}: {put:?}");
            assert_eq!((get.status, &get.body[..]), (200, &b"abc"[..]), "{way}");
        }
    });
}
