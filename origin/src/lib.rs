//! All SQL of the workspace: entries, slots with tenure, nodes with lease, ring epochs and ring changes.
//!
//! Postgres and SQLite side by side behind [`Origin`]; one conformance suite runs on both.

pub mod change_journal;
pub mod controller;
pub mod database_url;
pub mod entries;
pub mod error;
pub mod leases;
pub mod ring_ledger;
pub mod slots;

mod listing;
mod pool;
mod postgres;
mod rows;
mod schema;
mod sqlite;
mod verdict;

pub use change_journal::{AbortOutcome, BeginOutcome, ChangeRow, FlipOutcome, NewChange, SealedSlot};
pub use controller::{Control, ControllerRow, TakeOver, TakeOverOutcome, Term};
pub use database_url::{DatabaseUrl, DatabaseUrlInvalid};
pub use entries::{FencedWrite, ListRequest, Precondition, StoredEntry, WriteAnswer, WriteKind};
pub use error::{OriginError, WriteError};
pub use leases::{ClaimOutcome, NodeRow};
pub use ring_ledger::{EpochRow, InitOutcome, RingDigest, RingState};
pub use slots::{L2SpaceChange, SlotRow};

use std::time::Duration;

use placement::{ChangeId, EntryKey, Epoch, Incarnation, Member, NodeId, Pool, Ring, Slot, Tenure, UserId, Weight};
use wire::entries::EntryInfo;

/// The database behind a cluster.
///
/// Every method is one round trip in a fresh snapshot unless its docs say otherwise, and is bounded in time:
/// getting a connection by [`OpenOptions::acquire_timeout`], the statement by [`OpenOptions::statement_timeout`].
/// Nothing is ever sent twice (protocol A4).
#[derive(Clone, Debug)]
pub enum Origin {
    /// A Postgres primary.
    Postgres(postgres::PostgresOrigin),
    /// An SQLite file, shared by processes of one machine.
    Sqlite(sqlite::SqliteOrigin),
}

/// How to open the database.
#[derive(Clone, Copy, Debug)]
pub struct OpenOptions {
    /// The most connections of this process.
    pub max_connections: u32,
    /// How long to wait for a free or new connection.
    pub acquire_timeout: Duration,
    /// How long one statement may run.
    pub statement_timeout: Duration,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            max_connections: 16,
            acquire_timeout: Duration::from_millis(1000),
            statement_timeout: Duration::from_millis(2000),
        }
    }
}

/// Calls the same method of whichever database it is.
macro_rules! dispatch {
    ($self:ident, $method:ident ( $($arg:expr),* )) => {
        match $self {
            Origin::Postgres(origin) => origin.$method($($arg),*).await,
            Origin::Sqlite(origin) => origin.$method($($arg),*).await,
        }
    };
}

impl Origin {
    /// Prepares a pool; connects on first use, so that a node starts while the database is away. Never re-sends.
    pub fn open(url: &DatabaseUrl, options: OpenOptions) -> Result<Self, OriginError> {
        match url {
            DatabaseUrl::Postgres(url) => postgres::PostgresOrigin::open(url, options).map(Self::Postgres),
            DatabaseUrl::Sqlite(path) => sqlite::SqliteOrigin::open(path, options).map(Self::Sqlite),
        }
    }

    /// Brings the schema up to date; serialised across processes by a lock whose wait is bounded (30 s) and logged.
    pub async fn migrate(&self) -> Result<(), OriginError> {
        dispatch!(self, migrate())
    }

    /// [`Origin::migrate`], waiting for the database as long as it takes: in a fresh deployment it may come up last.
    pub async fn migrate_when_reachable(&self) -> Result<(), OriginError> {
        let mut said = false;
        loop {
            match self.migrate().await {
                Err(error) if error.may_pass() => {
                    if !said {
                        tracing::warn!(%error, "waiting for the database");
                        said = true;
                    }
                    tokio::time::sleep(Duration::from_millis(500)).await;
                }
                migrated => return migrated,
            }
        }
    }

    /// Closes all connections.
    pub async fn close(&self) {
        dispatch!(self, close())
    }

    /// Callers that wait for a connection (SQLite: jobs that wait for the writer) at this moment.
    pub fn waiting(&self) -> usize {
        match self {
            Self::Postgres(origin) => origin.waiting(),
            Self::Sqlite(origin) => origin.waiting(),
        }
    }

    /// The committed entry, or `None`.
    pub async fn read_entry(&self, user: &UserId, key: &EntryKey) -> Result<Option<StoredEntry>, OriginError> {
        dispatch!(self, read_entry(user, key))
    }

