//! A cache node: serves the entries of the slots it owns through L1 → L2 → origin, under the rules of `docs/PROTOCOL.md`.
//!
//! [`start`] runs one node; several may run in one process.

mod accounting;
mod audit;
mod clock;
mod config;
mod drain;
mod entry_name;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod handoff;
mod http;
#[cfg(test)]
mod interleavings;
mod key_guard;
mod l1;
mod l2;
mod lease;
mod limits;
mod line;
mod metrics;
mod node;
mod old_bugs;
mod origin_reads;
mod origin_writes;
mod ownership;
mod read_path;
mod renewals;
mod running;
mod sealing;
mod shared_trips;
mod slots;
mod write_path;

pub use config::{Config, DEFAULT_AUDIT_EVERY, RedisUrl, RedisUrlInvalid};
pub use drain::Drain;
#[cfg(feature = "old-bugs")]
pub use old_bugs::{OldBug, bring_back};
pub use running::start;
