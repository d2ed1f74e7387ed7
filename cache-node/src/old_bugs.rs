//! Test only: old bugs, each brought back by taking one guard away, to show that it would be found (`docs/PROOF.md`).
//!
//! Without the feature `old-bugs` none can be back, and nothing of this is in the program. With it the program
//! `cache-node-old-bugs` brings back the one that `SHARDCACHE_OLD_BUG` names; each guard asks where it stands.

// Public for that program, which there is with the feature only.
#![cfg_attr(not(feature = "old-bugs"), allow(unreachable_pub))]

#[cfg(feature = "old-bugs")]
mod out_of_step;

#[cfg(feature = "old-bugs")]
pub(crate) use out_of_step::OutOfStep;

/// A bug that caches of this kind have had, by the guard that keeps it out.
#[derive(Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "old-bugs", derive(Debug, clap::ValueEnum))]
pub enum OldBug {
    /// A load that a write has overtaken fills L1 all the same: G5 without the guard.
    FillAfterInvalidate,
    /// A handoff stream is not told of writes, so that older copies arrive after them: C4 without W1's and W5's part.
    CopyOvertakesWrite,
    /// A sealed slot is served from L1 on, while its next owner may be writing: G1 without the seal.
    OwnerSwitchBeforeAcknowledgement,
    /// A void that failed or timed out is taken for done: W2 without R4.
    FailedDropTakenForDone,
    /// Entries of an earlier reign are served once the slot has come back: G1 without the tag.
    ReturningOwnersEntries,
    /// A read joins a load that began before the last write: G1 without comparing guard and reign.
    JoinOlderLoad,
    /// After a command that timed out an L2 session goes on, gives each command the reply to the one before it, and what is
    /// stored does not say for which key: R1 without the end of the session and its order, and an envelope without the key.
    LateReply,
}

/// Whether this bug is back.
#[cfg(not(feature = "old-bugs"))]
#[inline(always)]
pub(crate) const fn is_back(_: OldBug) -> bool {
    false
}

#[cfg(feature = "old-bugs")]
static BACK: std::sync::OnceLock<OldBug> = std::sync::OnceLock::new();

/// Whether this bug is back.
#[cfg(feature = "old-bugs")]
pub(crate) fn is_back(bug: OldBug) -> bool {
    BACK.get() == Some(&bug)
}

/// Brings a bug back for the rest of the process, and says so; one at most.
#[cfg(feature = "old-bugs")]
pub fn bring_back(bug: OldBug) {
    let bug = BACK.get_or_init(|| bug);
    tracing::error!(?bug, "THIS NODE IS WRONG ON PURPOSE: an old bug is back; it is for tests alone");
}
