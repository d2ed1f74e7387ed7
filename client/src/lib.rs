//! Clients: [`Client`] for the data plane of a gateway, [`NodeClient`] for the control plane of a node; and the load
//! generator that checks what it reads.

mod answer;
pub mod gateway_client;
pub mod load;
pub mod node_client;
#[cfg(test)]
mod scripted_peer;
pub mod tier;

pub use gateway_client::{Client, ClientError};
pub use node_client::{ControlError, NodeClient};
