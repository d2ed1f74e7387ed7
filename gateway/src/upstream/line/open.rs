//! Opens a line: one request with `Upgrade` on a connection of its own.

use bytes::{Bytes, BytesMut};
use http::{HeaderValue, Request, StatusCode, header};
use http_body_util::Empty;
use hyper_util::rt::TokioIo;
use service::tls::{NodeDialler, NodeStream};
use tokio::time::timeout;
use wire::line::{PATH, UPGRADE};

use crate::limits;

/// Why there is no line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::upstream) enum Refused {
    /// The node cannot be reached, or does not answer.
    Unreachable,
    /// It answered with this: a node of an older version, or one that does not take our token.
    Status(StatusCode),
}

/// The connection of a line to `address`, and what was read of it already.
pub(in crate::upstream) async fn open(
    dialler: &NodeDialler,
    address: &HeaderValue,
    authorization: Option<HeaderValue>,
) -> Result<(NodeStream, BytesMut), Refused> {
    let opening = timeout(limits::LINE_OPEN, ask(dialler, address, authorization));
    opening.await.unwrap_or(Err(Refused::Unreachable))
}

async fn ask(
    dialler: &NodeDialler,
    address: &HeaderValue,
    authorization: Option<HeaderValue>,
) -> Result<(NodeStream, BytesMut), Refused> {
    let target = address.to_str().map_err(|_| Refused::Unreachable)?;
    let stream = dialler.connect(target).await.map_err(|_| Refused::Unreachable)?;
    let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|_| Refused::Unreachable)?;
    // Ends with the upgrade, or with `sender`.
    tokio::spawn(connection.with_upgrades());
    let upgrade = HeaderValue::from_static(UPGRADE);
    let mut request = Request::new(Empty::<Bytes>::new());
    *request.uri_mut() = http::Uri::from_static(PATH);
    let headers = request.headers_mut();
    headers.insert(header::HOST, address.clone());
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(header::UPGRADE, upgrade.clone());
    headers.extend(authorization.map(|token| (header::AUTHORIZATION, token)));
    let response = sender.send_request(request).await.map_err(|_| Refused::Unreachable)?;
    if response.status() != StatusCode::SWITCHING_PROTOCOLS || response.headers().get(header::UPGRADE) != Some(&upgrade)
    {
        return Err(Refused::Status(response.status()));
    }
    let upgraded = hyper::upgrade::on(response).await.map_err(|_| Refused::Unreachable)?;
    let parts = upgraded.downcast::<TokioIo<NodeStream>>().map_err(|_| Refused::Unreachable)?;
    Ok((parts.io.into_inner(), BytesMut::from(&parts.read_buf[..])))
}