    /// The committed entries of many names, in order, all of one snapshot.
    pub async fn read_entries(&self, names: &[(&UserId, &EntryKey)]) -> Result<Vec<Option<StoredEntry>>, OriginError> {
        dispatch!(self, read_entries(names))
    }

    /// One page of a user's keys in byte order, after `request.after`, at most `request.limit`.
    pub async fn list_entries(&self, user: &UserId, request: &ListRequest) -> Result<Vec<EntryInfo>, OriginError> {
        dispatch!(self, list_entries(user, request))
    }

    /// The fenced write statement (protocol W3): commits only while the slot still has `write.tenure`.
    pub async fn write_entry(&self, write: &FencedWrite) -> Result<WriteAnswer, WriteError> {
        dispatch!(self, write_entry(write))
    }

    /// Whether the write may be one of [`Origin::put_together`]. Not on SQLite, whose writer commits in groups by itself.
    pub fn may_put_together(&self, write: &FencedWrite) -> bool {
        matches!(self, Self::Postgres(_)) && postgres::may_put_together(write)
    }

    /// [`Origin::write_entry`] of several writes of different entries in one statement, each under its own fence; in their
    /// order. `None`: not executed, for the tenure is another or is being changed; one by one it would be told which. An
    /// error is that of all.
    ///
    /// Only what [`Origin::may_put_together`] may be among them.
    pub async fn put_together(&self, writes: &[&FencedWrite]) -> Result<Vec<Option<WriteAnswer>>, WriteError> {
        match self {
            Self::Postgres(origin) => origin.put_together(writes).await,
            Self::Sqlite(_) => Ok(vec![None; writes.len()]),
        }
    }

    /// Registers the node if unknown, and takes a new incarnation with a lease once the old lease is over (protocol L4).
    pub async fn claim_node(
        &self,
        id: &NodeId,
        address: &str,
        weight: Weight,
        pool: &Pool,
        lease_ttl: Duration,
    ) -> Result<ClaimOutcome, OriginError> {
        dispatch!(self, claim_node(id, address, weight, pool, lease_ttl))
    }

    /// Heartbeat (protocol L1): `false` means fenced.
    pub async fn renew_lease(
        &self,
        id: &NodeId,
        incarnation: Incarnation,
        lease_ttl: Duration,
    ) -> Result<bool, OriginError> {
        dispatch!(self, renew_lease(id, incarnation, lease_ttl))
    }

    /// Clean stop (protocol L4): ends the lease at once. `false` means it was fenced already.
    pub async fn release_lease(&self, id: &NodeId, incarnation: Incarnation) -> Result<bool, OriginError> {
        dispatch!(self, release_lease(id, incarnation))
    }

    /// First step of a takeover (protocol L3a): ends incarnation `seen` of a node whose lease is over, so that its process
    /// can neither renew nor read the slot table any more. `false`: the lease holds, or the node has another incarnation.
    pub async fn fence_node(&self, id: &NodeId, seen: Incarnation) -> Result<bool, OriginError> {
        dispatch!(self, fence_node(id, seen))
    }

    /// Notes that the node wants to give its slots away and stop; a new claim takes it back. `false`: fenced.
    pub async fn announce_leaving(&self, id: &NodeId, incarnation: Incarnation) -> Result<bool, OriginError> {
        dispatch!(self, announce_leaving(id, incarnation))
    }

    /// Takes the controller's post for `ttl` if it is free: a new term.
    pub async fn take_control(&self, holder: &str, ttl: Duration) -> Result<Control, OriginError> {
        dispatch!(self, take_control(holder, ttl))
    }

    /// Lengthens the term to `ttl` from now and notes what the controller does. `false`: the post is another's.
    pub async fn keep_control(&self, term: Term, ttl: Duration, note: &str) -> Result<bool, OriginError> {
        dispatch!(self, keep_control(term, ttl, note))
    }

    /// Ends the term at once. `false`: the post is another's.
    pub async fn release_control(&self, term: Term) -> Result<bool, OriginError> {
        dispatch!(self, release_control(term))
    }

    /// Who has, or had last, the controller's post; `None`: nobody ever.
    pub async fn controller(&self) -> Result<Option<ControllerRow>, OriginError> {
        dispatch!(self, controller())
    }

    /// Takeover (protocol L3), one transaction: fences the node, aborts a change in 'copy' or 'sealed', gives the slots new
    /// tenures and gains at their new owners, and makes a new epoch with the change that it journals as 'done'.
    pub async fn take_over(&self, take_over: &TakeOver) -> Result<TakeOverOutcome, OriginError> {
        dispatch!(self, take_over(take_over))
    }

