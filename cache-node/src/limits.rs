//! Every bound of the node in one place, each with its reason.

use std::time::Duration;

/// How long a write waits, unregistered, for a seal to end, a writer of the same key, or an unknown write of the slot.
/// Longer than a healthy ring change seals (tens of milliseconds), shorter than the gateway's whole deadline (5 s).
pub(crate) const WRITE_PARK: Duration = Duration::from_secs(3);
/// How long a registered write may try to get its L2 space and tenure in order before it gives up, not executed.
pub(crate) const WRITE_PREPARE: Duration = Duration::from_secs(4);
/// How many writes may wait for one key, in all stripes of the key together.
pub(crate) const WRITERS_WAITING_MAX: usize = 512;
/// How often a read may start again after a load that ended without an answer.
pub(crate) const READ_RESTARTS: usize = 3;
/// How long a lease in L2 lasts: longer than any load, short enough that a dead leader does not matter.
pub(crate) const L2_LEASE: Duration = Duration::from_secs(5);
/// How many audits may be in progress: a few of the connections to the database, however often a small `--audit-every` samples.
pub(crate) const AUDITS_IN_PROGRESS_MAX: usize = 4;
/// How long an audit waits for the origin: a healthy one answers in milliseconds, and a slow one has other work.
pub(crate) const AUDIT_ORIGIN: Duration = Duration::from_secs(1);
/// How long one L2 command, or one pipeline of look-ups, may take: a healthy server answers in under 1 ms.
pub(crate) const L2_COMMAND: Duration = Duration::from_millis(100);
/// How long connecting to an L2 server and learning its identity may take.
pub(crate) const L2_CONNECT: Duration = Duration::from_millis(500);
/// How many commands in a row an L2 server must refuse before it is passed by; one without an answer is enough.
pub(crate) const L2_BREAKER_FAILURES: u32 = 3;
/// How often an L2 server is probed: also how soon it is used again after it heals.
pub(crate) const L2_PROBE_EVERY: Duration = Duration::from_millis(500);
/// How long the next L2 session waits for commands of the last one, each bounded by [`L2_COMMAND`].
pub(crate) const L2_OLD_SESSION: Duration = Duration::from_millis(500);
/// How many slots get a new L2 space in one statement: bounds how many row locks one statement holds.
pub(crate) const RENEW_BATCH: usize = 128;
/// How many slots one pass over the L2 spaces hands to the renewals at most.
pub(crate) const L2_SPACES_PER_PASS: usize = 1024;
/// How long a slot stays sealed without a flip before the node itself aborts the change.
pub(crate) const SEAL_MAX: Duration = Duration::from_secs(15);
/// How long a seal waits for the writes in progress.
pub(crate) const SEAL_DRAIN: Duration = Duration::from_secs(8);
/// How many data-plane requests may be in progress; more are answered `overloaded`.
pub(crate) const REQUESTS_IN_PROGRESS_MAX: usize = 8192;
/// How many users have an account of what they cost; the largest are always among them. Some 400 KiB with the longest names.
pub(crate) const USER_COUNTERS: usize = 1024;
/// One of how many answers from L1 is counted, as that many: a look at the counters costs a tenth of such an answer.
pub(crate) const HITS_PER_SAMPLE: u32 = 16;
/// The most bytes of an entry that an answer at once copies: hardly more than the system call copies again.
pub(crate) const HIT_COPIED_MAX: usize = 16 << 10;
/// Room for the head of such an answer, beside long texts: else it grows as it is put together.
pub(crate) const HIT_HEAD: usize = 384;
/// How long a request body may take to arrive.
pub(crate) const BODY_DEADLINE: Duration = Duration::from_secs(10);
/// The largest control or multi-get body, in bytes: 256 keys of 1 KiB, escaped, fit.
pub(crate) const JSON_BODY_MAX: u64 = 2 * 1024 * 1024;
/// How many pipelines of look-ups may be under way to one L2 server: two, so that one is put together while the other is on its way;
/// the fewer, the more look-ups share one, which costs as much as all of them where few clients ask.
pub(crate) const L2_PIPELINES: usize = 2;
/// How many look-ups share a pipeline: all of one multi-get.
pub(crate) const L2_LOOK_UPS_PER_PIPELINE: usize = 256;
/// How many look-ups may wait for a pipeline: a healthy server takes them in a few; more go to the origin at once.
pub(crate) const L2_LOOK_UPS_WAITING_MAX: usize = 8192;
/// How many statements may be under way that read entries: a part of the connections, so that writes have the others.
pub(crate) const ORIGIN_READ_STATEMENTS: usize = 4;
/// How many reads of the origin share a statement: all of one multi-get.
pub(crate) const ORIGIN_READS_PER_STATEMENT: usize = 256;
/// How many reads of the origin may wait for a statement: as many as there may be requests in progress.
pub(crate) const ORIGIN_READS_WAITING_MAX: usize = 8192;
/// How long a read of the origin may take, the wait for a statement included: a wait for a connection and the longest statement.
pub(crate) const ORIGIN_READ: Duration = Duration::from_millis(3500);
/// How many writes may be under way that have a statement of their own; with more, what they share (a commit, a round trip) is
/// worth more than what each waits for it.
pub(crate) const ORIGIN_WRITES_ALONE: usize = 8;
/// How many statements may be under way that write entries together: the fewer, the more writes share a commit; two, so that
/// one is on its way while the other's is made durable.
pub(crate) const ORIGIN_WRITE_STATEMENTS: usize = 2;
/// How many writes share a statement: the longer it runs, the longer it keeps a change of their slots waiting.
pub(crate) const ORIGIN_WRITES_PER_STATEMENT: usize = 32;
/// How many writes may wait for a statement: as many as there may be requests in progress.
pub(crate) const ORIGIN_WRITES_WAITING_MAX: usize = 8192;
/// How long a write may wait for a statement; then it is not executed, as without a connection.
pub(crate) const ORIGIN_WRITE_WAIT: Duration = Duration::from_secs(1);
/// How many loads of one multi-get are put into L2 at the same time: bounds what is encoded beside the answer.
pub(crate) const MGET_REDEEMS: usize = 32;
/// The most bytes of one stored content type or cache control.
pub(crate) const STORED_HEADER_MAX: usize = 256;
/// How many bytes of frames a receiver lets one stream have on its way: enough for a gigabit over 8 ms.
pub(crate) const HANDOFF_WINDOW: u32 = 1 << 20;
/// How many bytes of copied entries wait in a stream's queue: the rest stays in L1 until there is room.
pub(crate) const HANDOFF_COPY_QUEUE: usize = 256 << 10;
/// From how many bytes of writes in a stream's queue on values stay behind: the receiver will load them.
pub(crate) const HANDOFF_VALUES_QUEUE: usize = 8 << 20;
/// How many bytes of writes may wait in a stream's queue before the stream is given up.
pub(crate) const HANDOFF_QUEUE_MAX: usize = 16 << 20;
/// How many bytes of frames are written at a time.
pub(crate) const HANDOFF_BATCH: usize = 64 << 10;
/// How often an idle stream says that it lives.
pub(crate) const HANDOFF_BEAT: Duration = Duration::from_secs(1);
/// How long a receiver waits for bytes: many beats.
pub(crate) const HANDOFF_SILENCE: Duration = Duration::from_secs(10);
/// How long an old owner waits for a reply: one largest value over a slow link.
pub(crate) const HANDOFF_REPLY: Duration = Duration::from_secs(30);
/// How long opening a stream may take.
pub(crate) const HANDOFF_CONNECT: Duration = Duration::from_secs(3);
/// How long a seal waits until the receivers have everything: writes wait as long; then they start cold.
pub(crate) const HANDOFF_END: Duration = Duration::from_secs(2);
/// How many streams a node receives at a time: more than one per old owner is a mistake.
pub(crate) const HANDOFFS_RECEIVED_MAX: usize = 256;
/// What a frame may hold beside the largest value, in bytes: names, headers, a list of 4096 slots.
pub(crate) const HANDOFF_FRAME_REST: usize = 512 << 10;
/// How many bytes of entries are looked up, and then sent together, before other tasks of the thread get their turn: some hundred
/// small ones, a fraction of a millisecond.
pub(crate) const HANDOFF_TURN_BYTES: u64 = 64 << 10;
/// How often in a second entries are copied under a bound on the rate: so often that nobody sees the copy come in pushes.
pub(crate) const HANDOFF_TURNS_PER_SECOND: u64 = 50;
/// For how many bytes of frames a receiver has room at a time, at least: as many as are written at a time.
pub(crate) const HANDOFF_READ: usize = HANDOFF_BATCH;
/// The most bytes of a stream's id.
pub(crate) const HANDOFF_ID_MAX: usize = 64;
/// How often a node that waits for its handoff looks whether it still makes sense to wait.
pub(crate) const HANDOFF_POLL: Duration = Duration::from_millis(250);
/// How many such looks in a row may go unanswered before the node stops waiting: one may fall into a reconnect.
pub(crate) const HANDOFF_LOOKS_UNANSWERED_MAX: u32 = 3;
/// How long a node serves on after its handoff: gateways that still hold the old ring get 421 and go to the new owner,
/// instead of a refused connection.
pub(crate) const HANDOFF_LINGER: Duration = Duration::from_millis(500);
/// How many lines may be open: a few from each thread of each gateway.
pub(crate) const LINES_MAX: usize = 4096;
/// How long the connection of a line may take to become one after the 101.
pub(crate) const LINE_OPEN: Duration = Duration::from_secs(3);
/// How long nothing may move on a line, in neither direction: a gateway beats every second.
pub(crate) const LINE_SILENCE: Duration = Duration::from_secs(10);
/// How many bytes of answers may wait for a gateway: from there on no question of the line is taken.
pub(crate) const LINE_OUT_MAX: usize = 256 << 10;
/// For how many bytes of questions there is room at a time, at least: some hundred.
pub(crate) const LINE_READ: usize = 32 << 10;
