//! The lines of a scripted node: each question is given to the test's script, which says what goes back.

use std::sync::Arc;

use bytes::{Buf, Bytes, BytesMut};
use http::{HeaderValue, Response, StatusCode, header};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use wire::line::frame::{TO_NODE_MAX, first};
use wire::line::{FromNode, Read, ToNode, UPGRADE, name_hash, write_answer};

/// What to do with one question.
pub(crate) type LineScript = Box<dyn Fn(&Asked) -> LineAct + Send + Sync>;

/// One question, or a beat.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked {
    pub(crate) id: u64,
    /// The user and the key.
    pub(crate) name: (String, String),
    pub(crate) head_only: bool,
    pub(crate) detached: bool,
    /// The how many-th of its line, beats not counted.
    pub(crate) number: usize,
    /// The how many-th line of the node.
    pub(crate) line: usize,
    pub(crate) is_beat: bool,
    /// The client's headers and the request id, as text.
    pub(crate) headers: String,
}

/// What goes back.
pub(crate) enum LineAct {
    /// These bytes; none is silence.
    Bytes(BytesMut),
    /// These bytes once the test says so; until then the line stands still.
    BytesWhen(Arc<Notify>, BytesMut),
    /// These bytes, and the line is closed.
    BytesThenClose(BytesMut),
}

impl Asked {
    fn of(read: &Read<'_>) -> Self {
        let (head_only, detached) = (read.head_only, read.detached);
        let name = (read.user.to_owned(), read.key.to_owned());
        Self { id: read.id, name, head_only, detached, ..Self::default() }
    }

    /// The frame of an answer to this with a status and a value.
    pub(crate) fn answer(&self, status: u16, value: &str) -> BytesMut {
        self.answer_as(self.id, name_hash(&self.name.0, &self.name.1), status, value)
    }

    /// The same in the name of another question.
    pub(crate) fn answer_as(&self, id: u64, name: u64, status: u16, value: &str) -> BytesMut {
        let mut answer = Response::new(Bytes::from(value.to_owned()));
        *answer.status_mut() = StatusCode::from_u16(status).expect("a status");
        answer.headers_mut().insert(header::ETAG, HeaderValue::from_static("\"7\""));
        let mut out = BytesMut::new();
        write_answer(&mut out, id, name, &answer, self.head_only).expect("fits");
        out
    }

    /// The beat that a beat is answered with.
    pub(crate) fn beat() -> LineAct {
        let mut out = BytesMut::new();
        FromNode::write_beat(&mut out);
        LineAct::Bytes(out)
    }
}

/// Says nothing.
pub(crate) fn silence() -> LineAct {
    LineAct::Bytes(BytesMut::new())
}

/// Answers an upgrade and follows the script until the gateway closes the line or the script does.
pub(crate) async fn serve_line(mut stream: TcpStream, line: usize, script: &LineScript) {
    let agreed = format!("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: {UPGRADE}\r\n\r\n");
    if stream.write_all(agreed.as_bytes()).await.is_err() {
        return;
    }
    let (mut inbox, mut number) = (BytesMut::new(), 0);
    loop {
        while let Some(length) = first(&inbox, TO_NODE_MAX).expect("a gateway's frame") {
            let mut asked = match ToNode::read(&inbox[..length]).expect("a gateway's frame") {
                ToNode::Beat => Asked { is_beat: true, ..Asked::default() },
                ToNode::Read(read, headers) => {
                    let mut asked = Asked::of(&read);
                    let lines = headers.iter().map(|line| line.expect("a header value"));
                    let text =
                        |(name, value): (_, HeaderValue)| format!("{name}: {}\n", value.to_str().expect("ASCII"));
                    asked.headers = lines.map(text).collect();
                    asked.headers += std::str::from_utf8(read.request_id).expect("ASCII");
                    asked.number = number;
                    number += 1;
                    asked
                }
            };
            asked.line = line;
            inbox.advance(length);
            let bytes = match script(&asked) {
                LineAct::Bytes(bytes) => bytes,
                LineAct::BytesWhen(now, bytes) => {
                    now.notified().await;
                    bytes
                }
                LineAct::BytesThenClose(bytes) => {
                    let _ = stream.write_all(&bytes).await;
                    return;
                }
            };
            if stream.write_all(&bytes).await.is_err() {
                return;
            }
        }
        if !matches!(stream.read_buf(&mut inbox).await, Ok(1..)) {
            return;
        }
    }
}
