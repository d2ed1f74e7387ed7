//! Every change of the ring: plans it, runs it through its four phases, carries it on or gives it up, and tells how it stands.

pub mod assign;
mod attendance;
pub mod change;
pub mod cli;
pub mod cluster_load;
mod contents;
pub mod copy_order;
pub mod driver;
pub mod exit;
pub mod forecast;
pub mod history;
pub mod init;
pub mod limits;
pub mod meter;
pub mod operator;
pub mod pace;
pub mod phases;
pub mod plan;
pub mod progress;
pub mod run;
pub mod status;
pub mod suggest;
pub mod summary;
pub mod take_over;
pub mod watch;

pub use exit::Failure;
pub use init::{Initialised, init};
pub use progress::Progress;
