//! What can go wrong between us and the database. No text here holds a URL, password, SQL, key or value.

/// A read or a control statement that failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OriginError {
    /// No connection, or a broken one.
    #[error("the database cannot be reached: {0}")]
    Unreachable(&'static str),
    /// No answer in time.
    #[error("the database did not answer within its deadline")]
    Timeout,
    /// An answer, but an error (with its SQLSTATE or SQLite code).
    #[error("the database refused the statement ({code})")]
    Refused {
        /// SQLSTATE, or SQLite's extended result code.
        code: String,
    },
    /// The schema is not ours, too new, or locked by another for too long.
    #[error("the schema cannot be brought up to date: {0}")]
    Schema(String),
    /// Rows that no version of ours wrote.
    #[error("the database holds what it should not: {0}")]
    Corrupt(String),
}

/// A write that failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// Certainly not executed, and never will be.
    #[error("not executed: {0}")]
    NotExecuted(OriginError),
    /// Handed to the driver and no answer seen: it may land at any later time, once, or never (protocol W6).
    #[error("outcome unknown: {0}")]
    Unknown(OriginError),
}
