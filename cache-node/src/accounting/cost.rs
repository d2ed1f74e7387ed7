//! What a request costs the node, by a model: a fixed time for each thing done.
//!
//! Not measured: a thread's CPU clock is a system call, a third of what an answer from L1 costs in all, and would not see what
//! other threads do for a request; the time that passes has waits in it. The figures are CPU times of the node from
//! `docs/MEASUREMENTS.md`, rounded (P1: a hit at 256 B and 4 KiB; P4: a hit in L2; P6: a write). They tell users of one node
//! apart; they are no bill.

/// What was done, and what it costs. Sums saturate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Amount {
    pub(super) requests: u64,
    /// Of bodies, in both directions.
    pub(super) bytes: u64,
    pub(super) cost_ns: u64,
}

/// Work beyond taking a request in and answering it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// A read that joined another's load.
    Joined,
    /// A read that L2 answered.
    L2Read,
    /// A read of the origin: of an entry, or a page of the list.
    OriginRead,
    /// A write, whatever its outcome.
    Write,
}

const REQUEST_NS: u64 = 6_000;
const KIB_NS: u64 = 300;
const JOINED_NS: u64 = 2_000;
const L2_READ_NS: u64 = 10_000;
const ORIGIN_READ_NS: u64 = 40_000;
const WRITE_NS: u64 = 40_000;

impl Amount {
    /// One request whose bodies have so many bytes.
    pub(super) fn of_request(bytes: u64) -> Self {
        let cost_ns = REQUEST_NS.saturating_add(bytes.saturating_mul(KIB_NS) / 1024);
        Self { requests: 1, bytes, cost_ns }
    }

    pub(super) fn of_work(work: Work) -> Self {
        let cost_ns = match work {
            Work::Joined => JOINED_NS,
            Work::L2Read => L2_READ_NS,
            Work::OriginRead => ORIGIN_READ_NS,
            Work::Write => WRITE_NS,
        };
        Self { cost_ns, ..Self::default() }
    }

    pub(super) fn times(self, factor: u64) -> Self {
        Self {
            requests: self.requests.saturating_mul(factor),
            bytes: self.bytes.saturating_mul(factor),
            cost_ns: self.cost_ns.saturating_mul(factor),
        }
    }

    pub(super) fn add(&mut self, more: Self) {
        self.requests = self.requests.saturating_add(more.requests);
        self.bytes = self.bytes.saturating_add(more.bytes);
        self.cost_ns = self.cost_ns.saturating_add(more.cost_ns);
    }

    pub(super) fn halve(&mut self) {
        *self = Self { requests: self.requests / 2, bytes: self.bytes / 2, cost_ns: self.cost_ns / 2 };
    }
}
