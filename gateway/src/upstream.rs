//! The hop to one node: its lines for reads, its pool of HTTP/1 connections for everything, and whether the node is in doubt.
//!
//! A request is handed back only if no byte of it was written (protocol Gw2): everything else may have been executed.

mod body;
mod line;
mod lines;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use http::{HeaderValue, Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use service::tls::NodeDialler;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout, timeout_at};

use crate::health::load::Load;
use crate::health::standing::Standing;
use crate::limits;
use crate::shed::NodePlaces;

pub(crate) use body::UpstreamBody;
pub(crate) use line::Question;
use line::Said;
use lines::Lines;

/// One node as the gateway reaches it. Lives as long as a ring names its address.
#[derive(Debug)]
pub(crate) struct Upstream {
    address: String,
    /// The address as `Host` says it.
    host: HeaderValue,
    dialler: NodeDialler,
    lines: Lines,
    idle: Mutex<Vec<Idle>>,
    connections: Arc<Semaphore>,
    standing: Standing,
    load: Load,
    probing: AtomicBool,
    /// One look at its health route at a time.
    looking: tokio::sync::Mutex<()>,
    token_refused: AtomicBool,
    /// Made when requests are shed and the node is first asked.
    pub(crate) places: OnceLock<NodePlaces>,
}

#[derive(Debug)]
struct Idle {
    sender: SendRequest<Full<Bytes>>,
    since: Instant,
}

