//! What every program of the product does alike: settings, logs, listening, stopping.

pub mod body;
pub mod fixed_counters;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
pub mod healthcheck;
pub mod http_date;
pub mod listen;
pub mod logging;
pub mod open_files;
pub mod program;
pub mod request_id;
pub mod request_metrics;
pub mod running;
pub mod settings;
pub mod stop;
pub mod timestamp;
pub mod tls;

pub use running::RunningServer;
