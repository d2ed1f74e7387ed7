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
/// How long nodes that do not answer their health route may take together, asked because nobody else is left.
pub(crate) const SILENT_TRY: Duration = Duration::from_millis(600);
/// A node that had less time than this and did not answer is not blamed: the request had little left of its own.
pub(crate) const FAIR_TRY: Duration = Duration::from_secs(1);
/// How often the nodes are judged: a node that fails is passed by within that time.
pub(crate) const WATCH_EVERY: Duration = Duration::from_millis(500);
/// After how many reads in a row that another node answered first a node is probed.
pub(crate) const OUTRUN_MAX: u32 = 5;
/// A read is hedged after this time at the earliest: sooner, a second one could hardly win.
pub(crate) const HEDGE_MIN: Duration = Duration::from_millis(1);
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
/// The same where it takes a TLS handshake as well: two more round trips, and the work of both ends.
pub(crate) const CONNECT_TLS: Duration = Duration::from_millis(1000);
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
/// How many hops of `X-Forwarded-For` or `Forwarded` are looked at: no chain of proxies that are all ours is longer.
pub(crate) const FORWARDED_HOPS_MAX: usize = 32;
/// The longest token of a client, in bytes: nothing of a longer one is looked at.
pub(crate) const TOKEN_MAX_BYTES: usize = 8 << 10;
/// The largest file of keys or tokens, in bytes: it is read whole again and again.
pub(crate) const IDENTITY_FILE_MAX: u64 = 1 << 20;
/// How often files of keys and tokens are looked at.
pub(crate) const IDENTITY_FILE_EVERY: Duration = Duration::from_secs(2);
/// How many seconds the clock of whoever signs a token may be off.
pub(crate) const TOKEN_LEEWAY_S: u64 = 30;
/// How many sets of [`VERIFIED_WAYS`] verified tokens are remembered: 4096 tokens in all, each of some hundred bytes at most.
pub(crate) const VERIFIED_SETS: usize = 1024;
/// How many tokens one such set has.
pub(crate) const VERIFIED_WAYS: usize = 4;
/// How many lines of the access log may wait for their writer; what does not fit is dropped and counted.
pub(crate) const ACCESS_LOG_WAITING_MAX: usize = 8192;
/// How often the writer looks whether it is to end.
pub(crate) const ACCESS_LOG_LOOK: Duration = Duration::from_millis(200);
/// How long a stop waits for the lines that are left: whoever reads them may have stopped reading.
pub(crate) const ACCESS_LOG_END: Duration = Duration::from_secs(2);
/// How many buckets a rate limit has for users, and as many for clients: 1 MiB each. `rate::cells` says how many may be in use.
pub(crate) const RATE_CELLS: usize = 65_536;
/// How much of a body that is not wanted is read all the same, so that the connection can be used again: less than a new one costs.
pub(crate) const UNWANTED_BODY_MAX: u64 = 16 << 10;
/// How long such a body is waited for: it is here with its head, or the connection ends.
pub(crate) const UNWANTED_BODY_WAIT: Duration = Duration::from_millis(3);
/// How many requests a node is given at a time before anything is known of it, where the limit is adaptive.
pub(crate) const CONCURRENCY_FIRST: usize = 128;
/// The fewest: a node that answers in 2 ms can be given 8,000 requests/s with them.
pub(crate) const CONCURRENCY_MIN: usize = 16;
/// The most: as many questions as a line takes.
pub(crate) const CONCURRENCY_MAX: usize = 1024;
/// How long the answers are gathered from which the next limit follows.
pub(crate) const CONCURRENCY_WINDOW: Duration = Duration::from_millis(100);
/// How many answers there must be: the mean of fewer says little.
pub(crate) const CONCURRENCY_WINDOW_ANSWERS: u64 = 16;
/// How old the time of a node that is not busy may be, once it is busy, before it is looked for again.
pub(crate) const CONCURRENCY_BASE_MAX_AGE: Duration = Duration::from_secs(30);
/// One for how many places may wait: so the wait is about that part of the time that an answer takes.
pub(crate) const CONCURRENCY_QUEUE_SHARE: usize = 4;
/// How long: one that is refused should know it within 5 ms.
pub(crate) const CONCURRENCY_WAIT: Duration = Duration::from_millis(3);
/// How often the gateway looks how late its own tasks run, where the limit is adaptive.
pub(crate) const OWN_DELAY_EVERY: Duration = Duration::from_millis(5);
/// The longest delay that a fault drill puts before a request.
pub(crate) const FAULT_DELAY_MAX: Duration = Duration::from_secs(10);
/// How many rules a drill may have: each costs a look for each request.
pub(crate) const FAULT_RULES_MAX: usize = 32;
/// The longest time that a client may give its request by `X-Request-Timeout-Ms`.
pub(crate) const CLIENT_TIMEOUT_MAX: Duration = Duration::from_secs(60);
/// How much of a write's time is kept back from the node, at most: so that its answer "not executed" is here in time.
pub(crate) const TIMEOUT_MARGIN: Duration = Duration::from_millis(20);
