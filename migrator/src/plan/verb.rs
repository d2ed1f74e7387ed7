//! What an operator can ask for.

use placement::{NodeId, Pool, UserId, Weight};

/// A change of the ring that somebody asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verb {
    /// A registered node becomes a member.
    AddNode {
        /// The node.
        id: NodeId,
        /// Its weight; `None`: the one it was started with.
        weight: Option<Weight>,
    },
    /// A member gives all its slots away and leaves.
    RemoveNode {
        /// The member.
        id: NodeId,
    },
    /// A registered node becomes a member in the place of another, with exactly its slots.
    ReplaceNode {
        /// The member that leaves.
        old: NodeId,
        /// The node that joins.
        new: NodeId,
        /// Its weight; `None`: that of the member it replaces.
        weight: Option<Weight>,
    },
    /// A member's share changes.
    SetWeight {
        /// The member.
        id: NodeId,
        /// Its new weight.
        weight: Weight,
    },
    /// A user moves to the nodes of a pool.
    AssignUser {
        /// The user.
        user: UserId,
        /// The pool.
        pool: Pool,
    },
}

impl Verb {
    /// The verb and its arguments, as journaled and as typed after `migrator`.
    pub fn action(&self) -> String {
        let with_weight = |verb: String, weight: &Option<Weight>| match weight {
            None => verb,
            Some(weight) => format!("{verb} --weight {weight}"),
        };
        match self {
            Self::AddNode { id, weight } => with_weight(format!("add-node {id}"), weight),
            Self::RemoveNode { id } => format!("remove-node {id}"),
            Self::ReplaceNode { old, new, weight } => with_weight(format!("replace-node {old} {new}"), weight),
            Self::SetWeight { id, weight } => format!("set-weight {id} {weight}"),
            // The journal is shown to many: no user id in it.
            Self::AssignUser { pool, .. } => format!("assign-user … --pool {pool}"),
        }
    }

    /// The node that joins, if one does.
    pub fn joiner(&self) -> Option<&NodeId> {
        match self {
            Self::AddNode { id, .. } | Self::ReplaceNode { new: id, .. } => Some(id),
            Self::RemoveNode { .. } | Self::SetWeight { .. } | Self::AssignUser { .. } => None,
        }
    }

    /// The member that leaves, if one does.
    pub fn leaver(&self) -> Option<&NodeId> {
        match self {
            Self::RemoveNode { id } | Self::ReplaceNode { old: id, .. } => Some(id),
            Self::AddNode { .. } | Self::SetWeight { .. } | Self::AssignUser { .. } => None,
        }
    }
}
