//! What each node would have to do once users have moved. Pure.

use placement::NodeId;
use serde::Serialize;

use super::judge::{NodeLoad, UserToMove};

/// A node now and after. The loads are those of the last minutes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NodeOutlook {
    /// Its pool.
    pub pool: String,
    /// Null: a node that has to be started first.
    pub node: Option<NodeId>,
    /// Processor seconds per second that its users cost, by the model.
    pub cores_now: f64,
    /// The same once the users have moved.
    pub cores_after: f64,
    /// Its part of what all nodes have to do, 0 to 1.
    pub share_now: f64,
    /// The same once the users have moved.
    pub share_after: f64,
}

/// Every node, and one to be started where nobody is in the pool yet. Each user is given to the node of the pool that has least
/// to do by then; which one it will be is decided when it moves.
pub(super) fn outlook(nodes: &[NodeLoad], users: &[UserToMove], to_pool: &str) -> Vec<NodeOutlook> {
    let all: f64 = nodes.iter().map(|node| node.report.cores).sum();
    let share = |cores: f64| if all > 0.0 { cores / all } else { 0.0 };
    let row = |pool: &str, node: Option<&NodeId>, cores: f64| NodeOutlook {
        pool: pool.to_owned(),
        node: node.cloned(),
        cores_now: cores,
        cores_after: cores,
        share_now: share(cores),
        share_after: share(cores),
    };
    let mut rows: Vec<_> =
        nodes.iter().map(|node| row(&node.pool, Some(&node.report.node), node.report.cores)).collect();
    if !users.is_empty() && !rows.iter().any(|row| row.pool == to_pool) {
        rows.push(row(to_pool, None, 0.0));
    }
    for user in users {
        let of_pool = rows.iter_mut().filter(|row| row.pool == to_pool);
        if let Some(idlest) = of_pool.min_by(|one, other| one.cores_after.total_cmp(&other.cores_after)) {
            idlest.cores_after += user.cores;
        }
        if let Some(left) = rows.iter_mut().find(|row| row.node.as_ref() == Some(&user.node)) {
            left.cores_after = (left.cores_after - user.cores).max(0.0);
        }
    }
    rows.iter_mut().for_each(|row| row.share_after = share(row.cores_after));
    rows
}

#[cfg(test)]
mod tests {
    use placement::Incarnation;
    use wire::users::UsersReport;

    use super::*;

    fn node(pool: &str, name: &str, cores: f64) -> NodeLoad {
        let report = UsersReport {
            node: name.parse().expect("a node id"),
            incarnation: Incarnation(1),
            window_seconds: 60.0,
            requests_per_second: 1.0,
            bytes_per_second: 1.0,
            cores,
            users_counted: 1,
            users: Vec::new(),
        };
        NodeLoad { pool: pool.to_owned(), report }
    }

    fn user(node: &str, cores: f64) -> UserToMove {
        UserToMove {
            user: "big".to_owned(),
            node: node.parse().expect("a node id"),
            share: 0.5,
            fair_share: 0.01,
            cores,
            requests_per_second: 1.0,
            bytes_per_second: 1.0,
            why: String::new(),
            command: String::new(),
        }
    }

    fn after(rows: &[NodeOutlook]) -> Vec<(&str, Option<&str>, f64)> {
        rows.iter().map(|row| (row.pool.as_str(), row.node.as_ref().map(NodeId::as_str), row.cores_after)).collect()
    }

    #[test]
    fn users_are_given_to_the_idlest_node_of_the_pool_one_by_one_and_nothing_is_lost() {
        let nodes =
            [node("shared", "n1", 1.0), node("shared", "n2", 0.5), node("vip", "v1", 0.25), node("vip", "v2", 0.0)];
        let rows = outlook(&nodes, &[user("n1", 0.5), user("n1", 0.25), user("n2", 0.25)], "vip");
        assert_eq!(
            after(&rows),
            [
                ("shared", Some("n1"), 0.25),
                ("shared", Some("n2"), 0.25),
                ("vip", Some("v1"), 0.75),
                ("vip", Some("v2"), 0.5)
            ]
        );
        assert!((rows.iter().map(|row| row.share_after).sum::<f64>() - 1.0).abs() < 1e-9);
        assert_eq!(rows[0].share_now, 1.0 / 1.75);
    }

    #[test]
    fn without_the_pool_a_node_to_be_started_is_shown_and_without_users_nothing_changes() {
        let nodes = [node("shared", "n1", 1.0)];
        let rows = outlook(&nodes, &[user("n1", 0.75)], "vip");
        assert_eq!(after(&rows), [("shared", Some("n1"), 0.25), ("vip", None, 0.75)]);
        assert_eq!(after(&outlook(&nodes, &[], "vip")), [("shared", Some("n1"), 1.0)]);
        assert_eq!(outlook(&[node("shared", "n1", 0.0)], &[], "vip")[0].share_now, 0.0);
    }
}
