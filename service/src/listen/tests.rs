//! The listener against raw clients: slow ones, stuck ones, large ones, and a stop in the middle of it all.

use std::net::SocketAddr;

use axum::body::Body as AnyBody;
use http::StatusCode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use super::*;
use crate::body::read_limited;

const SOON: Duration = Duration::from_secs(10);

struct Server {
    address: SocketAddr,
    stop: CancellationToken,
    serving: JoinHandle<()>,
    /// `/wait` answers once a permit is here.
    go_on: Arc<Semaphore>,
}

async fn server(options: ServeOptions) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
    let address = listener.local_addr().expect("address");
    let stop = CancellationToken::new();
    let go_on = Arc::new(Semaphore::new(0));
    let gate = Arc::clone(&go_on);
    let handler = hyper::service::service_fn(move |request: Request<Incoming>| {
        let gate = Arc::clone(&gate);
        async move { Ok::<_, Infallible>(answer(request, &gate).await) }
    });
    let serving = tokio::spawn(serve(listener, handler, options, stop.clone()));
    Server { address, stop, serving, go_on }
}

async fn answer(request: Request<Incoming>, gate: &Semaphore) -> Response<AnyBody> {
    let mut response = Response::new(AnyBody::from("ok"));
    match request.uri().path() {
        "/panic" => panic!("a test asked for it"),
        "/wait" => gate.acquire().await.expect("open").forget(),
        "/large" => *response.body_mut() = AnyBody::from(vec![b'x'; 64 << 20]),
        "/put" => match read_limited(request.into_body(), 1000, SOON).await {
            Ok(body) => *response.body_mut() = AnyBody::from(body.len().to_string()),
            Err(_) => {
                *response.status_mut() = StatusCode::PAYLOAD_TOO_LARGE;
                response.headers_mut().insert(http::header::CONNECTION, http::HeaderValue::from_static("close"));
            }
        },
        _ => {}
    }
    response
}

fn short() -> ServeOptions {
    let pace = PaceLimits {
        head: Duration::from_millis(200),
        idle: Duration::from_millis(400),
        stuck_reader: Duration::from_millis(300),
    };
    ServeOptions { drain_timeout: Duration::from_millis(500), pace, ..ServeOptions::default() }
}

async fn connect(server: &Server) -> TcpStream {
    TcpStream::connect(server.address).await.expect("connect")
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

/// One answer with a body of `ok`.
async fn one_answer(stream: &mut TcpStream) -> String {
    let mut read = String::new();
    let reading = async {
        while !read.ends_with("ok") {
            let mut byte = [0];
            stream.read_exact(&mut byte).await.expect("an answer");
            read.push(char::from(byte[0]));
        }
    };
    timeout(SOON, reading).await.expect("answered in time");
    read
}

#[tokio::test]
async fn a_dribbled_head_and_an_idle_connection_are_closed() {
    let server = server(short()).await;
    let mut dribbling = connect(&server).await;
    let mut idle = connect(&server).await;
    send(&mut dribbling, "GET / HT").await;
    assert_eq!(to_the_end(&mut dribbling).await, "");
    send(&mut idle, "GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert!(to_the_end(&mut idle).await.ends_with("ok"));
}

#[tokio::test]
async fn a_reader_that_takes_nothing_is_cut_off_and_does_not_hold_a_stop_up() {
    let server = server(short()).await;
    let mut stuck = connect(&server).await;
    send(&mut stuck, "GET /large HTTP/1.1\r\nhost: x\r\n\r\n").await;
    let mut byte = [0];
    stuck.read_exact(&mut byte).await.expect("it has begun");
    server.stop.cancel();
    timeout(SOON, server.serving).await.expect("stopped in time").expect("no panic");
}

#[tokio::test]
async fn a_request_in_flight_is_answered_during_a_stop_and_idle_connections_are_closed_at_once() {
    let server = server(ServeOptions::default()).await;
    let mut idle = connect(&server).await;
    send(&mut idle, "GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
    one_answer(&mut idle).await;
    let mut busy = connect(&server).await;
    send(&mut busy, "GET /wait HTTP/1.1\r\nhost: x\r\n\r\n").await;
    // A second answer on another connection shows that the first request has been read.
    let mut other = connect(&server).await;
    send(&mut other, "GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
    one_answer(&mut other).await;
    server.stop.cancel();
    assert_eq!(to_the_end(&mut idle).await, "");
    server.go_on.add_permits(1);
    let answer = to_the_end(&mut busy).await.to_lowercase();
    assert!(answer.contains("connection: close") && answer.ends_with("ok"), "{answer}");
    timeout(SOON, server.serving).await.expect("stopped in time").expect("no panic");
}

#[tokio::test]
async fn a_panic_closes_its_own_connection_only() {
    let server = server(ServeOptions::default()).await;
    let mut other = connect(&server).await;
    let mut panicking = connect(&server).await;
    send(&mut panicking, "GET /panic HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert_eq!(to_the_end(&mut panicking).await, "");
    send(&mut other, "GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert!(one_answer(&mut other).await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn connections_over_the_cap_wait_for_a_place() {
    let server = server(ServeOptions { max_connections: 1, ..ServeOptions::default() }).await;
    let mut first = connect(&server).await;
    send(&mut first, "GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
    one_answer(&mut first).await;
    let mut second = connect(&server).await;
    send(&mut second, "GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
    let early = timeout(Duration::from_millis(100), second.readable()).await;
    assert!(early.is_err(), "no place yet");
    drop(first);
    assert!(one_answer(&mut second).await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn a_client_that_asks_first_is_told_to_go_on_or_refused_without() {
    let server = server(ServeOptions::default()).await;
    let mut asking = connect(&server).await;
    send(&mut asking, "PUT /put HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 3\r\n\r\n").await;
    let mut go_on = [0; 25];
    timeout(SOON, asking.read_exact(&mut go_on)).await.expect("in time").expect("an answer");
    assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n");
    send(&mut asking, "abc").await;
    let mut refused = connect(&server).await;
    send(&mut refused, "PUT /put HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 3000\r\n\r\n").await;
    assert!(to_the_end(&mut refused).await.starts_with("HTTP/1.1 413"));
}

#[tokio::test]
async fn a_client_that_sends_far_too_much_can_read_why_it_was_refused() {
    let server = server(ServeOptions::default()).await;
    let chunk = format!("{:x}\r\n{}\r\n", 65536, "y".repeat(65536));
    for head in ["content-length: 20971520", "transfer-encoding: chunked"] {
        let mut large = connect(&server).await;
        send(&mut large, &format!("PUT /put HTTP/1.1\r\nhost: x\r\n{head}\r\n\r\n")).await;
        let (mut reading, mut writing) = large.split();
        let body = if head.starts_with("content") { "y".repeat(65536) } else { chunk.clone() };
        let sending = async {
            // Ends early if the server has had enough.
            for _ in 0..320 {
                if writing.write_all(body.as_bytes()).await.is_err() {
                    return;
                }
            }
        };
        let answered = async {
            let mut status = [0; 12];
            reading.read_exact(&mut status).await.expect("an answer");
            String::from_utf8_lossy(&status).into_owned()
        };
        let (_, status) = timeout(SOON, async { tokio::join!(sending, answered) }).await.expect("in time");
        assert_eq!(status, "HTTP/1.1 413", "{head}");
    }
}
