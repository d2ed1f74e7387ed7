//! The control plane of a node, as the migrator calls it: copy, seal, settle, refresh, slots, load, top users.
//!
//! Every call is safe to repeat; this client itself never sends one twice.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use placement::ChangeId;
use serde::Serialize;
use serde::de::DeserializeOwned;
use service::settings::ClusterToken;
use service::tls::NodeDialler;
use tokio::time::timeout;
use wire::Problem;
use wire::control::{self, CopyReport, CopyRequest, LoadReport, SealReport, SealRequest, SettleReport, SlotsReport};
use wire::users::{UsersReport, node_top_path};

pub use crate::answer::Malformed;
use crate::answer::problem;

/// How long a connection to a node may take: nodes are near, and a dead one should be noticed soon.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// The longest answer: 4096 slots at under 100 bytes each are 400 KiB.
const ANSWER_MAX_BYTES: usize = 1 << 20;

/// Calls the control plane of any node, each call on a connection of its own. Cheap to clone.
#[derive(Clone, Debug)]
pub struct NodeClient {
    dialler: NodeDialler,
    authorization: Option<HeaderValue>,
    timeout: Duration,
}

/// Why a node did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// No connection, or no whole answer in time. The node may have done it.
    #[error("the node cannot be reached")]
    Unreachable(#[source] Unreachable),
    /// The node answered with a problem; it has not done it.
    #[error("the node refused: {} ({})", .0.detail, .0.code.name())]
    Refused(Problem),
    /// The answer is none of a node of this release.
    #[error("the node's answer cannot be understood")]
    Malformed(#[source] Malformed),
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum Unreachable {
    /// Nobody listens there, or does not speak as we do.
    #[error("no connection")]
    Connection(#[from] std::io::Error),
    /// The connection broke.
    #[error("the connection broke")]
    Broken(#[from] hyper::Error),
    /// The time is over.
    #[error("no answer in time")]
    TimedOut,
    /// No request can be sent to such an address.
    #[error("the address is none")]
    Address(#[from] http::Error),
}

impl From<Unreachable> for ControlError {
    fn from(unreachable: Unreachable) -> Self {
        Self::Unreachable(unreachable)
    }
}

impl NodeClient {
    /// A client whose calls carry `token`, if any, go as `dialler` says, and take at most `timeout` each, the answer's body
    /// included. Redirects are not followed.
    pub fn new(token: Option<ClusterToken>, dialler: NodeDialler, timeout: Duration) -> Self {
        Self { dialler, authorization: token.as_ref().map(ClusterToken::header_value), timeout }
    }

    /// Seals the slots for the change and waits until they are drained (protocol C5).
    pub async fn seal(
        &self,
        address: &str,
        change: ChangeId,
        request: &SealRequest,
    ) -> Result<SealReport, ControlError> {
        self.json(Method::POST, address, &control::seal_path(change), Some(request)).await
    }

    /// Has the node copy slots to their receivers, and says how far it is (protocol C2).
    pub async fn copy(
        &self,
        address: &str,
        change: ChangeId,
        request: &CopyRequest,
    ) -> Result<CopyReport, ControlError> {
        self.json(Method::POST, address, &control::copy_path(change), Some(request)).await
    }

    /// Makes the node read its slots anew and settle its seals of the change (protocol C7, C9, C10).
    pub async fn settle(&self, address: &str, change: ChangeId) -> Result<SettleReport, ControlError> {
        self.json(Method::POST, address, &control::settle_path(change), NOTHING).await
    }

    /// Makes the node read its slots anew.
    pub async fn refresh(&self, address: &str) -> Result<(), ControlError> {
        self.succeed(Method::POST, address, control::REFRESH_PATH, NOTHING).await.map(drop)
    }

    /// What the node's L1 holds, per slot.
    pub async fn slots(&self, address: &str) -> Result<SlotsReport, ControlError> {
        self.json(Method::GET, address, control::SLOTS_PATH, NOTHING).await
    }

    /// What the node has done since its start.
    pub async fn load(&self, address: &str) -> Result<LoadReport, ControlError> {
        self.json(Method::GET, address, control::LOAD_PATH, NOTHING).await
    }

    /// The users that cost the node most, at most `limit`, which is at most [`wire::users::TOP_MAX`].
    pub async fn top_users(&self, address: &str, limit: usize) -> Result<UsersReport, ControlError> {
        self.json(Method::GET, address, &node_top_path(limit), NOTHING).await
    }

    async fn json<T: DeserializeOwned>(
        &self,
        method: Method,
        address: &str,
        path: &str,
        asked: Option<&impl Serialize>,
    ) -> Result<T, ControlError> {
        let body = self.succeed(method, address, path, asked).await?;
        serde_json::from_slice(&body).map_err(|error| ControlError::Malformed(Malformed::Json(error)))
    }

    /// The body of a successful answer.
    async fn succeed(
        &self,
        method: Method,
        address: &str,
        path: &str,
        asked: Option<&impl Serialize>,
    ) -> Result<Bytes, ControlError> {
        let mut request = Request::builder().method(method).uri(path).header(HOST, address);
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        let mut body = Vec::new();
        if let Some(asked) = asked {
            request = request.header(CONTENT_TYPE, "application/json");
            body = serde_json::to_vec(asked).map_err(|error| ControlError::Malformed(Malformed::Json(error)))?;
        }
        let request = request.body(Full::from(body)).map_err(Unreachable::from)?;
        let asking = timeout(self.timeout, self.exchange(address, request));
        let (status, body) = asking.await.map_err(|_elapsed| Unreachable::TimedOut)??;
        if status.is_success() {
            return Ok(body);
        }
        Err(problem(status, &body).map_or_else(ControlError::Malformed, ControlError::Refused))
    }

    async fn exchange(
        &self,
        address: &str,
        request: Request<Full<Bytes>>,
    ) -> Result<(StatusCode, Bytes), ControlError> {
        let connecting = timeout(CONNECT_TIMEOUT, self.dialler.connect(address));
        let stream = connecting.await.map_err(|_elapsed| Unreachable::TimedOut)?.map_err(Unreachable::from)?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(Unreachable::from)?;
        // Ends with `sender` and the answer.
        tokio::spawn(connection);
        let response = sender.send_request(request).await.map_err(Unreachable::from)?;
        Ok((response.status(), read_body(response.into_body()).await?))
    }
}

/// A call without a body.
const NOTHING: Option<&()> = None;

async fn read_body(mut body: Incoming) -> Result<Bytes, ControlError> {
    let mut whole = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(Unreachable::from)?.into_data() else { continue };
        if whole.len() + data.len() > ANSWER_MAX_BYTES {
            return Err(ControlError::Malformed(Malformed::TooLong { limit: ANSWER_MAX_BYTES }));
        }
        whole.extend_from_slice(&data);
    }
    Ok(whole.freeze())
}

#[cfg(test)]
mod tests;
