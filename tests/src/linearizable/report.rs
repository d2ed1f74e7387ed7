//! A violation for people: a few lines for the terminal, and files to look into.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Violation, Wrong, picture};
use crate::history::Operation;

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoOrder => "no order of the operations explains what was read",
            Self::NotWritten => "a value was read that no write can have left there",
            Self::TwoValues => "one version came with two values",
            Self::TwoVersions => "one value came with two versions",
            Self::VersionFell => "a version is not newer than one seen before",
            Self::Undecided => "not decided within the bound of steps: nothing is known of the key",
        })
    }
}

/// What is wrong, and the minimal history, one line an operation.
impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "key {}", self.key)?;
        if let Some(name) = &self.name {
            write!(f, " (user {}, entry {})", name.user, name.key)?;
        }
        writeln!(f, ": {}; {} of its {} operations show it", self.wrong, self.minimal.len(), self.operations.len())?;
        f.write_str(&table(&self.minimal))
    }
}

impl Violation {
    /// Writes `history.txt` (every operation on the key, the minimal ones marked) and `timeline.svg` to `dir/seed/`;
    /// the path of that directory.
    ///
    /// # Errors
    /// When the files cannot be written.
    pub fn save(&self, dir: &Path, seed: u64) -> io::Result<PathBuf> {
        let dir = dir.join(seed.to_string());
        std::fs::create_dir_all(&dir)?;
        let text = format!("seed {seed}\n{self}\nall operations on the key:\n{}", table(&self.operations));
        std::fs::write(dir.join("history.txt"), text)?;
        std::fs::write(dir.join("timeline.svg"), picture::timeline(self, seed))?;
        Ok(dir)
    }
}

/// Milliseconds to the microsecond.
pub(super) fn ms(time: Duration) -> String {
    format!("{:.3}", time.as_secs_f64() * 1000.0)
}

fn table(operations: &[Operation]) -> String {
    let mut text = format!("{:>8}{:>14}{:>14}  operation\n", "client", "begun ms", "ended ms");
    for operation in operations {
        let ended = operation.settled().map_or_else(|| "open".to_owned(), ms);
        text += &format!("{:>8}{:>14}{ended:>14}  {operation}\n", operation.client, ms(operation.begun));
    }
    text
}
