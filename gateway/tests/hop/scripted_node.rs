//! A node that does as a test says: answers, answers in part, closes, or says nothing; and remembers what it was sent. Lines it
//! refuses, as a node of an older version does, unless it has a script for them.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::scripted_line::{LineScript, serve_line};

/// What to do with one request.
pub(crate) enum Act {
    /// A whole answer: status line and headers without the length, and the body.
    Answer(&'static str, &'static str),
    /// These bytes, and the connection stays as it is: a part of an answer.
    Raw(&'static str),
    /// These bytes, and the connection is closed.
    RawThenClose(&'static str),
    /// Nothing, for ever.
    Silence,
}

/// One request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// Request line and headers, in lower case but for the request line.
    pub(crate) head: String,
    pub(crate) body: String,
    /// The how many-th of its connection, from 0.
    pub(crate) in_connection: usize,
    /// The how many-th of the node, from 0; health probes are not counted.
    pub(crate) number: usize,
}

impl Seen {
    pub(crate) fn has(&self, line: &str) -> bool {
        self.head.lines().any(|other| other == line)
    }

    /// Whether it is a probe of the node's health.
    pub(crate) fn is_probe(&self) -> bool {
        self.head.starts_with("GET /healthz ")
    }
}

/// A node on a port of its own.
pub(crate) struct ScriptedNode {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    opened: Arc<AtomicUsize>,
    closed: Arc<AtomicUsize>,
}

/// What a node does with requests for a line.
pub(crate) enum Lines {
    /// This answer, as a status line.
    Refused(&'static str),
    /// They are lines from there on.
    Opened(LineScript),
}

/// What every connection of a node knows.
struct Script<S> {
    script: S,
    lines: Lines,
    seen: Arc<Mutex<Vec<Seen>>>,
    count: AtomicUsize,
    opened: Arc<AtomicUsize>,
    closed: Arc<AtomicUsize>,
}

impl ScriptedNode {
    /// Starts a node that follows `script`. It lives as long as the test's runtime.
    pub(crate) async fn start(script: impl Fn(&Seen) -> Act + Send + Sync + 'static) -> Self {
        Self::with_lines(script, Lines::Refused("404 Not Found")).await
    }

    /// The same, of a node that knows lines.
    pub(crate) async fn with_lines(script: impl Fn(&Seen) -> Act + Send + Sync + 'static, lines: Lines) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
        let address = listener.local_addr().expect("address");
        let seen = Arc::new(Mutex::new(Vec::new()));
        let [opened, closed] = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
        let (remembered, count) = (Arc::clone(&seen), AtomicUsize::new(0));
        let (began, ended) = (Arc::clone(&opened), Arc::clone(&closed));
        let script = Arc::new(Script { script, lines, seen: remembered, count, opened: began, closed: ended });
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&script)));
            }
        });
        Self { address, seen, opened, closed }
    }

    /// How many lines it was asked for.
    pub(crate) fn lines(&self) -> usize {
        self.opened.load(Ordering::SeqCst)
    }

    /// How many of its lines have ended.
    pub(crate) fn lines_closed(&self) -> usize {
        self.closed.load(Ordering::SeqCst)
    }

    /// The requests so far, without health probes and those for lines.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().expect("not poisoned").clone()
    }
}

async fn serve(mut stream: TcpStream, script: Arc<Script<impl Fn(&Seen) -> Act>>) {
    for in_connection in 0.. {
        let Some(mut request) = read_request(&mut stream).await else { return };
        if request.head.starts_with("GET /internal/line ") {
            let number = script.opened.fetch_add(1, Ordering::SeqCst);
            match &script.lines {
                Lines::Opened(lines) => {
                    serve_line(stream, number, lines).await;
                    script.closed.fetch_add(1, Ordering::SeqCst);
                    return;
                }
                Lines::Refused(status) => {
                    let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
                    let _ = stream.write_all(answer.as_bytes()).await;
                    continue;
                }
            }
        }
        request.in_connection = in_connection;
        if !request.is_probe() {
            request.number = script.count.fetch_add(1, Ordering::SeqCst);
            script.seen.lock().expect("not poisoned").push(request.clone());
        }
        let bytes = match (script.script)(&request) {
            Act::Answer(head, body) => format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len()),
            Act::Raw(part) => part.to_owned(),
            Act::RawThenClose(part) => {
                let _ = stream.write_all(part.as_bytes()).await;
                return;
            }
            Act::Silence => String::new(),
        };
        if stream.write_all(bytes.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// One request with a body by `Content-Length`; `None` when the peer closes.
async fn read_request(stream: &mut TcpStream) -> Option<Seen> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).expect("a head of ASCII");
    let (line, headers) = head.split_once("\r\n").expect("a request line");
    let headers = headers.to_lowercase();
    let length = headers.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |number| number.parse().expect("a number"))];
    stream.read_exact(&mut body).await.ok()?;
    let body = String::from_utf8_lossy(&body).into_owned();
    Some(Seen { head: format!("{line}\r\n{headers}"), body, in_connection: 0, number: 0 })
}

/// Sends raw bytes and reads until the peer closes; the bound is part of what is tested.
pub(crate) async fn exchange(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).await.expect("connect");
    stream.write_all(request.as_bytes()).await.expect("send");
    let mut answer = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut answer)).await;
    read.expect("closed in time").expect("read");
    String::from_utf8_lossy(&answer).into_owned()
}
