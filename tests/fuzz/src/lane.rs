//! The lane before hyper (`service::listen`): where a message ends, and which are answered without hyper.

use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use arbitrary::{Result, Unstructured};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Empty};
use httparse::{EMPTY_HEADER, Status};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use service::fuzzing::{Next, lane_next};

use crate::names;

/// As many header lines as hyper takes.
const HEADERS_MAX: usize = 100;
/// How many beginnings of an input are looked at.
const BEGINNINGS: usize = 64;
/// The longest body that hyper is sent, in bytes.
const BODY_MAX: u64 = 8 << 10;

/// Reads the bytes as what comes by a connection, and messages made from them.
pub fn lane(data: &[u8]) {
    input(data);
    if let Ok(made) = made(&mut Unstructured::new(data)) {
        input(&made);
    }
}

fn input(data: &[u8]) {
    let known = lane_next(data, |_| true);
    agrees_with_the_parser(data, known);
    let refused = lane_next(data, |_| false);
    match known {
        Next::Answered(length) => {
            let whole = length <= data.len() && data[..length].ends_with(b"\n");
            assert!(whole && lane_next(&data[..length - 1], |_| true) == Next::Part, "no whole head is answered");
            assert_eq!(refused, Next::Message(length as u64), "who refuses to answer changes no length");
            agrees_with_hyper(data, length, length as u64);
        }
        other => assert_eq!(refused, other),
    }
    // More input never changes what was known.
    for end in (0..data.len()).step_by(1 + data.len() / BEGINNINGS) {
        let before = lane_next(&data[..end], |_| true);
        assert!(before == Next::Part || before == known, "{before:?}, and with more bytes {known:?}");
    }
}

/// What httparse and the header lines say.
fn agrees_with_the_parser(data: &[u8], known: Next) {
    let mut lines = [EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut lines);
    let head = match request.parse(data) {
        Ok(Status::Complete(head)) => head,
        Ok(Status::Partial) => return assert_eq!(known, Next::Part),
        Err(_) => return assert_eq!(known, Next::Unknown),
    };
    let of = |name: &str| -> Vec<&[u8]> {
        let lines = request.headers.iter().filter(|line| line.name.eq_ignore_ascii_case(name));
        lines.map(|line| line.value).collect()
    };
    let odd = ["transfer-encoding", "expect", "upgrade"].iter().any(|name| !of(name).is_empty());
    let is_odd = odd || request.version != Some(1) || request.method == Some("CONNECT");
    let body = match of("content-length")[..] {
        [] => Some(0),
        [one] if one.iter().all(u8::is_ascii_digit) => {
            std::str::from_utf8(one).ok().and_then(|digits| digits.parse().ok())
        }
        _ => None,
    };
    let alone = ["content-length", "connection"].iter().all(|name| of(name).is_empty());
    let plain = alone && of("host").len() == 1 && request.method == Some("GET");
    match known {
        Next::Part => panic!("the head is whole"),
        Next::Unknown => assert!(is_odd || body.is_none_or(|length: u64| length >= 1_000_000_000_000_000)),
        Next::Answered(length) => {
            assert!(plain && !is_odd && length == head);
            let asked = lane_next(data, |get| {
                assert_eq!(Some(get.target), request.path);
                assert!(get.headers.iter().eq(request.headers.iter()));
                true
            });
            assert_eq!(asked, known);
        }
        Next::Message(length) => {
            assert!(!plain && !is_odd && Some(length - head as u64) == body);
            agrees_with_hyper(data, head, length);
        }
    }
}

/// If hyper takes the message, it takes one, with a body of this length.
fn agrees_with_hyper(data: &[u8], head: usize, length: u64) {
    let body = length - head as u64;
    if body > BODY_MAX {
        return;
    }
    let mut message = data[..data.len().min(length as usize)].to_vec();
    message.resize(length as usize, b'x');
    let requests = AtomicUsize::new(0);
    let service = service_fn(async |request: Request<Incoming>| {
        let before = requests.fetch_add(1, Ordering::Relaxed);
        assert_eq!(before, 0, "two requests of one message");
        let got = request.into_body().collect().await.map(|body| body.to_bytes().len() as u64);
        assert_eq!(got.ok(), Some(body), "a body of another length");
        Ok::<_, hyper::Error>(Response::new(Empty::<Bytes>::new()))
    });
    let mut http = http1::Builder::new();
    let served = http.header_read_timeout(None).serve_connection(Client { message, sent: 0 }, service);
    let mut served = pin!(served);
    // Nothing that it waits for is ever late: it needs a turn for each step, of which there are few.
    for _ in 0..1000 {
        if served.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
            return;
        }
    }
    panic!("hyper waits for more of a whole message");
}

/// Sends one message and closes its side; takes all answers.
struct Client {
    message: Vec<u8>,
    sent: usize,
}

impl hyper::rt::Read for Client {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        mut buffer: hyper::rt::ReadBufCursor<'_>,
    ) -> Poll<std::io::Result<()>> {
        let end = self.message.len().min(self.sent + buffer.remaining());
        buffer.put_slice(&self.message[self.sent..end]);
        self.sent = end;
        Poll::Ready(Ok(()))
    }
}

impl hyper::rt::Write for Client {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

const METHODS: [&str; 6] = ["GET", "GET", "PUT", "HEAD", "CONNECT", "DELETE"];
const VERSIONS: [&str; 4] = ["HTTP/1.1", "HTTP/1.1", "HTTP/1.0", "HTTP/2.0"];
const ENDS: [&str; 3] = ["\r\n", "\r\n", "\n"];
/// Header lines on which something depends, and others.
const LINES: [&str; 14] = [
    "content-length: 3",
    "Content-Length: 0",
    "content-length: +3",
    "content-length: 3, 3",
    "content-length: 18446744073709551616",
    "content-length : 3",
    "transfer-encoding: chunked",
    "Transfer-Encoding: identity",
    "expect: 100-continue",
    "connection: close",
    "connection: upgrade",
    "upgrade: websocket",
    "x-user-id: ada",
    "x: ",
];

/// Messages, the last of which may be cut.
fn made(bytes: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let messages = names::several(bytes, |bytes| {
        let mut message = format!("{} /v1/entries/a", bytes.choose(&METHODS)?).into_bytes();
        message.extend_from_slice(names::text(bytes)?.as_bytes());
        message.extend_from_slice(format!(" {}{}", bytes.choose(&VERSIONS)?, bytes.choose(&ENDS)?).as_bytes());
        for line in names::several(bytes, |bytes| Ok(*bytes.choose(&LINES)?))? {
            message.extend_from_slice(line.as_bytes());
            message.extend_from_slice(bytes.choose(&ENDS)?.as_bytes());
        }
        message.extend_from_slice(bytes.choose(&ENDS)?.as_bytes());
        Ok(message)
    })?;
    let mut all = messages.concat();
    all.extend_from_slice(bytes.arbitrary::<&[u8]>()?);
    Ok(all)
}
