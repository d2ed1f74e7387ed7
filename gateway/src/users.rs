//! `GET /v1/users/top`: asks all nodes who makes them work, and merges what they say.
//!
//! Not here: the counting, which nodes do. No user's id leaves the gateway unless the settings say so.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::{RawQuery, State};
use bytes::Bytes;
use clap::ValueEnum;
use futures_util::{StreamExt, stream};
use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use placement::NodeId;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};
use wire::users::{Named, TopUser, TopUsers, UserLoad, UsersReport, node_top_path, top_limit};
use wire::{Problem, ProblemCode};

use crate::gateway::Gateway;
use crate::limits;
use crate::ring_view::NodeView;
use crate::user_hash::UserHash;

/// Settings of the route.
#[derive(Clone, Debug, clap::Args)]
pub struct UsersSettings {
    /// Whether `GET /v1/users/top` names users as they are, or by a hash.
    #[arg(long, env = "SHARDCACHE_SHOW_USERS", default_value = "off", hide_env_values = true)]
    pub show_users: ShowUsers,
}

/// Whether users are named as they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ShowUsers {
    /// By a keyed hash.
    #[default]
    Off,
    /// As they are.
    On,
}

/// What the route needs beside the ring.
pub(crate) struct Users {
    show: ShowUsers,
    hash: UserHash,
    places: Semaphore,
}

impl Users {
    pub(crate) fn new(show: ShowUsers, hash: UserHash) -> Self {
        Self { show, hash, places: Semaphore::new(limits::USERS_TOP_IN_PROGRESS) }
    }

    fn name(&self, user: String) -> String {
        match self.show {
            ShowUsers::On => user,
            ShowUsers::Off => self.hash.of(&user),
        }
    }
}

/// The users that cost the nodes most.
pub(crate) async fn top(
    State(gateway): State<Arc<Gateway>>,
    RawQuery(query): RawQuery,
) -> Result<Json<TopUsers>, Response<Body>> {
    let limit = top_limit(query.as_deref())
        .map_err(|invalid| Problem::new(ProblemCode::RequestInvalid, invalid.to_string()).into_response())?;
    let Ok(_place) = gateway.users.places.try_acquire() else {
        return Err(Problem::new(ProblemCode::Overloaded, "this is being asked by others already").into_response());
    };
    let deadline = Instant::now() + limits::USERS_TOP_DEADLINE;
    let nodes = nodes_to_ask(&gateway);
    let asked = nodes.into_iter().map(|node| {
        let gateway = &gateway;
        async move {
            let report = timeout_at(deadline, ask(gateway, &node, limit, deadline)).await.ok().flatten();
            report.ok_or(node.id)
        }
    });
    let answers: Vec<_> = stream::iter(asked).buffer_unordered(limits::USERS_TOP_ASKED_AT_ONCE).collect().await;
    Ok(Json(merged(answers, limit, &gateway.users)))
}

/// Members, and others that are up: a standby that has gone has no users.
fn nodes_to_ask(gateway: &Gateway) -> Vec<NodeView> {
    let view = gateway.ring.view();
    let is_member = |id: &NodeId| view.ring().is_some_and(|ring| ring.member(id).is_some());
    view.nodes().iter().filter(|node| node.up || is_member(&node.id)).cloned().collect()
}

/// `None`: no answer, or none of a node of this release.
async fn ask(gateway: &Gateway, node: &NodeView, limit: usize, deadline: Instant) -> Option<UsersReport> {
    let mut request = Request::get(node_top_path(limit)).header(header::HOST, node.upstream.host().clone());
    if let Some(token) = &gateway.authorization {
        request = request.header(header::AUTHORIZATION, token.clone());
    }
    let answer = node.upstream.send(request.body(Full::<Bytes>::default()).ok()?, deadline).await.ok()?;
    if answer.status() != StatusCode::OK {
        return None;
    }
    let body = Limited::new(answer.into_body(), limits::USERS_TOP_ANSWER_MAX).collect().await.ok()?.to_bytes();
    serde_json::from_slice(&body).ok().filter(|report: &UsersReport| report.node == node.id)
}

fn merged(answers: Vec<Result<UsersReport, NodeId>>, limit: usize, users: &Users) -> TopUsers {
    let (mut loads, mut unanswered) = (Vec::new(), Vec::new());
    for answer in answers {
        match answer {
            Ok(report) => loads.extend(report.users.into_iter().map(|load| (report.node.clone(), load))),
            Err(node) => unanswered.push(node),
        }
    }
    loads.sort_by(|(one_node, one), (other_node, other)| {
        other.cores.total_cmp(&one.cores).then_with(|| (&one.user, one_node).cmp(&(&other.user, other_node)))
    });
    loads.truncate(limit);
    unanswered.sort();
    TopUsers {
        users: loads.into_iter().map(|(node, load)| top_user(node, load, users)).collect(),
        named: if users.show == ShowUsers::On { Named::Raw } else { Named::Hashed },
        complete: unanswered.is_empty(),
        unanswered,
    }
}

fn top_user(node: NodeId, load: UserLoad, users: &Users) -> TopUser {
    TopUser {
        user: users.name(load.user),
        node,
        requests_per_second: load.requests_per_second,
        bytes_per_second: load.bytes_per_second,
        cores: load.cores,
        share: load.share,
        counted_seconds: load.counted_seconds,
    }
}

#[cfg(test)]
mod tests {
    use placement::Incarnation;

    use super::*;

    fn id(name: &str) -> NodeId {
        name.parse().expect("a node id")
    }

    fn report(node: &str, users: &[(&str, f64)]) -> Result<UsersReport, NodeId> {
        let load = |&(user, cores): &(&str, f64)| UserLoad {
            user: user.to_owned(),
            requests_per_second: 1.0,
            bytes_per_second: 2.0,
            cores,
            share: 0.5,
            share_at_most: 0.5,
            counted_seconds: 3,
        };
        Ok(UsersReport {
            node: id(node),
            incarnation: Incarnation(1),
            window_seconds: 60.0,
            requests_per_second: 1.0,
            bytes_per_second: 2.0,
            cores: 1.0,
            users_counted: users.len(),
            users: users.iter().map(load).collect(),
        })
    }

    #[test]
    fn nodes_are_merged_by_what_users_cost_and_who_is_silent_is_named() {
        let answers =
            vec![report("n2", &[("b", 0.2), ("d", 0.1)]), Err(id("n3")), report("n1", &[("a", 0.3), ("c", 0.2)])];
        let top = merged(answers, 3, &Users::new(ShowUsers::On, UserHash::new(None)));
        let named: Vec<_> = top.users.iter().map(|user| (user.user.as_str(), user.node.as_str())).collect();
        assert_eq!(named, [("a", "n1"), ("b", "n2"), ("c", "n1")]);
        assert_eq!((top.complete, top.unanswered, top.named), (false, vec![id("n3")], Named::Raw));
    }

    #[test]
    fn without_leave_to_show_them_users_are_named_by_a_hash_that_another_process_would_not_make() {
        let unnamed = || Users::new(ShowUsers::Off, UserHash::new(None));
        let (users, others) = (unnamed(), unnamed());
        let named = |users: &Users| merged(vec![report("n1", &[("ada", 0.3)])], 3, users).users[0].user.clone();
        assert_eq!(named(&users), named(&users));
        assert_ne!(named(&users), named(&others));
        assert!(named(&users).len() == 32 && named(&users).bytes().all(|byte| byte.is_ascii_hexdigit()));
    }
}
