//! A whole cluster in one process: a gateway, its cache nodes and a failure controller, on an SQLite file unless a
//! database is given.
//!
//! [`start`] returns once requests are served; [`Running::stopped`] ends the controller first, then drains the gateway, then
//! the nodes.

pub mod banner;
pub mod cluster;
pub mod config;
pub mod leases;
mod probe;

pub use cluster::{Running, StartedNode, start};
pub use config::Config;
