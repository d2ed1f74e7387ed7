//! What an SQLite error means.

use crate::error::{OriginError, WriteError};

const BUSY: i32 = 5;
const LOCKED: i32 = 6;
const CANTOPEN: i32 = 14;
const NOTADB: i32 = 26;

/// The primary result code.
fn primary_code(error: &sqlx::Error) -> Option<i32> {
    let extended: i32 = error.as_database_error()?.code()?.parse().ok()?;
    Some(extended & 0xff)
}

/// Another connection holds the lock: nothing has happened.
pub(super) fn is_busy(error: &sqlx::Error) -> bool {
    matches!(primary_code(error), Some(BUSY | LOCKED))
}

/// The error of a statement.
pub(super) fn of_statement(error: &sqlx::Error) -> OriginError {
    match (error, primary_code(error)) {
        (_, Some(BUSY | LOCKED)) => OriginError::Timeout,
        (_, Some(CANTOPEN)) => OriginError::Unreachable("the database file cannot be opened"),
        (_, Some(NOTADB)) => OriginError::Corrupt("the file is not an SQLite database".to_owned()),
        (sqlx::Error::Database(error), _) => {
            OriginError::Refused { code: error.code().map_or_else(String::new, |code| code.into_owned()) }
        }
        (sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) | sqlx::Error::ColumnNotFound(_), _) => {
            OriginError::Corrupt("a row of another shape".to_owned())
        }
        (sqlx::Error::Io(_), _) => OriginError::Unreachable("the database file cannot be read"),
        _ => OriginError::Unreachable("the driver failed"),
    }
}

/// The error of a COMMIT. Busy: nothing was written. Any other may come after the commit record reached the file, where a
/// recovery would find it.
pub(super) fn of_commit(error: &sqlx::Error) -> WriteError {
    let why = of_statement(error);
    if is_busy(error) { WriteError::NotExecuted(why) } else { WriteError::Unknown(why) }
}
