//! `bench-load`: a closed or paced loop over keep-alive connections, in one thread, cheaper than the servers it measures.

mod answer;
mod connection;
mod cpu;
mod draw;
mod options;
mod report;
mod request;
mod run;

pub use cpu::{TICKS_PER_SECOND, process_ticks};
pub use options::{Distribution, Method, Options};
pub use report::Report;
pub use run::run;
