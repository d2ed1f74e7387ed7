//! Logs: to stderr, one event a line, `RUST_LOG` honoured.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use crate::settings::LogFormat;

/// What is logged when `RUST_LOG` says nothing.
const DEFAULT_FILTER: &str = "info,sqlx=warn";

/// Starts logging: pretty on a terminal and JSON elsewhere, unless `format` says which.
///
/// Panics are logged too, as an error with their place. Calling it twice (as tests do) changes nothing the second time.
pub fn init(format: Option<LogFormat>) {
    let (filter, complaint) = filter(std::env::var("RUST_LOG").ok().as_deref());
    let format = format.unwrap_or(if std::io::stderr().is_terminal() { LogFormat::Pretty } else { LogFormat::Json });
    // A log that nobody reads any more must not end the program: complaining about it on the same stderr would panic.
    let builder =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).log_internal_errors(false);
    let installed = match format {
        LogFormat::Pretty => builder.with_ansi(std::io::stderr().is_terminal()).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).with_current_span(false).try_init(),
    };
    if installed.is_ok() {
        log_panics();
    }
    if let Some(complaint) = complaint {
        tracing::warn!("{complaint}");
    }
}

/// The filter, and what to say when the variable cannot be understood.
fn filter(variable: Option<&str>) -> (EnvFilter, Option<String>) {
    match variable.filter(|text| !text.trim().is_empty()).map(EnvFilter::try_new) {
        Some(Ok(filter)) => (filter, None),
        Some(Err(error)) => (
            EnvFilter::new(DEFAULT_FILTER),
            Some(format!("RUST_LOG is not a filter ({error}); using {DEFAULT_FILTER}")),
        ),
        None => (EnvFilter::new(DEFAULT_FILTER), None),
    }
}

/// A panic is a bug of ours: it must stand in the same log, in the same format, as all else.
fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let message = panic.payload_as_str().unwrap_or("");
        tracing::error!(place, message, "panic");
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rust_log_is_honoured_and_a_bad_one_falls_back_with_a_complaint() {
        let (given, complaint) = filter(Some("debug"));
        assert_eq!((given.to_string().as_str(), complaint), ("debug", None));
        let (fallback, complaint) = filter(Some("a=b=c"));
        assert!(fallback.to_string().contains("sqlx=warn"));
        assert!(complaint.is_some());
        assert!(filter(None).0.to_string().contains("info"));
    }

    #[test]
    fn starting_twice_is_harmless() {
        init(Some(LogFormat::Json));
        init(Some(LogFormat::Pretty));
    }
}
