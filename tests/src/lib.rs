//! The test harness: real servers on loopback, owned by the test that starts them. Knows no crate of the workspace.

pub mod chaos;
pub mod checker;
pub mod clients;
pub mod cluster;
pub mod door;
pub mod fault_proxy;
pub mod history;
pub mod http;
pub mod linearizable;
pub mod poll;
pub mod postgres;
pub mod processes;
pub mod redis;
pub mod ring_change;
mod server_process;
pub mod stepped_clock;
