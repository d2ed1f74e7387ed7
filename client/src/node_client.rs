//! The control plane of a node, as the migrator calls it: copy, seal, settle, refresh, slots, load, top users.
//!
//! Every call is safe to repeat; this client itself never sends one twice.

use std::time::Duration;

use http::header::AUTHORIZATION;
use http::{HeaderMap, Method};
use placement::ChangeId;
use reqwest::redirect;
use serde::de::DeserializeOwned;
use service::settings::ClusterToken;
use wire::Problem;
use wire::control::{self, CopyReport, CopyRequest, LoadReport, SealReport, SealRequest, SettleReport, SlotsReport};
use wire::users::{UsersReport, node_top_path};

pub use crate::answer::Malformed;
use crate::answer::{BodyError, problem, read_body};

/// How long a connection to a node may take: nodes are near, and a dead one should be noticed soon.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// The longest answer: 4096 slots at under 100 bytes each are 400 KiB.
const ANSWER_MAX_BYTES: usize = 1 << 20;

/// Calls the control plane of any node. Cheap to clone.
#[derive(Clone, Debug)]
pub struct NodeClient {
    http: reqwest::Client,
}

/// Why a node did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// No connection, or no whole answer in time. The node may have done it.
    #[error("the node cannot be reached")]
    Unreachable(#[source] reqwest::Error),
    /// The node answered with a problem; it has not done it.
    #[error("the node refused: {} ({})", .0.detail, .0.code.name())]
    Refused(Problem),
    /// The answer is none of a node of this release.
    #[error("the node's answer cannot be understood")]
    Malformed(#[source] Malformed),
}

/// The HTTP client cannot be made.
#[derive(Debug, thiserror::Error)]
#[error("cannot make an HTTP client")]
pub struct ClientUnavailable(#[from] reqwest::Error);

impl NodeClient {
    /// A client whose calls carry `token`, if any, and take at most `timeout` each, the answer's body included.
    ///
    /// Proxies of the environment are passed by, redirects are not followed.
    pub fn new(token: Option<ClusterToken>, timeout: Duration) -> Result<Self, ClientUnavailable> {
        let headers: HeaderMap = token.iter().map(|token| (AUTHORIZATION, token.header_value())).collect();
        let http = reqwest::Client::builder()
            .no_proxy()
            .redirect(redirect::Policy::none())
            .retry(reqwest::retry::never())
            .connect_timeout(CONNECT_TIMEOUT.min(timeout))
            .timeout(timeout)
            .default_headers(headers)
            .build()?;
        Ok(Self { http })
    }

    /// Seals the slots for the change and waits until they are drained (protocol C5).
    pub async fn seal(
        &self,
        address: &str,
        change: ChangeId,
        request: &SealRequest,
    ) -> Result<SealReport, ControlError> {
        let sent = self.request(Method::POST, address, &control::seal_path(change)).json(request);
        json(sent).await
    }

    /// Has the node copy slots to their receivers, and says how far it is (protocol C2).
    pub async fn copy(
        &self,
        address: &str,
        change: ChangeId,
        request: &CopyRequest,
    ) -> Result<CopyReport, ControlError> {
        json(self.request(Method::POST, address, &control::copy_path(change)).json(request)).await
    }

    /// Makes the node read its slots anew and settle its seals of the change (protocol C7, C9, C10).
    pub async fn settle(&self, address: &str, change: ChangeId) -> Result<SettleReport, ControlError> {
        json(self.request(Method::POST, address, &control::settle_path(change))).await
    }

    /// Makes the node read its slots anew.
    pub async fn refresh(&self, address: &str) -> Result<(), ControlError> {
        succeed(self.request(Method::POST, address, control::REFRESH_PATH)).await.map(drop)
    }

    /// What the node's L1 holds, per slot.
    pub async fn slots(&self, address: &str) -> Result<SlotsReport, ControlError> {
        json(self.request(Method::GET, address, control::SLOTS_PATH)).await
    }

    /// What the node has done since its start.
    pub async fn load(&self, address: &str) -> Result<LoadReport, ControlError> {
        json(self.request(Method::GET, address, control::LOAD_PATH)).await
    }

    /// The users that cost the node most, at most `limit`, which is at most [`wire::users::TOP_MAX`].
    pub async fn top_users(&self, address: &str, limit: usize) -> Result<UsersReport, ControlError> {
        json(self.request(Method::GET, address, &node_top_path(limit))).await
    }

    fn request(&self, method: Method, address: &str, path: &str) -> reqwest::RequestBuilder {
        self.http.request(method, format!("http://{address}{path}"))
    }
}

async fn json<T: DeserializeOwned>(request: reqwest::RequestBuilder) -> Result<T, ControlError> {
    let body = succeed(request).await?;
    serde_json::from_slice(&body).map_err(|error| ControlError::Malformed(Malformed::Json(error)))
}

/// The body of a successful answer.
async fn succeed(request: reqwest::RequestBuilder) -> Result<bytes::Bytes, ControlError> {
    let response = request.send().await.map_err(ControlError::Unreachable)?;
    let status = response.status();
    let body = read_body(response, ANSWER_MAX_BYTES).await.map_err(|error| match error {
        BodyError::Broken(source) => ControlError::Unreachable(source),
        BodyError::TooLong(malformed) => ControlError::Malformed(malformed),
    })?;
    if status.is_success() {
        return Ok(body);
    }
    Err(problem(status, &body).map_or_else(ControlError::Malformed, ControlError::Refused))
}

#[cfg(test)]
mod tests;
