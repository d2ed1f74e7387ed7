//! A pool: nodes that serve the same users. Everybody's is `shared`; others serve the users assigned to them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The pool of all users that are not assigned to another.
const SHARED: &str = "shared";

/// The name of a pool: 1 to 63 of `a-z A-Z 0-9 . _ -`, starting with a letter or digit.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Pool(Arc<str>);

/// A text that is no pool's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a pool: 1 to 63 of a-z, A-Z, 0-9, '.', '_', '-', starting with a letter or digit")]
pub struct PoolInvalid(String);

impl Pool {
    /// The name itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is everybody's pool, whose nodes own the slots that users fall into by hash.
    pub fn is_shared(&self) -> bool {
        &*self.0 == SHARED
    }
}

impl Default for Pool {
    fn default() -> Self {
        Self(SHARED.into())
    }
}

impl std::str::FromStr for Pool {
    type Err = PoolInvalid;

    fn from_str(name: &str) -> Result<Self, PoolInvalid> {
        // Named like nodes.
        match name.parse::<crate::NodeId>() {
            Ok(_) => Ok(Self(name.into())),
            Err(_) => Err(PoolInvalid(name.to_owned())),
        }
    }
}

impl TryFrom<String> for Pool {
    type Error = PoolInvalid;

    fn try_from(name: String) -> Result<Self, PoolInvalid> {
        name.parse()
    }
}

impl From<Pool> for String {
    fn from(pool: Pool) -> String {
        pool.0.as_ref().to_owned()
    }
}

impl std::fmt::Display for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}
