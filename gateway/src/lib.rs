//! The gateway: routes by `X-User-ID` over its copy of the versioned ring, to the node that owns the user's slot.

mod admit;
mod answer_body;
mod follow_ring;
mod forward;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod gateway;
mod http;
mod limits;
mod metrics;
mod retry;
mod ring_view;
mod route_user;
mod upstream;
mod users;

pub use gateway::{Config, start};
pub use route_user::Keyless;
pub use users::{ShowUsers, UsersSettings};
