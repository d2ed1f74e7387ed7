//! The gateway: routes by `X-User-ID` over its copy of the versioned ring, to the node that owns the user's slot.

mod access_log;
mod admit;
mod answer_body;
mod client_address;
mod deadline;
mod faults;
mod follow_ring;
mod forward;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod gateway;
mod http;
mod identity;
mod limits;
mod metrics;
mod pass;
mod prebuilt;
mod rate;
mod redirect;
mod retry;
mod ring_view;
mod route_user;
mod shed;
mod upstream;

pub use access_log::{AccessLogKind, AccessLogSettings, LogHashKey};
pub use client_address::{ClientSettings, Networks, NetworksInvalid};
pub use faults::{FaultRules, FaultRulesInvalid, FaultSettings, Faults};
pub use gateway::{Config, start};
pub use identity::{Auth, AuthKind, ClaimRules, IdentitySettings, JwtAuth, KeySource};
pub use rate::{Quota, QuotaInvalid, RateSettings};
pub use redirect::redirect_to_https;
pub use route_user::{Keyless, KeylessInvalid};
pub use shed::{Concurrency, ConcurrencyInvalid, ShedSettings};
