//! The gateway: routes by `X-User-ID` over its copy of the versioned ring, to the node that owns the user's slot.

mod admit;
mod answer_body;
mod any_node;
mod balance;
mod follow_ring;
mod forward;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod gateway;
mod health;
mod hedge;
mod http;
mod limits;
mod metrics;
mod node_policy;
mod retry;
mod retry_budget;
mod ring_view;
mod route_user;
mod upstream;

pub use balance::Balance;
pub use gateway::{Config, start};
pub use hedge::{Hedge, HedgeInvalid};
pub use node_policy::{NodePolicy, Outlier};
pub use route_user::Keyless;