/// A connection in use: goes back to the pool once its answer has been read to the end, else it is closed.
pub(crate) struct InUse {
    sender: SendRequest<Full<Bytes>>,
    upstream: Arc<Upstream>,
    _permit: OwnedSemaphorePermit,
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendFailed {
    /// No connection: nothing was sent.
    Unreachable,
    /// All connections to the node are busy: nothing was sent.
    Busy,
    /// The connection broke after something may have been sent.
    Broken,
    /// No answer in time after the request was sent.
    TimedOut,
}

impl Upstream {
    pub(crate) fn new(address: String, dialler: NodeDialler) -> Self {
        Self {
            // An address that no header can hold, no connection can be made to either.
            host: HeaderValue::try_from(&address).unwrap_or(HeaderValue::from_static("")),
            address,
            dialler,
            lines: Lines::default(),
            idle: Mutex::default(),
            connections: Arc::new(Semaphore::new(limits::CONNECTIONS_PER_NODE)),
            standing: Standing::new(),
            load: Load::default(),
            probing: AtomicBool::new(false),
            looking: tokio::sync::Mutex::new(()),
            token_refused: AtomicBool::new(false),
            places: OnceLock::new(),
        }
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// The address as `Host` says it.
    pub(crate) fn host(&self) -> &HeaderValue {
        &self.host
    }

    /// How many lines to the node are open.
    pub(crate) fn lines(&self) -> usize {
        self.lines.open()
    }

    /// Whether requests may be sent there.
    pub(crate) fn standing(&self) -> &Standing {
        &self.standing
    }

    /// What is under way there.
    pub(crate) fn load(&self) -> &Load {
        &self.load
    }

    /// Whether it is being probed after a failed request.
    pub(crate) fn is_probed(&self) -> bool {
        self.probing.load(Ordering::Acquire)
    }

    /// Whether the node took the cluster's token; said when it changes, for its users' writes get 503 meanwhile.
    pub(crate) fn note_token(&self, taken: bool) {
        // The load first: nearly always nothing changes, and a swap would take the cache line from every other core.
        if self.token_refused.load(Ordering::Relaxed) == taken
            && self.token_refused.swap(!taken, Ordering::Relaxed) == taken
        {
            if taken {
                tracing::info!(node = self.address, "the node takes our cluster token again");
            } else {
                tracing::warn!(node = self.address, "the node refuses our cluster token: its users' writes get 503");
            }
        }
    }

    /// Sends one request once and waits for the head of its answer.
    pub(crate) async fn send(
        self: &Arc<Self>,
        request: Request<Full<Bytes>>,
        deadline: Instant,
    ) -> Result<Response<UpstreamBody>, SendFailed> {
        let asked = Instant::now();
        let wait_until = deadline.min(asked + limits::CONNECTION_WAIT);
        let permit = timeout_at(wait_until, Arc::clone(&self.connections).acquire_owned());
        let Ok(Ok(permit)) = permit.await else { return Err(SendFailed::Busy) };
        let sent = timeout_at(deadline, self.send_on_a_connection(request)).await;
        // A client in a hurry says nothing about the node.
        let in_a_hurry = deadline < asked + limits::READ_TRY;
        let (response, sender) = sent.unwrap_or(Err(SendFailed::TimedOut)).inspect_err(|failed| {
            if *failed != SendFailed::TimedOut || !in_a_hurry {
                self.failed(*failed);
            }
        })?;
        let in_use = InUse { sender, upstream: Arc::clone(self), _permit: permit };
        Ok(response.map(|body| UpstreamBody::new(body, in_use)))
    }

    /// Asks by a line; `None`: there is none, it is full, or question or answer is too large for one. Then the pool may be asked
    /// as if nothing had happened.
    pub(crate) async fn ask(
        self: &Arc<Self>,
        question: &Question<'_>,
        authorization: Option<&HeaderValue>,
        deadline: Instant,
    ) -> Option<Result<Response<Bytes>, SendFailed>> {
        let told = self.line(authorization)?.ask(question, deadline)?;
        match told.await.unwrap_or(Err(SendFailed::Broken)) {
            Ok(Said::Answer(answer)) => Some(Ok(answer)),
            Ok(Said::Elsewhere) => None,
            Err(failed) => {
                self.failed(failed);
                Some(Err(failed))
            }
        }
    }

    fn failed(self: &Arc<Self>, failed: SendFailed) {
        if failed == SendFailed::Broken {
            // What ended this connection may have ended the others; the next request gets a fresh one.
            self.close_idle();
        }
        self.doubt();
    }

    async fn send_on_a_connection(
        &self,
        mut request: Request<Full<Bytes>>,
    ) -> Result<(Response<Incoming>, SendRequest<Full<Bytes>>), SendFailed> {
        while let Some(mut sender) = self.take_idle() {
            // Fails at once if the node has closed its side meanwhile.
            if sender.ready().await.is_err() {
                continue;
            }
            match sender.try_send_request(request).await {
                Ok(response) => return Ok((response, sender)),
                Err(mut failed) => match failed.take_message() {
                    // Not a byte was written: the next connection may have it.
                    Some(unsent) => request = unsent,
                    None => return Err(SendFailed::Broken),
                },
            }
        }
        let mut sender = self.connect().await?;
        match sender.try_send_request(request).await {
            Ok(response) => Ok((response, sender)),
            Err(mut failed) => match failed.take_message() {
                Some(_unsent) => Err(SendFailed::Unreachable),
                None => Err(SendFailed::Broken),
            },
        }
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>, SendFailed> {
        let connecting = async {
            let stream = self.dialler.connect(&self.address).await.ok()?;
            let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.ok()?;
            // Ends with the sender, or when the node closes.
            tokio::spawn(connection);
            Some(sender)
        };
        let bound = if self.dialler.is_tls() { limits::CONNECT_TLS } else { limits::CONNECT };
        timeout(bound, connecting).await.ok().flatten().ok_or(SendFailed::Unreachable)
    }

    /// The connection used last, unless too old: then all others are older still.
    fn take_idle(&self) -> Option<SendRequest<Full<Bytes>>> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let last = idle.pop()?;
        if last.since.elapsed() > limits::IDLE_MAX || last.sender.is_closed() {
            idle.retain(|other| other.since.elapsed() <= limits::IDLE_MAX && !other.sender.is_closed());
            return idle.pop().map(|other| other.sender);
        }
        Some(last.sender)
    }

    fn close_idle(&self) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Has the node probed until it answers: one failed request may be the fault of a busy moment, a failed probe counts.
    pub(crate) fn doubt(self: &Arc<Self>) {
        if !self.probing.swap(true, Ordering::AcqRel) {
            tokio::spawn(probe_until_well(Arc::downgrade(self)));
        }
    }

    /// Whether the node answers its health route now.
    pub(crate) async fn answers_its_health_route(&self) -> bool {
        let _one_at_a_time = self.looking.lock().await;
        let probe = async {
            let mut sender = self.connect().await.ok()?;
            let request =
                Request::get("/healthz").header(http::header::HOST, self.host.clone()).body(Full::default()).ok()?;
            sender.send_request(request).await.ok().filter(|response| response.status().is_success())
        };
        timeout(limits::PROBE, probe).await.is_ok_and(|answer| answer.is_some())
    }
}

impl InUse {
    /// Back to the pool: the answer was read to its end.
    fn give_back(self) {
        if !self.sender.is_closed() {
            let mut idle = self.upstream.idle.lock().unwrap_or_else(PoisonError::into_inner);
            idle.push(Idle { sender: self.sender, since: Instant::now() });
        }
    }
}

/// Ends when the node answers, or when no ring names it any more.
async fn probe_until_well(upstream: std::sync::Weak<Upstream>) {
    loop {
        {
            let Some(upstream) = upstream.upgrade() else { return };
            let well = upstream.answers_its_health_route().await;
            upstream.standing.set_in_doubt(!well);
            if well {
                upstream.probing.store(false, Ordering::Release);
                return;
            }
            // What ends this is an answer, not time: it is not to be ejected for the same.
            upstream.load.forgive();
            // The connections of a dead process would only be found dead one by one.
            upstream.close_idle();
        }
        tokio::time::sleep(limits::PROBE_EVERY).await;
    }
}
