//! A gateway over a map, speaking just enough HTTP for the load generator.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// How the gateway misbehaves.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Fault {
    None,
    /// Only the first write of a key takes effect.
    KeepFirstValue,
    /// Every user and key share one entry.
    OneEntryForAll,
    /// One bit of every body read is another.
    FlipBit,
    /// Writes are acknowledged and thrown away.
    NothingStored,
    /// Every other write takes effect, and none is known to.
    UnknownOutcome,
    /// Slow, but right.
    TakeTenMilliseconds,
}

struct State {
    entries: HashMap<String, Vec<u8>>,
    version: u64,
    fault: Fault,
}

pub(crate) struct FakeGateway {
    url: String,
    state: Arc<Mutex<State>>,
}

impl FakeGateway {
    pub(crate) async fn start(fault: Fault) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
        let url = format!("http://{}", listener.local_addr().expect("address"));
        let state = Arc::new(Mutex::new(State { entries: HashMap::new(), version: 0, fault }));
        let shared = Arc::clone(&state);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&shared)));
            }
        });
        Self { url, state }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn misbehave(&self, fault: Fault) {
        self.state.lock().expect("state").fault = fault;
    }
}

/// Answers requests until the client closes.
async fn serve(stream: TcpStream, state: Arc<Mutex<State>>) {
    stream.set_nodelay(true).expect("nodelay");
    let mut stream = BufReader::new(stream);
    loop {
        let (mut head, mut line) = (Vec::new(), String::new());
        while stream.read_line(&mut line).await.is_ok_and(|read| read > 2) {
            head.push(std::mem::take(&mut line).trim_end().to_owned());
        }
        let Some(request) = head.first() else { return };
        let header = |name: &str| head.iter().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        let mut body = vec![0; header("content-length: ").parse().unwrap_or(0)];
        if stream.read_exact(&mut body).await.is_err() {
            return;
        }
        let path = request.split(' ').nth(1).expect("path");
        let name = format!("{} {path}", header("x-user-id: "));
        let write = request.starts_with("PUT").then_some(body);
        if state.lock().expect("state").fault == Fault::TakeTenMilliseconds {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let answer = answer(&mut state.lock().expect("state"), name, write);
        if stream.write_all(&answer).await.is_err() {
            return;
        }
    }
}

fn answer(state: &mut State, mut name: String, write: Option<Vec<u8>>) -> Vec<u8> {
    if state.fault == Fault::OneEntryForAll {
        name.clear();
    }
    let Some(value) = write else {
        let Some(mut value) = state.entries.get(&name).cloned() else {
            return problem("404 Not Found", "entry_not_found");
        };
        if state.fault == Fault::FlipBit {
            value[40] ^= 1;
        }
        return success("200 OK", state.version, &value);
    };
    state.version += 1;
    match state.fault {
        Fault::NothingStored => {}
        Fault::KeepFirstValue => drop(state.entries.entry(name).or_insert(value)),
        Fault::UnknownOutcome if state.version.is_multiple_of(2) => {}
        _ => drop(state.entries.insert(name, value)),
    }
    if state.fault == Fault::UnknownOutcome {
        return problem("504 Gateway Timeout", "write_outcome_unknown");
    }
    success("201 Created", state.version, b"")
}

fn success(status: &str, version: u64, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nETag: \"{version}\"\r\nCache-Status: shardcache-l1; hit\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}

fn problem(status: &str, code: &str) -> Vec<u8> {
    let number = &status[..3];
    let body = format!("{{\"type\":\"\",\"title\":\"\",\"status\":{number},\"detail\":\"\",\"code\":\"{code}\"}}");
    format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}
