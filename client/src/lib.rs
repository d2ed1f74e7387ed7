//! Clients: [`NodeClient`] for the control plane of a node.

mod answer;
pub mod node_client;

pub use node_client::{ControlError, NodeClient};
