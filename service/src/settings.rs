//! Settings: what a flag or an environment variable may say, and what is said when it is wrong.

mod parse;
mod quantities;
mod token;

pub use parse::{parse_args, warn_unknown_variables};
pub use quantities::{ByteSize, HumanDuration, QuantityInvalid};
pub use token::{ClusterToken, ClusterTokenInvalid};

/// How logs look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// For people at a terminal.
    Pretty,
    /// One JSON object a line.
    Json,
}
