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
    #[error("the database refused the statement ({code}{})", in_words(code))]
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

impl OriginError {
    /// Whether the same may succeed later with nothing done here: the database is away, has no room for one more session,
    /// or takes no writes just now, as while it is being failed over.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::Timeout => true,
            Self::Refused { code } => {
                matches!(code.as_str(), "53200" | "53300" | "25006" | "57P01" | "57P02" | "57P03")
            }
            Self::Schema(_) | Self::Corrupt(_) => false,
        }
    }

    /// Whether it may be one row's own, so that a statement over several rows may fail where most of them can be read.
    pub fn may_be_of_one_row(&self) -> bool {
        match self {
            Self::Refused { .. } | Self::Corrupt(_) => true,
            Self::Unreachable(_) | Self::Timeout | Self::Schema(_) => false,
        }
    }
}

/// What the commonest refusals mean, for an operator who does not know the codes by heart.
fn in_words(code: &str) -> &'static str {
    match code {
        "53100" => ": the disk is full",
        "53200" => ": out of memory",
        "53300" => ": too many connections",
        "25006" => ": it takes no writes, perhaps a standby",
        "42501" => ": the user lacks a privilege",
        "57P01" | "57P02" | "57P03" => ": it is stopping or starting",
        "13" => ": the disk or the file's size limit is full",
        "8" => ": the file is read-only",
        _ => "",
    }
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
