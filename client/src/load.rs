//! The load generator: an open loop of reads and writes through a gateway, every body checked.
//!
//! `options` says what is asked for, `workload` and `trace` which keys, `arrivals` when, `value` and `register` what a read
//! may return, `run` does it, `tally` counts and `report` prints.

mod arrivals;
mod options;
mod register;
mod report;
mod run;
mod tally;
mod trace;
mod value;
mod workload;

pub use options::Options;
pub use report::Report;
pub use run::{LoadError, run};
