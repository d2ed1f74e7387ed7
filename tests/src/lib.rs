//! The test harness: real servers on loopback, owned by the test that starts them. Knows no crate of the workspace.

pub mod cluster;
pub mod fault_proxy;
pub mod http;
pub mod poll;
pub mod postgres;
pub mod processes;
pub mod redis;
mod server_process;
