//! Where things belong: users to slots, slots to owners, and how that map changes.
//!
//! Pure: no I/O, no clock, no chance; whatever a decision depends on comes in as an argument.

pub mod audit;
pub mod change;
pub mod entry_key;
pub mod epoch;
pub mod freshness;
pub mod handoff_offer;
pub mod node_id;
pub mod pinned;
pub mod pool;
pub mod rebalance;
pub mod ring;
pub mod ring_points;
pub mod slot;
pub mod slot_hold;
pub mod tenure;
pub mod user_id;
pub mod write_steps;

pub use change::{ChangeId, Phase};
pub use entry_key::{EntryKey, KeyInvalid};
pub use epoch::Epoch;
pub use node_id::{NodeId, NodeIdInvalid, Weight, WeightInvalid};
pub use pinned::{PinnedUser, PinnedUsers};
pub use pool::{Pool, PoolInvalid};
pub use ring::{Member, Ring};
pub use slot::{PINNED_MAX, SLOT_COUNT, SLOTS_MAX, Slot};
pub use tenure::{Gained, Incarnation, Tenure};
pub use user_id::{UserId, UserIdInvalid};
