//! The listener against raw clients: slow ones, stuck ones, too many, and a stop in the middle of it all.

mod bodies;
mod lane;
mod stopping;

use std::net::SocketAddr;

use axum::body::Body as AnyBody;
use http::{HeaderValue, StatusCode, header};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use super::*;
use crate::body::{BodyError, read_limited, refuse};

/// Bounds a wait for what must happen; never waited out by a test that passes.
const SOON: Duration = Duration::from_secs(20);
/// Longer than any test.
const NEVER: Duration = Duration::from_secs(3600);
/// The largest body that `/put` takes.
const BODY_LIMIT: u64 = 1000;
const GET: &str = "GET / HTTP/1.1\r\nhost: x\r\n\r\n";
const GET_WAIT: &str = "GET /wait HTTP/1.1\r\nhost: x\r\n\r\n";
const GET_LARGE: &str = "GET /large HTTP/1.1\r\nhost: x\r\n\r\n";

struct Server {
    address: SocketAddr,
    stop: CancellationToken,
    serving: JoinHandle<()>,
    gate: Arc<Gate>,
}

/// Where requests of `/wait` are held.
struct Gate {
    /// One permit for each request that has come.
    arrived: Semaphore,
    /// One permit for each that may be answered.
    go_on: Semaphore,
    /// One permit for each answer on its way that was given or given up.
    over: Semaphore,
}

impl Server {
    async fn start(options: ServeOptions) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
        let address = listener.local_addr().expect("address");
        let stop = CancellationToken::new();
        let gate = Arc::new(Gate { arrived: Semaphore::new(0), go_on: Semaphore::new(0), over: Semaphore::new(0) });
        let held = Arc::clone(&gate);
        let serving = tokio::spawn(serve(listener, Answering(held), options, stop.clone()));
        Self { address, stop, serving, gate }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.expect("connect")
    }

    async fn request_has_come(&self) {
        timeout(SOON, self.gate.arrived.acquire()).await.expect("in time").expect("open").forget();
    }

    /// Stops it; returns when nobody can connect any more.
    async fn stops_listening(&self) {
        self.stop.cancel();
        let refused = async {
            while TcpStream::connect(self.address).await.is_ok() {
                tokio::task::yield_now().await;
            }
        };
        timeout(SOON, refused).await.expect("no new connections");
    }

    async fn has_stopped(self) {
        timeout(SOON, self.serving).await.expect("stopped in time").expect("no panic");
    }
}

struct Answering(Arc<Gate>);

impl Handler for Answering {
    type Body = AnyBody;

    const ANSWERS_AT_ONCE: bool = true;

    /// `/at-once/…` is echoed, with its length before it; a `0` in it is left to the long way.
    fn answer_at_once(&self, get: &PlainGet<'_>, answer: &mut Vec<u8>) -> bool {
        let Some(echo) = get.target.strip_prefix("/at-once/").filter(|echo| !echo.contains('0')) else { return false };
        answer.extend_from_slice(echoed("lane", echo).as_bytes());
        true
    }

    /// `/soon/…` is echoed like that, once the gate lets it.
    fn answer_soon(&self, get: &PlainGet<'_>) -> Option<AnswerSoon> {
        let echo = get.target.strip_prefix("/soon/")?.to_owned();
        let gate = Arc::clone(&self.0);
        Some(Box::pin(async move {
            let _over = Over(Arc::clone(&gate));
            gate.arrived.add_permits(1);
            gate.go_on.acquire().await.expect("open").forget();
            echoed("lane", &echo).into_bytes()
        }))
    }

    async fn respond(&self, request: Request<Incoming>, _peer: SocketAddr) -> Response<AnyBody> {
        answer(request, &self.0).await
    }
}

/// Tells when an answer on its way is over.
struct Over(Arc<Gate>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.over.add_permits(1);
    }
}

/// An answer as the lane gives it.
fn echoed(by: &str, echo: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nby: {by}\r\ncontent-length: {}\r\n\r\n{echo}", echo.len())
}

async fn answer(request: Request<Incoming>, gate: &Gate) -> Response<AnyBody> {
    match request.uri().path() {
        "/panic" => panic!("a test asked for it"),
        "/wait" => {
            gate.arrived.add_permits(1);
            gate.go_on.acquire().await.expect("open").forget();
            Response::new("ok".into())
        }
        "/large" => Response::new(vec![b'x'; 64 << 20].into()),
        "/put" => put(request, SOON).await,
        "/put-soon" => put(request, Duration::from_millis(200)).await,
        "/refused" => {
            let (head, body) = request.into_parts();
            refuse(&head.headers, body);
            closing(StatusCode::UNAUTHORIZED)
        }
        _ => Response::new("ok".into()),
    }
}

async fn put(request: Request<Incoming>, deadline: Duration) -> Response<AnyBody> {
    match read_limited(request.into_body(), BODY_LIMIT, deadline).await {
        Ok(body) => Response::new(format!("{} bytes: ok", body.len()).into()),
        Err(BodyError::TooLarge) => closing(StatusCode::PAYLOAD_TOO_LARGE),
        Err(BodyError::Timeout) => closing(StatusCode::REQUEST_TIMEOUT),
        Err(BodyError::Broken) => closing(StatusCode::BAD_REQUEST),
    }
}

