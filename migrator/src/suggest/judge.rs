//! Which users to move and to which pool, by what the nodes say of their users. Pure.

use std::collections::BTreeSet;

use placement::NodeId;
use serde::Serialize;
use wire::users::{UserLoad, UsersReport};

use super::outlook::{NodeOutlook, outlook};
use super::words::{command, why};
use super::{NEW_POOL, SHARED_POOL};

/// A user must cost more than so many times what it would if all users of its node cost the same: with few users, each has a
/// large share.
pub(super) const FAIR_SHARES: f64 = 2.0;
/// Below so many requests per second nobody makes a node work, whatever the share.
pub(super) const REQUESTS_PER_SECOND_MIN: f64 = 1.0;

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// The part of its node's work that a user must cost more than, 0 to 1.
    pub above: f64,
    /// The most users to name.
    pub limit: usize,
}

/// What a node says of its users, and its pool.
#[derive(Clone, Debug)]
pub struct NodeLoad {
    /// The node's pool.
    pub pool: String,
    /// The node's report.
    pub report: UsersReport,
}

/// What `suggest --json` prints.
#[derive(Clone, Debug, Serialize)]
pub struct Suggestion {
    /// Users of shared nodes that are worth moving, first the one that costs most.
    pub users: Vec<UserToMove>,
    /// Every node as it is and as it would be once they have moved, by pool and name.
    pub nodes: Vec<NodeOutlook>,
    /// Where they would go.
    pub to_pool: String,
    /// Whether a node is in that pool already; else one has to be started with `SHARDCACHE_NODE_POOL` first.
    pub to_pool_exists: bool,
    /// The share that users must cost more than, 0 to 1.
    pub above: f64,
    /// Whether all nodes have answered.
    pub complete: bool,
    /// Members, and other nodes that are up, that have not.
    pub unanswered: Vec<NodeId>,
}

/// A user worth moving.
#[derive(Clone, Debug, Serialize)]
pub struct UserToMove {
    /// The user, as it is.
    pub user: String,
    /// Where it is.
    pub node: NodeId,
    /// Its part of what all users of the node cost for certain, 0 to 1.
    pub share: f64,
    /// What its part would be if all users that the node counts cost the same.
    pub fair_share: f64,
    /// Processor seconds per second that its requests cost, by the node's model.
    pub cores: f64,
    /// Its requests.
    pub requests_per_second: f64,
    /// Bytes of bodies per second, both directions.
    pub bytes_per_second: f64,
    /// In one line.
    pub why: String,
    /// The command that moves it.
    pub command: String,
}

/// Judges.
pub fn judge(mut nodes: Vec<NodeLoad>, unanswered: Vec<NodeId>, wanted: Wanted) -> Suggestion {
    nodes.sort_by(|one, other| (&one.pool, &one.report.node).cmp(&(&other.pool, &other.report.node)));
    let (to_pool, to_pool_exists) = target(&nodes);
    let shared = nodes.iter().filter(|node| node.pool == SHARED_POOL).map(|node| &node.report);
    let mut users: Vec<UserToMove> = shared
        .flat_map(|report| report.users.iter().map(move |load| (report, load)))
        .filter(|(report, load)| is_worth_moving(report, load, wanted.above))
        .map(|(report, load)| user_to_move(report, load, wanted.above, &to_pool))
        .collect();
    users.sort_by(|one, other| other.cores.total_cmp(&one.cores).then_with(|| one.user.cmp(&other.user)));
    // Who moved between two shared nodes lately is at both.
    let mut named = BTreeSet::new();
    users.retain(|user| named.insert(user.user.clone()));
    users.truncate(wanted.limit);
    let outlooks = outlook(&nodes, &users, &to_pool);
    Suggestion {
        nodes: outlooks,
        users,
        to_pool,
        to_pool_exists,
        above: wanted.above,
        complete: unanswered.is_empty(),
        unanswered,
    }
}

fn is_worth_moving(report: &UsersReport, load: &UserLoad, above: f64) -> bool {
    load.share > above
        && load.share > FAIR_SHARES * fair_share(report)
        && load.requests_per_second >= REQUESTS_PER_SECOND_MIN
}

fn fair_share(report: &UsersReport) -> f64 {
    1.0 / report.users_counted.max(1) as f64
}

fn user_to_move(report: &UsersReport, load: &UserLoad, above: f64, to_pool: &str) -> UserToMove {
    UserToMove {
        user: load.user.clone(),
        node: report.node.clone(),
        share: load.share,
        fair_share: fair_share(report),
        cores: load.cores,
        requests_per_second: load.requests_per_second,
        bytes_per_second: load.bytes_per_second,
        why: why(report, load, above),
        command: command(&load.user, to_pool),
    }
}

