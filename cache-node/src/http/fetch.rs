//! A plain `GET` of an entry that L1 does not hold: answered into bytes as soon as it has been read, as a hit is at once.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode};
use service::listen::{AnswerSoon, PlainGet};
use service::request_metrics::Route;
use wire::headers::X_REQUEST_ID;

use super::hit::{Found, append, end, lines, plain};
use super::{answer, listing, reads};
use crate::clock::Moment;
use crate::entry_name::EntryName;
use crate::node::Node;
use crate::read_path::Read;

/// Begins to read what L1 does not have; `None`: not a plain request.
pub(super) fn begin(node: &Arc<Node>, get: &PlainGet<'_>) -> Option<AnswerSoon> {
    let (name, request_id) = plain(node, get)?;
    let name = name.to_entry_name();
    let request_id = request_id.map(Box::<[u8]>::from);
    let (node, began) = (Arc::clone(node), Moment::now());
    Some(Box::pin(async move {
        let request_id = request_id.as_deref();
        let read = match node.in_progress.try_acquire() {
            Ok(_permit) => node.read(&name).await,
            Err(_) => return in_full(&node, &name, reads::overloaded(), request_id, began),
        };
        if let Ok(read) = &read
            && let Some(found) = read.content.as_deref().and_then(Found::stored)
        {
            listing::count(&node, &name, read);
            reads::account(&node, name.user.as_str(), StatusCode::OK, found.value_bytes());
            return fetched(&node, &found, read, request_id, began);
        }
        in_full(&node, &name, reads::answer_to(&node, &name, &HeaderMap::new(), read), request_id, began)
    }))
}

/// The answer with an entry that was not in L1.
fn fetched(node: &Node, found: &Found<'_>, read: &Read, request_id: Option<&[u8]>, began: Moment) -> Vec<u8> {
    let status = answer::cache_status(read);
    let lines = lines(node, status.to_str().unwrap_or_default(), node.status.epoch().0);
    let mut answer = Vec::new();
    append(found, &lines, request_id, &mut answer);
    node.metrics.requests.observe(Route::get, StatusCode::OK, Moment::now().since(began));
    answer
}

/// Any other answer.
fn in_full(
    node: &Node,
    name: &EntryName,
    mut response: Response<Bytes>,
    request_id: Option<&[u8]>,
    began: Moment,
) -> Vec<u8> {
    reads::account(node, name.user.as_str(), response.status(), response.body().len() as u64);
    reads::conclude(node, &mut response, Route::get, Moment::now().since(began));
    let mut answer = format!("HTTP/1.1 {}\r\n", response.status()).into_bytes();
    for (name, value) in response.headers() {
        for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            answer.extend_from_slice(part);
        }
    }
    answer.extend_from_slice(format!("{X_REQUEST_ID}: ").as_bytes());
    end(request_id, response.body(), &mut answer);
    answer
}
