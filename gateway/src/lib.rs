//! The gateway: routes by `X-User-ID` over its copy of the versioned ring, to the node that owns the user's slot.

mod admit;
mod answer_body;
mod deadline;
mod faults;
mod follow_ring;
mod forward;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod gateway;
mod http;
mod limits;
mod metrics;
mod pass;
mod prebuilt;
mod rate;
mod retry;
mod ring_view;
mod route_user;
mod shed;
mod upstream;

pub use faults::{FaultRules, FaultRulesInvalid, FaultSettings, Faults};
pub use gateway::{Config, start};
pub use rate::{Quota, QuotaInvalid, RateSettings};
pub use route_user::Keyless;
pub use shed::{Concurrency, ConcurrencyInvalid, ShedSettings};
