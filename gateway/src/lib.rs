//! The gateway: routes by `X-User-ID` over its copy of the versioned ring, to the node that owns the user's slot.

mod access_log;
mod admit;
mod answer_body;
mod any_node;
mod balance;
mod client_address;
mod deadline;
mod faults;
mod follow_ring;
mod forward;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod gateway;
mod health;
mod hedge;
mod http;
mod identity;
mod limits;
mod metrics;
mod node_policy;
mod pass;
mod prebuilt;
mod rate;
mod redirect;
mod retry;
mod retry_budget;
mod ring_view;
mod route_user;
mod shed;
mod upstream;
mod user_hash;
mod users;

pub use access_log::{AccessLogKind, AccessLogSettings, LogHashKey};
pub use balance::Balance;
pub use client_address::{ClientSettings, Networks, NetworksInvalid};
pub use faults::{FaultRules, FaultRulesInvalid, FaultSettings, Faults};
pub use gateway::{Config, start};
pub use hedge::{Hedge, HedgeInvalid};
pub use identity::{Auth, AuthKind, ClaimRules, IdentitySettings, JwtAuth, KeySource};
pub use node_policy::{NodePolicy, Outlier};
pub use rate::{Quota, QuotaInvalid, RateSettings};
pub use redirect::redirect_to_https;
pub use route_user::{Keyless, KeylessInvalid};
pub use shed::{Concurrency, ConcurrencyInvalid, ShedSettings};
pub use users::{ShowUsers, UsersSettings};
