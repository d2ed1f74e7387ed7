//! Every bound of the gateway in one place, each with its reason.

use std::time::Duration;

/// How long a read may take in all. Its tries are bounded by [`READ_TRY`].
pub(crate) const READ_DEADLINE: Duration = Duration::from_secs(3);
/// How long one node may take to begin its answer to a read, detached or not, before another is asked.
pub(crate) const READ_TRY: Duration = Duration::from_millis(1200);
/// How long a write may take in all: longer than a node parks it (3 s), so that the node's own answer comes through.
pub(crate) const WRITE_DEADLINE: Duration = Duration::from_secs(6);
/// How often a request goes again after 421, within its deadline.
pub(crate) const TRIES_MAX: u32 = 40;
/// After how many 421 in a row a read goes detached: the ring is in motion, the origin is not.
pub(crate) const READ_MISDIRECTED_MAX: u32 = 3;
/// How often a read goes again to its owner after a connection broke under it: a pooled one may have been closed just then.
pub(crate) const READ_BROKEN_MAX: u32 = 2;
/// How many nodes a detached read asks at most.
pub(crate) const DETACHED_TRIES: usize = 3;
/// The pause before a request goes again by a ring that has not changed, doubled up to [`RETRY_PAUSE_MAX`], jittered.
pub(crate) const RETRY_PAUSE_MIN: Duration = Duration::from_millis(10);
/// The longest such pause.
pub(crate) const RETRY_PAUSE_MAX: Duration = Duration::from_millis(200);
/// How long a request waits for a fresh ring.
pub(crate) const REFRESH_WAIT: Duration = Duration::from_secs(1);
/// How often the ring is polled.
pub(crate) const POLL_EVERY: Duration = Duration::from_millis(500);
/// How long connecting to a node may take: it is on the same network.
pub(crate) const CONNECT: Duration = Duration::from_millis(500);
/// How long an idle connection is kept: shorter than a node keeps its side, or a request could meet the close.
pub(crate) const IDLE_MAX: Duration = Duration::from_secs(20);
/// The most connections to one node.
pub(crate) const CONNECTIONS_PER_NODE: usize = 256;
/// How long a request waits for one of them.
pub(crate) const CONNECTION_WAIT: Duration = Duration::from_millis(500);
/// How long a node in doubt may take to answer its health route.
pub(crate) const PROBE: Duration = Duration::from_millis(800);
/// How often a node in doubt is probed.
pub(crate) const PROBE_EVERY: Duration = Duration::from_millis(250);
/// How long a node may send nothing in the middle of an answer: it has the whole value in memory when it begins.
pub(crate) const ANSWER_PAUSE: Duration = Duration::from_secs(5);
/// How long a request body may take to arrive.
pub(crate) const BODY_DEADLINE: Duration = Duration::from_secs(10);
/// The largest multi-get body, in bytes: 256 keys of 1 KiB, escaped, fit.
pub(crate) const MGET_BODY_MAX: u64 = 2 * 1024 * 1024;
/// How many requests for the users that cost most may be in progress: each asks every node.
pub(crate) const USERS_TOP_IN_PROGRESS: usize = 4;
/// How many nodes are asked for their users at the same time.
pub(crate) const USERS_TOP_ASKED_AT_ONCE: usize = 16;
/// How long all of them together may take to answer that.
pub(crate) const USERS_TOP_DEADLINE: Duration = Duration::from_secs(2);
/// The most bytes of such an answer: 100 users with the longest names take half of it.
pub(crate) const USERS_TOP_ANSWER_MAX: usize = 128 << 10;
/// How many data-plane requests may be in progress; more are answered `overloaded`.
pub(crate) const REQUESTS_IN_PROGRESS_MAX: usize = 8192;
/// The most lines to one node: one for each thread, as far as that goes. More would share fewer writes.
pub(crate) const LINES_PER_NODE: usize = 8;
/// How long opening a line may take; requests go by the pool meanwhile.
pub(crate) const LINE_OPEN: Duration = Duration::from_secs(1);
/// How long after a line has ended, or could not be opened, the next is tried.
pub(crate) const LINE_PAUSE: Duration = Duration::from_millis(500);
/// How long after a node refused a line it is asked for one again: it may have been upgraded.
pub(crate) const LINE_PAUSE_REFUSED: Duration = Duration::from_secs(10);
/// How many bytes of questions may wait for a node that does not take them: from there on they go by the pool.
pub(crate) const LINE_OUT_MAX: usize = 256 << 10;
/// For how many bytes of answers there is room at a time, at least: some hundred small ones.
pub(crate) const LINE_READ: usize = 64 << 10;
/// How often a line looks who has waited too long: so much later than at the deadline a read may give up.
pub(crate) const LINE_TICK: Duration = Duration::from_millis(50);
/// The same while nobody waits.
pub(crate) const LINE_TICK_IDLE: Duration = Duration::from_millis(250);
/// After how long without a sign of the node one is asked for.
pub(crate) const LINE_BEAT: Duration = Duration::from_secs(1);
/// How long a node may give no sign before the line is given up: longer than a read waits, which asks elsewhere then.
pub(crate) const LINE_SILENCE: Duration = Duration::from_secs(3);
/// How long an answer may be missing after it is waited for no longer: its place is taken all the time. Longer than a node works
/// on any read.
pub(crate) const LINE_OVERDUE: Duration = Duration::from_secs(10);
