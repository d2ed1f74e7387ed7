//! For tests: a peer that gives one scripted answer over raw HTTP, and tells what it was sent.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// The address of a peer that answers one request with `status`, `headers` (each ending in CRLF) and `body`.
pub(crate) async fn answering(status: &str, headers: &str, body: &str) -> (String, oneshot::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
    let address = listener.local_addr().expect("address").to_string();
    let length = body.len();
    let answer = format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}");
    let (seen, receiver) = oneshot::channel();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("accept");
        let mut request = vec![0; 4096];
        let length = stream.read(&mut request).await.expect("read");
        stream.write_all(answer.as_bytes()).await.expect("write");
        let _ = seen.send(String::from_utf8_lossy(&request[..length]).into_owned());
    });
    (address, receiver)
}
