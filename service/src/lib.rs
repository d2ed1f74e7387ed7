//! What every program of the product does alike: settings, logs, listening, stopping.

pub mod answer_body;
pub mod body;
pub mod fixed_counters;
pub mod healthcheck;
pub mod listen;
pub mod logging;
pub mod open_files;
pub mod program;
pub mod request_id;
pub mod request_metrics;
pub mod running;
pub mod settings;
pub mod stop;

pub use answer_body::AnswerBody;
pub use running::RunningServer;
