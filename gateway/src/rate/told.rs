//! What answers say about rate limits: `RateLimit-Policy` and `RateLimit` (draft-ietf-httpapi-ratelimit-headers-10), and the
//! answer to a request that is over one, put together beforehand as far as that goes.
//!
//! A policy is told as the quota that a full bucket is, and the time it takes to fill: `100/s burst=200` is `q=200;w=2`. On an
//! answer that was let through `t` says when the bucket is full again; on one that was refused, when one request will pass, as
//! `Retry-After` does. The limit of all together is told to those alone that it refuses: it is nobody's quota.

use http::{HeaderMap, HeaderName, HeaderValue, Response, header};
use wire::{Problem, ProblemCode};

use super::bucket::Level;
use super::quota::Quota;
use super::{RateSettings, Scope, Standing, header_value, seconds};
use crate::answer_body::AnswerBody;
use crate::prebuilt::Prebuilt;

const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// What does not change from answer to answer.
pub(super) struct Told {
    /// The limits of one's own; `None`: there is only that of all together.
    policies: Option<HeaderValue>,
    total_policy: Option<HeaderValue>,
    /// By scope.
    refusals: [Prebuilt; 3],
}

impl Told {
    pub(super) fn new(settings: &RateSettings) -> Self {
        let own = [(Scope::user, settings.rate_user), (Scope::client, settings.rate_client)];
        let policies: Vec<String> =
            own.into_iter().filter_map(|(scope, quota)| quota.map(|quota| policy(scope, &quota))).collect();
        let refused = |whose| {
            Prebuilt::of(Problem::new(
                ProblemCode::RateLimited,
                format!("not executed: the rate limit of {whose} is reached"),
            ))
        };
        Self {
            policies: (!policies.is_empty()).then(|| header_value(policies.join(", "))),
            total_policy: settings.rate_total.map(|quota| header_value(policy(Scope::total, &quota))),
            refusals: [refused("this user"), refused("this client's address"), refused("all clients together")],
        }
    }

    /// On an answer that was let through.
    pub(super) fn tell(&self, standing: Standing, headers: &mut HeaderMap) {
        let Some(policies) = &self.policies else { return };
        headers.insert(RATE_LIMIT_POLICY, policies.clone());
        let item = |scope, level: Option<Level>| level.map(|level| item(scope, level.left, seconds(level.full_in_ns)));
        let levels = match (item(Scope::user, standing.user), item(Scope::client, standing.client)) {
            (Some(user), Some(client)) => format!("{user}, {client}"),
            (Some(one), None) | (None, Some(one)) => one,
            (None, None) => return,
        };
        headers.insert(RATE_LIMIT, header_value(levels));
    }

    /// The answer to a request that is over a limit and would pass in `wait_ns`.
    pub(super) fn refusal(&self, scope: Scope, wait_ns: u64) -> Response<AnswerBody> {
        let mut response = self.refusals[scope as usize].response();
        let wait = seconds(wait_ns);
        let headers = response.headers_mut();
        headers.insert(header::RETRY_AFTER, HeaderValue::from(wait));
        headers.insert(RATE_LIMIT, header_value(item(scope, 0, wait)));
        let policies = if scope == Scope::total { &self.total_policy } else { &self.policies };
        if let Some(policies) = policies {
            headers.insert(RATE_LIMIT_POLICY, policies.clone());
        }
        response
    }
}

fn policy(scope: Scope, quota: &Quota) -> String {
    format!("\"{}\";q={};w={}", name(scope), quota.burst, seconds(quota.depth_ns()))
}

fn item(scope: Scope, left: u64, seconds: u64) -> String {
    format!("\"{}\";r={left};t={seconds}", name(scope))
}

fn name(scope: Scope) -> &'static str {
    match scope {
        Scope::user => "user",
        Scope::client => "client",
        Scope::total => "total",
    }
}
