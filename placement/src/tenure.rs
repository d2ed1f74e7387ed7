//! Numbers from the database that fence: tenure, gained, incarnation. All only ever grow.

use serde::{Deserialize, Serialize};

macro_rules! fencing_number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub i64);

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

fencing_number! {
    /// What a write statement must carry: new at every gain and every renewal of a slot (protocol S2).
    Tenure
}
fencing_number! {
    /// New at every gain of a slot, left alone by a renewal: tells a reign from the next (protocol S2, T3).
    Gained
}
fencing_number! {
    /// Counts the processes that have been a node (protocol S1, L4).
    Incarnation
}
