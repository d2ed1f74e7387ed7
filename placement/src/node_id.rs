//! Names and weights of nodes.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A node's name: 1 to 63 of `a-z A-Z 0-9 . _ -`, starting with a letter or digit.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct NodeId(Arc<str>);

/// A text that is no node id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a node id: 1 to 63 of a-z, A-Z, 0-9, '.', '_', '-', starting with a letter or digit")]
pub struct NodeIdInvalid(String);

impl NodeId {
    /// The name itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::str::FromStr for NodeId {
    type Err = NodeIdInvalid;

    fn from_str(name: &str) -> Result<Self, NodeIdInvalid> {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
        let first = name.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
        if first && name.len() <= 63 && name.bytes().all(allowed) {
            Ok(Self(name.into()))
        } else {
            Err(NodeIdInvalid(name.to_owned()))
        }
    }
}

impl TryFrom<String> for NodeId {
    type Error = NodeIdInvalid;

    fn try_from(name: String) -> Result<Self, NodeIdInvalid> {
        name.parse()
    }
}

impl From<NodeId> for String {
    fn from(id: NodeId) -> String {
        id.0.as_ref().to_owned()
    }
}

impl std::fmt::Display for NodeId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// A node's share of the slots relative to the other members: 1 to 10 000, 100 by default.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct Weight(u32);

/// A number that is no weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0} is not a weight: weights are 1 to 10000")]
pub struct WeightInvalid(u32);

impl Weight {
    /// The number, 1 to 10 000.
    pub fn get(self) -> u32 {
        self.0
    }
}

impl Default for Weight {
    fn default() -> Self {
        Self(100)
    }
}

impl TryFrom<u32> for Weight {
    type Error = WeightInvalid;

    fn try_from(weight: u32) -> Result<Self, WeightInvalid> {
        if (1..=10_000).contains(&weight) { Ok(Self(weight)) } else { Err(WeightInvalid(weight)) }
    }
}

impl From<Weight> for u32 {
    fn from(weight: Weight) -> u32 {
        weight.0
    }
}

impl std::fmt::Display for Weight {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}
