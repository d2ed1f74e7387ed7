//! Every bound of the suite in one place, each with its reason.

use std::ops::Range;
use std::time::Duration;

/// How long a server may take to get ready: it may have to wait for the lease of its last process on a busy machine.
pub(crate) const READY: Duration = Duration::from_secs(30);
/// How long a stopped server may take to end before it is killed: the default drain of 10 s, and half as much again.
pub(crate) const STOP: Duration = Duration::from_secs(15);
/// How often a server that starts is looked at.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(2);
/// How long one answer to the runner itself (metrics, health, a fill of a peer) may take.
pub(crate) const ANSWER: Duration = Duration::from_secs(10);
/// How long an auxiliary command (`psql`, `initdb`, `xz`, a verb of the migrator) may take: the slowest inserts a million rows.
pub(crate) const COMMAND: Duration = Duration::from_secs(240);
/// How much longer than its own length a run of the load generator may take: for connecting and the last answers.
pub(crate) const LOAD_SLACK: Duration = Duration::from_secs(30);
/// How long a run that has a number of requests instead of a length may take: a fill with a million entries.
pub(crate) const FILL: Duration = Duration::from_secs(240);
/// Ports of servers: below Linux's `ip_local_port_range`, which begins with 32768, so that no outgoing connection is given one.
pub(crate) const PORTS: Range<u16> = 21_000..22_000;
/// The longest answer that the load generator takes, head and body: 256 values of 4 KiB in base64 fit.
pub(crate) const ANSWER_MAX_BYTES: usize = 4 << 20;
/// After how many failed requests a run is given up: its figures would be worth nothing.
pub(crate) const ERRORS_MAX: u64 = 10_000;
/// The latency that the histogram ends with.
pub(crate) const LATENCY_MAX_NS: u64 = 60_000_000_000;
