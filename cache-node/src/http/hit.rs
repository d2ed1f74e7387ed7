//! A plain `GET` of an entry that L1 holds: answered at once, with nothing waited for and next to nothing allocated.
//!
//! Whatever is out of the ordinary, absence and errors included, goes the way of `entries`, which would answer the same.

use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use service::AnswerBody;
use service::request_metrics::Route;
use wire::entries::ENTRIES_PREFIX;
use wire::headers::{X_REQUEST_ID, X_SHARDCACHE_DETACHED, X_USER_ID};

use super::answer;
use crate::clock::Moment;
use crate::entry_name::AskedName;
use crate::metrics::{Tier, TierLabels};
use crate::node::Node;
use crate::read_path::Looked;

/// The answer, or how far the look-up came.
pub(super) fn answer(node: &Node, request: &Request<Incoming>) -> Result<Response<AnswerBody>, Looked> {
    let head = request.headers();
    let encoded_key = request.uri().path().strip_prefix(ENTRIES_PREFIX).ok_or(Looked::NotYet)?;
    let asked = Asked::of(head).ok_or(Looked::NotYet)?;
    let token = node.config.cluster_token.as_ref();
    if request.method() != Method::GET || !token.is_none_or(|token| token.authorises(head)) {
        return Err(Looked::NotYet);
    }
    let name = AskedName::plain(asked.user.as_bytes(), encoded_key).ok_or(Looked::NotYet)?;
    let (held, began) = node.look_into_l1(&name)?;
    if !held.is_present() {
        return Err(Looked::Missed);
    }
    let request_id = service::request_id::of_one(asked.request_id);
    let response = answer::held(&held, node, request_id);
    node.metrics.reads.inc(&TierLabels { tier: Tier::l1 });
    node.metrics.requests.observe(Route::get, StatusCode::OK, Moment::now().since(began));
    Ok(response)
}

/// What such a request says, found in one pass over its headers.
struct Asked<'a> {
    user: &'a HeaderValue,
    request_id: Option<&'a HeaderValue>,
}

impl<'a> Asked<'a> {
    /// `None`: a header is missing, doubled, or asks for more than the entry.
    fn of(headers: &'a HeaderMap) -> Option<Self> {
        let (mut user, mut request_id) = (None, None);
        for (name, value) in headers {
            let of_one_only = if *name == X_USER_ID {
                &mut user
            } else if *name == X_REQUEST_ID {
                &mut request_id
            } else if *name == header::IF_NONE_MATCH || *name == header::IF_MATCH || *name == X_SHARDCACHE_DETACHED {
                return None;
            } else {
                continue;
            };
            if of_one_only.replace(value).is_some() {
                return None;
            }
        }
        Some(Self { user: user?, request_id })
    }
}
