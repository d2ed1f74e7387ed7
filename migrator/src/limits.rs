//! How long and how often the migrator tries. Every wait of a change is bounded by one of these.

use std::time::Duration;

/// Connections to the database: one to work with, one that says a change is attended to, and one in reserve.
pub const DATABASE_CONNECTIONS: u32 = 3;
/// How long a node may take to seal and drain before the change is aborted: it bounds the write pause of a failed change.
pub const SEAL_WAIT: Duration = Duration::from_secs(10);
/// How long an old owner may take to confirm the flip before the change is left for `resume`.
pub const SETTLE_WAIT: Duration = Duration::from_secs(15);
/// How long one call of a node may take where an answer is due at once.
pub const CALL_WAIT: Duration = Duration::from_secs(2);
/// How many nodes are asked who their users are at the same time.
pub const NODES_ASKED_AT_ONCE: usize = 16;
/// How long a connection to the database, and then a statement, may take.
pub const DATABASE_WAIT: Duration = Duration::from_secs(3);
/// The pause between two tries of a call that may be repeated.
pub const RETRY_PAUSE: Duration = Duration::from_millis(200);
/// How often a statement that may be repeated is tried while the database does not answer.
pub const DATABASE_TRIES: u32 = 3;
/// How often the database is asked whether a node has registered.
pub const REGISTRATION_POLL: Duration = Duration::from_millis(200);
/// Connections of a failure controller: it looks, renews its term, and runs a change with its two, all at the same time.
pub const WATCH_CONNECTIONS: u32 = 4;
/// How long a controller's term lasts without a renewal: how long nobody leads after a leader has died.
pub const TERM_TTL: Duration = Duration::from_secs(3);
/// The pause between two renewals of the term: three may fail.
pub const TERM_PAUSE: Duration = Duration::from_millis(700);
/// How long a leader waits between two looks at the ring, and a controller that stands by between two tries to lead.
pub const LOOK_PAUSE: Duration = Duration::from_millis(500);
/// How soon after a look a hint of the database may cause the next.
pub const LOOK_PAUSE_MIN: Duration = Duration::from_millis(50);
/// Two looks further apart than this had an outage between them, or a frozen process: none of that time counts.
pub const LOOK_GAP_MAX: Duration = Duration::from_millis(1500);
/// How long a member must have been up before it gets slots again: one that starts and dies in a row should move nothing.
pub const READMIT_AFTER: Duration = Duration::from_secs(2);
/// Copying for a readmission pauses while 1 of 100 requests takes longer, as it does by default for an operator's change.
pub const READMIT_P99_MAX: Duration = Duration::from_millis(250);
/// How often a change whose migrator died is carried on before the flip, until it is aborted instead.
pub const CARRY_ON_TRIES: u32 = 3;
/// The pause after an errand's first failure; it doubles with each further one …
pub const ERRAND_PAUSE_MIN: Duration = Duration::from_secs(1);
/// … up to this.
pub const ERRAND_PAUSE_MAX: Duration = Duration::from_secs(30);
/// How long a controller that is to stop waits for the change it has under way: an abort takes milliseconds, and one that
/// has flipped is carried on by the next controller.
pub const ERRAND_STOP_WAIT: Duration = Duration::from_secs(3);
/// How long `watch --check` waits for the database: a health check must answer before it is given up itself.
pub const CHECK_WAIT: Duration = Duration::from_secs(2);
/// How long a controller that is to stop tries to give its term back, which otherwise runs out within [`TERM_TTL`].
pub const RELEASE_WAIT: Duration = Duration::from_secs(2);
/// How often the old owners are asked how far copying is: a change should not take longer than the copying does.
pub const COPY_POLL: Duration = Duration::from_millis(20);
/// How often leases, the journal and the nodes' load are looked at while copying.
pub const COPY_SURVEY: Duration = Duration::from_secs(1);
/// How long an answer may take while copying: nodes have it at hand, and one that hangs holds up the look at the others.
pub const COPY_CALL_WAIT: Duration = Duration::from_secs(1);
/// How long an old owner is not asked again after one of its streams broke: asking opens the next, and what broke the last
/// (a receiver that starts again) may need a moment to pass.
pub const REOPEN_PAUSE: Duration = Duration::from_secs(1);
/// How often a stream between the same two nodes may break before the change is given up.
pub const STREAM_BREAKS_MAX: usize = 3;
/// How long copying may go on without a byte more, pauses not counted, before the change is given up.
pub const COPY_STALL: Duration = Duration::from_secs(30);
/// How long an old owner may refuse to copy for a change: it learns of new changes by polling, which takes it a second.
pub const COPY_CONFLICT: Duration = Duration::from_secs(5);
/// How long the pauses of one copy may be together: a cluster that is over its bounds for longer will not let it end.
pub const COPY_PAUSES_MAX: Duration = Duration::from_secs(600);
/// How long copying goes on while the database does not say whether everybody is still there.
pub const DATABASE_SILENCE_MAX: Duration = Duration::from_secs(30);
/// The slowest rate that may be asked for: an entry of the largest size must pass in less than [`COPY_STALL`].
pub const COPY_RATE_MIN: u64 = 64 << 10;
/// How often a line of progress is printed while copying where there is no terminal.
pub const LINE_EVERY: Duration = Duration::from_secs(2);
/// How often a progress event is printed while copying.
pub const EVENT_EVERY: Duration = Duration::from_millis(500);
/// How long the word lasts that somebody attends to a change.
pub const ATTENDANCE_TTL: Duration = Duration::from_secs(5);
/// How often it is given: several may fail before it is over.
pub const ATTENDANCE_EVERY: Duration = Duration::from_secs(1);
/// The same from the first seal on. With the leader's next look ([`LOOK_PAUSE`]) it is well under the 3 s that nodes let a write
/// wait: who carries the change on of a migrator that died must come before those writes are refused.
pub const ATTENDANCE_TTL_SEALED: Duration = Duration::from_secs(1);
/// How often it is given then.
pub const ATTENDANCE_EVERY_SEALED: Duration = Duration::from_millis(250);
/// How often a takeover is planned anew when the ring moved under it.
pub const TAKE_OVER_TRIES: u32 = 5;
