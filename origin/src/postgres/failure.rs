//! What a driver error means: for a read, for a write, and for the connection it came on (protocol B9).

use sqlx::postgres::{PgDatabaseError, PgSeverity};

use crate::error::{OriginError, WriteError};

/// The statement was cancelled by `statement_timeout` (or by an operator).
const QUERY_CANCELED: &str = "57014";
/// Errors after which the session is of no use though the server said no more than ERROR: its prepared statements no
/// longer fit (the schema changed, a proxy swapped servers), or the server has become read-only.
const SESSION_IS_STALE: [&str; 4] = ["0A000", "26000", "08P01", "25006"];

fn database_error(error: &sqlx::Error) -> Option<&PgDatabaseError> {
    match error {
        sqlx::Error::Database(error) => error.try_downcast_ref::<PgDatabaseError>(),
        _ => None,
    }
}

/// Whether the server has certainly not executed the statement: a plain ERROR rolls it back and is the last word. A FATAL
/// or PANIC (57P01 at shutdown, 57P02 at a crash) may follow a commit; class 08 and 40003 say that they do not know.
fn is_clean(error: &PgDatabaseError) -> bool {
    let code = error.code();
    error.severity() == PgSeverity::Error && !code.starts_with("08") && !code.starts_with("57P") && code != "40003"
}

/// The error of a read or control statement.
pub(super) fn of_statement(error: &sqlx::Error) -> OriginError {
    if let Some(error) = database_error(error) {
        return match error.code() {
            QUERY_CANCELED => OriginError::Timeout,
            "3D000" => OriginError::Unreachable("the server has no such database"),
            "53300" => OriginError::Unreachable("the server has no connection left"),
            "57P03" => OriginError::Unreachable("the server is starting or stopping"),
            code if code.starts_with("28") => OriginError::Unreachable("the server refused the login"),
            _ if !is_clean(error) => OriginError::Unreachable("the server ended the session"),
            code => OriginError::Refused { code: code.to_owned() },
        };
    }
    match error {
        sqlx::Error::Io(_) => OriginError::Unreachable("connection lost or refused"),
        sqlx::Error::Tls(_) => OriginError::Unreachable("TLS is asked for but cannot be had"),
        sqlx::Error::Protocol(_) => OriginError::Unreachable("the server's answer makes no sense"),
        sqlx::Error::Configuration(_) => OriginError::Unreachable("the connection settings are not valid"),
        sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) | sqlx::Error::ColumnNotFound(_) => {
            OriginError::Corrupt("a row of another shape".to_owned())
        }
        _ => OriginError::Unreachable("the driver failed"),
    }
}

/// The error of a write that was handed to the driver.
pub(super) fn of_write(error: &sqlx::Error) -> WriteError {
    let clean = match error {
        sqlx::Error::Database(_) => database_error(error).is_some_and(is_clean),
        // The arguments could not be written down: nothing was sent.
        sqlx::Error::Encode(_) => true,
        _ => false,
    };
    let why = of_statement(error);
    if clean { WriteError::NotExecuted(why) } else { WriteError::Unknown(why) }
}

/// Whether the connection may be used after this error.
pub(super) fn connection_survives(error: &sqlx::Error) -> bool {
    database_error(error).is_some_and(|error| is_clean(error) && !SESSION_IS_STALE.contains(&error.code()))
}

/// Whether it is the unique index saying no.
pub(super) fn is_unique_violation(error: &OriginError) -> bool {
    matches!(error, OriginError::Refused { code } if code == "23505")
}
