//! A stand-in for a node that answers when it is told to: a node that is slow, or never answers, on command.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// What it has been sent, and how many of these requests it may answer.
pub(crate) struct StubNode {
    pub(crate) address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
    answers: Arc<Semaphore>,
}

impl StubNode {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
        let address = listener.local_addr().expect("address");
        let (heads, answers) = (Arc::default(), Arc::new(Semaphore::new(0)));
        let this = Self { address, heads: Arc::clone(&heads), answers: Arc::clone(&answers) };
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&heads), Arc::clone(&answers)));
            }
        });
        this
    }

    /// Answers so many requests, present or to come.
    pub(crate) fn answer(&self, requests: usize) {
        self.answers.add_permits(requests);
    }

    /// The heads of the data plane's requests so far, in lower case.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn serve(mut stream: TcpStream, heads: Arc<Mutex<Vec<String>>>, answers: Arc<Semaphore>) {
    while let Some(head) = read_request(&mut stream).await {
        let answer = if head.contains(" /healthz ") {
            "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
        } else if head.contains(" /internal/line ") {
            // It knows no lines.
            "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"
        } else {
            heads.lock().unwrap_or_else(PoisonError::into_inner).push(head);
            answers.acquire().await.expect("never closed").forget();
            "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nvalue"
        };
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// The head of the next request, in lower case; its body is read too.
async fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let head = String::from_utf8_lossy(&head).to_lowercase();
    let length =
        head.lines().find_map(|line| line.strip_prefix("content-length: ")).map_or(0, |text| text.parse().unwrap_or(0));
    stream.read_exact(&mut vec![0; length]).await.ok()?;
    Some(head)
}
