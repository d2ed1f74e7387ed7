//! The access log: one JSON object a line on stdout for each request of the data plane, when its answer is over.
//!
//! Requests only hand a record to a bounded queue; a thread of its own writes. What does not fit, or cannot be written, is
//! dropped and counted: a reader that stands still must not hold up requests. Never a key, a value or a user as it is.

mod line;
mod settings;

use std::io::{self, BufWriter, Write};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http::{HeaderValue, Method, Response};
use placement::UserId;
use prometheus_client::metrics::counter::Counter;
use service::request_metrics::Route;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};
use wire::headers::{CACHE_STATUS, X_CACHE_NODE};

pub use settings::{AccessLogKind, AccessLogSettings, LogHashKey};

use crate::answer_body::AnswerBody;
use crate::limits;
use crate::user_hash::UserHash;

/// What a client that is gone before its answer is said to have got, as others say it too.
const CLIENT_GONE: u16 = 499;

/// Where records of requests go.
pub(crate) struct AccessLog {
    records: SyncSender<Box<Record>>,
    dropped: Counter,
}

/// The thread that writes; ends some time after [`Writer::end`].
pub(crate) struct Writer {
    ending: Arc<AtomicBool>,
    ended: oneshot::Receiver<()>,
}

/// What is known of one request.
struct Record {
    time_ms: i64,
    began: Instant,
    client: IpAddr,
    method: Method,
    route: Route,
    request_id: Box<str>,
    user: Option<UserId>,
    status: u16,
    bytes: u64,
    gateway_us: u64,
    node_us: Option<u64>,
    cache_status: Option<HeaderValue>,
    node: Option<HeaderValue>,
}

/// The record of a request that is going on; it is written when this is dropped, however that comes about.
pub(crate) struct Entry {
    log: Arc<AccessLog>,
    record: Option<Box<Record>>,
}

/// How long a node took to the head of its answer: an extension of that answer.
#[derive(Clone, Copy)]
struct NodeTime(Duration);

/// The body of an answer whose record waits for its end.
pub(crate) struct LoggedBody {
    pub(crate) body: AnswerBody,
    entry: Entry,
}

impl AccessLog {
    /// Starts the writer. Users are named by their hashes.
    pub(crate) fn start(
        to: impl Write + Send + 'static,
        users: UserHash,
        dropped: Counter,
    ) -> io::Result<(Arc<Self>, Writer)> {
        let (records, waiting) = sync_channel(limits::ACCESS_LOG_WAITING_MAX);
        let (end, ended) = oneshot::channel();
        let ending = Arc::new(AtomicBool::new(false));
        let (told, lost) = (Arc::clone(&ending), dropped.clone());
        std::thread::Builder::new().name("access-log".to_owned()).spawn(move || {
            write_all(&waiting, to, &users, &told, &lost);
            // Nobody waits for the end any more: as good.
            let _ = end.send(());
        })?;
        Ok((Arc::new(Self { records, dropped }), Writer { ending, ended }))
    }

    /// The record of a request that begins.
    pub(crate) fn begin(
        self: &Arc<Self>,
        client: IpAddr,
        method: &Method,
        route: Route,
        request_id: &HeaderValue,
    ) -> Entry {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let record = Record {
            time_ms: i64::try_from(since_1970.as_millis()).unwrap_or(i64::MAX),
            began: Instant::now(),
            client,
            method: method.clone(),
            route,
            request_id: request_id.to_str().unwrap_or_default().into(),
            user: None,
            status: CLIENT_GONE,
            bytes: 0,
            gateway_us: 0,
            node_us: None,
            cache_status: None,
            node: None,
        };
        Entry { log: Arc::clone(self), record: Some(Box::new(record)) }
    }
}

impl Writer {
    /// Has what is left written, as far as that goes in a bounded time.
    pub(crate) async fn end(self) {
        self.ending.store(true, Ordering::Release);
        if timeout(limits::ACCESS_LOG_END, self.ended).await.is_err() {
            tracing::warn!("the last lines of the access log are not read");
        }
    }
}

impl Entry {
    pub(crate) fn of_user(&mut self, user: &UserId) {
        if let Some(record) = &mut self.record {
            record.user = Some(user.clone());
        }
    }

    /// Notes the head of the answer, and follows its body.
    pub(crate) fn answered(mut self, response: Response<AnswerBody>) -> Response<AnswerBody> {
        if let Some(record) = &mut self.record {
            let headers = response.headers();
            record.status = response.status().as_u16();
            record.gateway_us = microseconds(record.began.elapsed());
            record.node_us = response.extensions().get::<NodeTime>().map(|NodeTime(took)| microseconds(*took));
            record.cache_status = headers.get(CACHE_STATUS).cloned();
            record.node = headers.get(X_CACHE_NODE).cloned();
        }
        response.map(|body| AnswerBody::Logged(Box::new(LoggedBody { body, entry: self })))
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let Some(mut record) = self.record.take() else { return };
        if record.status == CLIENT_GONE {
            record.gateway_us = microseconds(record.began.elapsed());
        }
        if self.log.records.try_send(record).is_err() {
            self.log.dropped.inc();
        }
    }
}

impl LoggedBody {
    pub(crate) fn sends(&mut self, data: Option<&Bytes>) {
        if let (Some(record), Some(data)) = (&mut self.entry.record, data) {
            record.bytes += data.len() as u64;
        }
    }
}

/// Notes how long a node took, if that is wanted: then there is a moment when it was asked.
pub(crate) fn note_node_time(mut response: Response<AnswerBody>, asked: Option<Instant>) -> Response<AnswerBody> {
    if let Some(asked) = asked {
        response.extensions_mut().insert(NodeTime(asked.elapsed()));
    }
    response
}

fn microseconds(took: Duration) -> u64 {
    u64::try_from(took.as_micros()).unwrap_or(u64::MAX)
}

/// Writes until the end is told and nothing is left, or nobody can send any more. Flushes whenever nothing waits.
fn write_all(waiting: &Receiver<Box<Record>>, to: impl Write, users: &UserHash, ending: &AtomicBool, lost: &Counter) {
    let mut to = BufWriter::new(to);
    // Lines that are in the buffer and may still be lost.
    let mut unflushed = 0;
    loop {
        let next = match waiting.try_recv() {
            Ok(record) => Some(record),
            Err(_) => {
                if unflushed > 0 && to.flush().is_err() {
                    lost.inc_by(unflushed);
                }
                unflushed = 0;
                match waiting.recv_timeout(limits::ACCESS_LOG_LOOK) {
                    Ok(record) => Some(record),
                    Err(RecvTimeoutError::Timeout) if !ending.load(Ordering::Acquire) => None,
                    Err(_) => return,
                }
            }
        };
        if let Some(record) = next {
            if line::write(&record, users, &mut to).is_ok() {
                unflushed += 1;
            } else {
                lost.inc();
            }
        }
    }
}

#[cfg(test)]
mod tests;
