//! Who makes the nodes work: what a node says of its users, and what a gateway makes of all nodes' answers.
//!
//! `GET /internal/users/top?limit=N` at a node  → 200 [`UsersReport`] | 400 `request_invalid`
//! `GET /v1/users/top?limit=N` at a gateway     → 200 [`TopUsers`] | 400 `request_invalid` | 503 `overloaded`

use placement::{Incarnation, NodeId};
use serde::{Deserialize, Serialize};

/// The path at a node, without its query.
pub const NODE_TOP_PATH: &str = "/internal/users/top";
/// How many users are named unless the query says otherwise.
pub const TOP_DEFAULT: usize = 20;
/// The most users that are named.
pub const TOP_MAX: usize = 100;

/// What a node's users made it do in the last minutes, older minutes counting less and less. Answers from L1 are counted by a
/// sample.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UsersReport {
    /// Who reports.
    pub node: NodeId,
    /// Its process.
    pub incarnation: Incarnation,
    /// The time that counts, in seconds: from one to two minutes once the process has run as long.
    pub window_seconds: f64,
    /// Of all users.
    pub requests_per_second: f64,
    /// Bytes of bodies per second, both directions, of all users.
    pub bytes_per_second: f64,
    /// Processor seconds per second that all users' requests cost by the node's model.
    pub cores: f64,
    /// How many users the node counts; it has room for 1024.
    pub users_counted: usize,
    /// Those that cost most, first the one that costs most.
    pub users: Vec<UserLoad>,
}

/// One user's part in a node's work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UserLoad {
    /// The user, as it is.
    pub user: String,
    /// Since it is counted.
    pub requests_per_second: f64,
    /// Bytes of bodies per second, both directions, since it is counted.
    pub bytes_per_second: f64,
    /// Processor seconds per second that its requests cost for certain.
    pub cores: f64,
    /// Its part of what all users of the node cost, 0 to 1: as much for certain.
    pub share: f64,
    /// The same: no more.
    pub share_at_most: f64,
    /// For how many seconds it has been counted without a break.
    pub counted_seconds: u64,
}

/// The users of all nodes that cost most.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TopUsers {
    /// First the one that costs most. A user that moved lately may be there once for each node.
    pub users: Vec<TopUser>,
    /// How the users are named.
    pub named: Named,
    /// Whether all nodes have answered.
    pub complete: bool,
    /// The members, and other nodes that are up, that have not.
    pub unanswered: Vec<NodeId>,
}

/// How users are named in [`TopUsers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Named {
    /// By a keyed hash of 16 hexadecimal digits; the key is the gateway process's own.
    Hashed,
    /// As they are.
    Raw,
}

/// One user at one node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TopUser {
    /// The user, by [`TopUsers::named`].
    pub user: String,
    /// Where.
    pub node: NodeId,
    /// [`UserLoad::requests_per_second`].
    pub requests_per_second: f64,
    /// [`UserLoad::bytes_per_second`].
    pub bytes_per_second: f64,
    /// [`UserLoad::cores`].
    pub cores: f64,
    /// [`UserLoad::share`]: its part of the work of that node.
    pub share: f64,
    /// [`UserLoad::counted_seconds`].
    pub counted_seconds: u64,
}

/// A query that is none of these routes'.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the only query parameter is limit, 1 to {TOP_MAX}")]
pub struct TopQueryInvalid;

/// What a query asks for.
pub fn top_limit(query: Option<&str>) -> Result<usize, TopQueryInvalid> {
    let Some(query) = query.filter(|query| !query.is_empty()) else { return Ok(TOP_DEFAULT) };
    let digits = query.strip_prefix("limit=").filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
    let limit = digits.and_then(|digits| digits.parse().ok());
    limit.filter(|limit| (1..=TOP_MAX).contains(limit)).ok_or(TopQueryInvalid)
}

/// The path and query that ask a node for so many users.
pub fn node_top_path(limit: usize) -> String {
    format!("{NODE_TOP_PATH}?limit={limit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_1_to_100_and_nothing_else_is_asked() {
        assert_eq!((top_limit(None), top_limit(Some(""))), (Ok(20), Ok(20)));
        assert_eq!((top_limit(Some("limit=1")), top_limit(Some("limit=100"))), (Ok(1), Ok(100)));
        for bad in ["limit=0", "limit=101", "limit=", "limit=+5", "limit=-1", "limit=5&limit=6", "all=1", "limit", "5"]
        {
            assert_eq!(top_limit(Some(bad)), Err(TopQueryInvalid), "{bad}");
        }
        assert_eq!(node_top_path(7), "/internal/users/top?limit=7");
    }
}