    /// Says that `operator` attends to the change for `ttl` from now. `false`: it is over.
    pub async fn attend_change(&self, change: ChangeId, operator: &str, ttl: Duration) -> Result<bool, OriginError> {
        dispatch!(self, attend_change(change, operator, ttl))
    }

    /// All registered nodes, sorted by name.
    pub async fn nodes(&self) -> Result<Vec<NodeRow>, OriginError> {
        dispatch!(self, nodes())
    }

    /// Table read (protocol T1): all slot rows, or `None` when this incarnation is no longer the node's: fenced.
    pub async fn read_slots(&self, me: &NodeId, incarnation: Incarnation) -> Result<Option<Vec<SlotRow>>, OriginError> {
        dispatch!(self, read_slots(me, incarnation))
    }

    /// RENEW (protocol R3) of one or more slots in one statement: each is renewed only while owned by `me` under exactly the
    /// tenure given; answers the rows renewed.
    pub async fn renew_tenure(
        &self,
        me: &NodeId,
        slots: &[(Slot, Tenure)],
        l2_space: &L2SpaceChange,
    ) -> Result<Vec<SlotRow>, OriginError> {
        dispatch!(self, renew_tenure(me, slots, l2_space))
    }

    /// A cheap mark of the ring's state: whoever holds the same digest has nothing to read.
    pub async fn ring_digest(&self) -> Result<RingDigest, OriginError> {
        dispatch!(self, ring_digest())
    }

    /// The whole ring in one snapshot; `None` before [`Origin::init_ring`].
    pub async fn ring_state(&self) -> Result<Option<RingState>, OriginError> {
        dispatch!(self, ring_state())
    }

    /// Makes epoch 1 with these owners (all members must be registered), unless a ring exists.
    pub async fn init_ring(&self, ring: &Ring) -> Result<InitOutcome, OriginError> {
        dispatch!(self, init_ring(ring))
    }

    /// All epochs, newest first, at most `limit`.
    pub async fn epochs(&self, limit: u32) -> Result<Vec<EpochRow>, OriginError> {
        dispatch!(self, epochs(limit))
    }

    /// Journals a new change in phase 'copy' (protocol C1), if none is active and the ring is still at its parent epoch.
    pub async fn begin_change(&self, change: &NewChange) -> Result<BeginOutcome, OriginError> {
        dispatch!(self, begin_change(change))
    }

    /// Phase 'copy' → 'sealed' with the seal list (protocol C5); `false` when the change is not in 'copy'.
    pub async fn record_seal(&self, change: ChangeId, seal: &[SealedSlot]) -> Result<bool, OriginError> {
        dispatch!(self, record_seal(change, seal))
    }

    /// The flip, one transaction (protocol C6).
    pub async fn flip_change(&self, change: ChangeId) -> Result<FlipOutcome, OriginError> {
        dispatch!(self, flip_change(change))
    }

    /// Gives a change up if it is in 'copy' or 'sealed' (protocol C9). `reason` is kept for the history.
    pub async fn abort_change(&self, change: ChangeId, reason: &str) -> Result<AbortOutcome, OriginError> {
        dispatch!(self, abort_change(change, reason))
    }

    /// Phase 'flipped' → 'done' (protocol C10); `false` when it was not 'flipped'.
    pub async fn finish_change(&self, change: ChangeId) -> Result<bool, OriginError> {
        dispatch!(self, finish_change(change))
    }

    /// One change by number.
    pub async fn change(&self, change: ChangeId) -> Result<Option<ChangeRow>, OriginError> {
        dispatch!(self, change(change))
    }

    /// The change in phase 'copy', 'sealed' or 'flipped', of which there is at most one.
    pub async fn active_change(&self) -> Result<Option<ChangeRow>, OriginError> {
        dispatch!(self, active_change())
    }

    /// Changes, newest first, at most `limit`.
    pub async fn changes(&self, limit: u32) -> Result<Vec<ChangeRow>, OriginError> {
        dispatch!(self, changes(limit))
    }

    /// The current epoch; 0 before [`Origin::init_ring`].
    pub async fn epoch(&self) -> Result<Epoch, OriginError> {
        Ok(self.ring_digest().await?.epoch)
    }

    /// Waits until the database says the ring has changed. A hint only: it may be missed, so always poll as well.
    /// Never returns on SQLite. Uses one connection of its own, and reconnects (bounded back-off) when it is lost.
    pub async fn ring_changed(&self) {
        dispatch!(self, ring_changed())
    }
}

/// The members of a ring as it stands in the ledger.
pub type Members = Vec<Member>;