/// Of the pools beside the shared one that whose nodes have least to do, and whether there is any.
fn target(nodes: &[NodeLoad]) -> (String, bool) {
    let pools: BTreeSet<&str> =
        nodes.iter().map(|node| node.pool.as_str()).filter(|&pool| pool != SHARED_POOL).collect();
    let mean = |pool: &str| {
        let cores: Vec<f64> = nodes.iter().filter(|node| node.pool == pool).map(|node| node.report.cores).collect();
        cores.iter().sum::<f64>() / cores.len() as f64
    };
    let idlest = pools.into_iter().min_by(|one, other| mean(one).total_cmp(&mean(other)));
    idlest.map_or_else(|| (NEW_POOL.to_owned(), false), |pool| (pool.to_owned(), true))
}

#[cfg(test)]
mod tests {
    use placement::Incarnation;

    use super::*;

    const WANTED: Wanted = Wanted { above: 0.2, limit: 20 };

    fn id(name: &str) -> NodeId {
        name.parse().expect("a node id")
    }

    /// A node of so many counted users, some of them with their shares.
    fn node(pool: &str, name: &str, cores: f64, users_counted: usize, users: &[(&str, f64)]) -> NodeLoad {
        let load = |&(user, share): &(&str, f64)| UserLoad {
            user: user.to_owned(),
            requests_per_second: 1_000.0 * share,
            bytes_per_second: 1_000_000.0 * share,
            cores: cores * share,
            share,
            share_at_most: share,
            counted_seconds: 100,
        };
        let report = UsersReport {
            node: id(name),
            incarnation: Incarnation(1),
            window_seconds: 60.0,
            requests_per_second: 1_000.0,
            bytes_per_second: 1_000_000.0,
            cores,
            users_counted,
            users: users.iter().map(load).collect(),
        };
        NodeLoad { pool: pool.to_owned(), report }
    }

    fn named(suggestion: &Suggestion) -> Vec<&str> {
        suggestion.users.iter().map(|user| user.user.as_str()).collect()
    }

    #[test]
    fn only_shares_above_the_bound_and_twice_the_fair_one_are_named_the_costliest_first() {
        let nodes = vec![
            node("shared", "n1", 0.5, 500, &[("big", 0.4), ("at the bound", 0.2), ("small", 0.01)]),
            node("shared", "n2", 0.9, 300, &[("bigger", 0.5), ("half", 0.25)]),
            // Each of three users has a third, which is no more than its fair share.
            node("shared", "n3", 0.9, 3, &[("a", 0.34), ("b", 0.33), ("c", 0.33)]),
        ];
        let suggestion = judge(nodes.clone(), vec![id("n4")], WANTED);
        assert_eq!(named(&suggestion), ["bigger", "half", "big"]);
        assert!(!suggestion.complete && !suggestion.to_pool_exists && suggestion.to_pool == "vip");
        assert_eq!(named(&judge(nodes, Vec::new(), Wanted { limit: 1, ..WANTED })), ["bigger"]);
    }

    #[test]
    fn users_of_other_pools_and_of_idle_nodes_stay() {
        let mut idle = node("shared", "n1", 0.0001, 100, &[("alone", 0.9)]);
        idle.report.users[0].requests_per_second = 0.5;
        let nodes = vec![idle, node("vip", "v1", 0.5, 100, &[("moved", 0.9)])];
        assert!(judge(nodes, Vec::new(), WANTED).users.is_empty());
    }

    #[test]
    fn users_go_to_the_pool_with_least_to_do() {
        let nodes = vec![
            node("gold", "g1", 0.6, 10, &[]),
            node("shared", "n1", 0.5, 500, &[("big", 0.4)]),
            node("vip", "v1", 0.1, 10, &[]),
        ];
        let suggestion = judge(nodes, Vec::new(), WANTED);
        assert_eq!((suggestion.to_pool.as_str(), suggestion.to_pool_exists), ("vip", true));
        assert_eq!(suggestion.users[0].command, "migrator assign-user big --pool vip");
    }

    #[test]
    fn a_user_at_two_nodes_is_named_once() {
        let nodes =
            vec![node("shared", "n1", 0.5, 500, &[("big", 0.4)]), node("shared", "n2", 0.9, 500, &[("big", 0.4)])];
        let suggestion = judge(nodes, Vec::new(), WANTED);
        assert_eq!((named(&suggestion), &suggestion.users[0].node), (vec!["big"], &id("n2")));
    }
}