fn closing(status: StatusCode) -> Response<AnyBody> {
    let mut response = Response::new(AnyBody::empty());
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

/// No limit that a test could meet by chance.
fn patient() -> ServeOptions {
    let pace = PaceLimits { head: NEVER, idle: NEVER, stuck_reader: NEVER };
    ServeOptions { drain_timeout: NEVER, pace, ..ServeOptions::default() }
}

async fn send(stream: &mut TcpStream, text: &str) {
    stream.write_all(text.as_bytes()).await.expect("send");
}

/// What comes until the server closes, or resets.
async fn to_the_end(stream: &mut TcpStream) -> String {
    let mut read = Vec::new();
    let reading = async {
        let mut buffer = [0; 65536];
        while let Ok(count @ 1..) = stream.read(&mut buffer).await {
            read.extend_from_slice(&buffer[..count]);
        }
    };
    timeout(SOON, reading).await.expect("closed in time");
    String::from_utf8_lossy(&read).into_owned()
}

/// What comes up to and with `end`.
async fn up_to(stream: &mut TcpStream, end: &str) -> String {
    let mut read = String::new();
    let reading = async {
        while !read.ends_with(end) {
            read.push(char::from(stream.read_u8().await.expect("more of the answer")));
        }
    };
    timeout(SOON, reading).await.expect("answered in time");
    read
}

#[tokio::test]
async fn a_dribbled_head_is_cut_off() {
    let mut options = patient();
    options.pace.head = Duration::from_millis(200);
    let server = Server::start(options).await;
    let mut slow = server.connect().await;
    send(&mut slow, "GET / HTTP/1.1\r\nhost: ").await;
    let dribbling = async {
        let mut byte = [0];
        loop {
            match timeout(Duration::from_millis(10), slow.read(&mut byte)).await {
                Ok(Ok(1..)) => panic!("half a head is no request"),
                Ok(_closed) => return,
                Err(_elapsed) if slow.write_all(b"a").await.is_err() => return,
                Err(_elapsed) => {}
            }
        }
    };
    timeout(SOON, dribbling).await.expect("closed in time");
}

#[tokio::test]
async fn a_connection_without_requests_is_closed_before_and_after_its_first() {
    let mut options = patient();
    options.pace.idle = Duration::from_millis(200);
    let server = Server::start(options).await;
    let mut silent = server.connect().await;
    let mut idle = server.connect().await;
    send(&mut idle, GET).await;
    assert!(to_the_end(&mut idle).await.ends_with("ok"));
    assert_eq!(to_the_end(&mut silent).await, "");
}

#[tokio::test]
async fn a_handler_that_takes_long_is_not_a_slow_peer() {
    let short = Duration::from_millis(50);
    let pace = PaceLimits { head: short, idle: short, stuck_reader: short };
    let server = Server::start(ServeOptions { pace, ..patient() }).await;
    let mut waiting = server.connect().await;
    send(&mut waiting, GET_WAIT).await;
    server.request_has_come().await;
    let early = timeout(Duration::from_millis(300), waiting.readable()).await;
    assert!(early.is_err(), "neither answered nor closed");
    server.gate.go_on.add_permits(1);
    assert!(up_to(&mut waiting, "ok").await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn a_reader_that_takes_nothing_is_cut_off_and_its_place_is_free() {
    let mut options = ServeOptions { max_connections: 1, ..patient() };
    options.pace.stuck_reader = Duration::from_millis(200);
    let server = Server::start(options).await;
    let mut stuck = server.connect().await;
    send(&mut stuck, GET_LARGE).await;
    up_to(&mut stuck, "\r\n\r\n").await;
    let mut next = server.connect().await;
    send(&mut next, GET).await;
    assert!(up_to(&mut next, "ok").await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn a_panic_closes_its_own_connection_only_and_its_place_is_free() {
    let server = Server::start(ServeOptions { max_connections: 2, ..patient() }).await;
    let mut other = server.connect().await;
    send(&mut other, GET).await;
    up_to(&mut other, "ok").await;
    for _ in 0..3 {
        let mut panicking = server.connect().await;
        send(&mut panicking, "GET /panic HTTP/1.1\r\nhost: x\r\n\r\n").await;
        assert_eq!(to_the_end(&mut panicking).await, "");
    }
    send(&mut other, GET).await;
    assert!(up_to(&mut other, "ok").await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn connections_over_the_cap_wait_for_a_place() {
    let server = Server::start(ServeOptions { max_connections: 1, ..patient() }).await;
    let mut first = server.connect().await;
    send(&mut first, GET).await;
    up_to(&mut first, "ok").await;
    let mut second = server.connect().await;
    send(&mut second, GET).await;
    let early = timeout(Duration::from_millis(100), second.readable()).await;
    assert!(early.is_err(), "no place yet");
    drop(first);
    assert!(up_to(&mut second, "ok").await.starts_with("HTTP/1.1 200"));
}
