//! What no log of a run may say, whatever the faults.

/// A thread has panicked.
pub const PANIC: &str = "panicked";

/// An audit has found a wrong entry (protocol U2): the nodes' own judgement, beside those of history and tiers.
pub const WRONG_ENTRY: &str = "audit: a cached entry is not what the database has";
