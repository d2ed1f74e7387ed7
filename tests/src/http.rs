//! Asking over HTTP: whole answers by reqwest, and raw bytes on a socket for requests that no library would send.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::HeaderMap;
use reqwest::{Method, RequestBuilder};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// How long one request may take: "no hang" is part of what is tested.
pub const REQUEST_BOUND: Duration = Duration::from_secs(30);

/// A client that sends nothing twice, follows nothing, and knows no proxy.
pub fn client() -> reqwest::Client {
    reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .connect_timeout(Duration::from_secs(5))
        .timeout(REQUEST_BOUND)
        .build()
        .expect("a client without TLS can always be made")
}

/// A whole answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

impl Answer {
    /// A header's text; empty when it is absent.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("no JSON ({error}): {}", self.text()))
    }

    /// The `code` of a problem document; empty when the body is none.
    pub fn code(&self) -> String {
        let problem: serde_json::Value = serde_json::from_slice(&self.body).unwrap_or_default();
        problem["code"].as_str().unwrap_or_default().to_owned()
    }
}

/// Sends a request and reads the whole answer.
pub async fn send(request: RequestBuilder) -> Result<Answer, reqwest::Error> {
    let answer = request.send().await?;
    let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
    Ok(Answer { status, headers, body: answer.bytes().await? })
}

/// The data plane as one user sees it.
#[derive(Clone, Debug)]
pub struct User {
    http: reqwest::Client,
    base: String,
    id: String,
}

impl User {
    /// A user of the gateway or node at `base`, such as `http://127.0.0.1:8080`.
    pub fn new(base: &str, id: &str) -> Self {
        Self { http: client(), base: base.to_owned(), id: id.to_owned() }
    }

    /// The user's id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// A request with the user's id; `path` begins with `/`.
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.base)).header("X-User-ID", &self.id)
    }

    /// `GET` of an already percent-encoded key.
    pub async fn get(&self, key: &str) -> Answer {
        answered(self.request(Method::GET, &format!("/v1/entries/{key}"))).await
    }

    /// `PUT` of an already percent-encoded key.
    pub async fn put(&self, key: &str, value: impl Into<reqwest::Body>) -> Answer {
        answered(self.request(Method::PUT, &format!("/v1/entries/{key}")).body(value)).await
    }

    /// `DELETE` of an already percent-encoded key.
    pub async fn delete(&self, key: &str) -> Answer {
        answered(self.request(Method::DELETE, &format!("/v1/entries/{key}"))).await
    }
}

/// The answer to a request that must get one, whatever it says.
pub async fn answered(request: RequestBuilder) -> Answer {
    send(request).await.unwrap_or_else(|error| panic!("no answer: {error:?}"))
}

/// A connection for bytes that no HTTP library would send.
pub struct RawConnection {
    stream: TcpStream,
    /// Read, and not yet part of an answer.
    unread: Vec<u8>,
}

/// An answer read off a raw connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawAnswer {
    /// The status.
    pub status: u16,
    /// Status line and headers, without the blank line.
    pub head: String,
    /// As many bytes as `Content-Length` says.
    pub body: Vec<u8>,
}

impl RawConnection {
    /// Connects.
    pub async fn open(address: SocketAddr) -> Self {
        let stream = timeout(REQUEST_BOUND, TcpStream::connect(address)).await.expect("in time").expect("a connection");
        stream.set_nodelay(true).expect("a connected socket takes options");
        Self { stream, unread: Vec::new() }
    }

    /// Sends bytes; a peer that has closed is no error, what it answered is still to be read.
    pub async fn send(&mut self, bytes: &[u8]) {
        let _ = timeout(REQUEST_BOUND, self.stream.write_all(bytes)).await.expect("the peer reads in time");
    }

    /// The next answer; `None` when the peer closes instead, or says nothing for `bound`.
    pub async fn answer(&mut self, bound: Duration) -> Option<RawAnswer> {
        timeout(bound, self.next_answer()).await.ok().flatten()
    }

    /// Whether the peer closes within `bound`; what it still sends is thrown away.
    pub async fn closes_within(&mut self, bound: Duration) -> bool {
        let rest = async { while self.read_more().await {} };
        timeout(bound, rest).await.is_ok()
    }

    async fn next_answer(&mut self) -> Option<RawAnswer> {
        let end = loop {
            match self.unread.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                Some(end) => break end,
                None if self.read_more().await => {}
                None => return None,
            }
        };
        let head = String::from_utf8_lossy(&self.unread[..end]).into_owned();
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
        });
        let whole = end + 4 + length.unwrap_or(0);
        while self.unread.len() < whole {
            if !self.read_more().await {
                return None;
            }
        }
        let rest = self.unread.split_off(whole);
        let body = std::mem::replace(&mut self.unread, rest).split_off(end + 4);
        let status = head.split(' ').nth(1)?.parse().ok()?;
        Some(RawAnswer { status, head, body })
    }

    /// False at the end of the stream, however it ends.
    async fn read_more(&mut self) -> bool {
        self.stream.read_buf(&mut self.unread).await.is_ok_and(|read| read > 0)
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    const BOUND: Duration = Duration::from_secs(5);

    #[tokio::test]
    async fn raw_answers_are_split_by_their_length_and_the_end_is_seen() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
        let mut raw = RawConnection::open(listener.local_addr().expect("address")).await;
        let (mut peer, _) = listener.accept().await.expect("accept");
        peer.write_all(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 400 Bad Request\r\ncontent-length: 3\r\n\r\nabcHTTP")
            .await
            .expect("write");
        drop(peer);
        assert_eq!(raw.answer(BOUND).await.map(|answer| answer.status), Some(100));
        let second = raw.answer(BOUND).await.expect("answer");
        assert_eq!((second.status, &second.body[..]), (400, &b"abc"[..]));
        assert_eq!(raw.answer(BOUND).await, None);
        assert!(raw.closes_within(BOUND).await);
    }
}
