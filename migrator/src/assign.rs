//! `assign-user`: brings users to a pool, one ring change each.

use std::path::{Path, PathBuf};

use placement::{PINNED_MAX, Pool, UserId};
use serde::Serialize;
use service::stop;
use tokio_util::sync::CancellationToken;

use crate::change::{self, Asked};
use crate::copy_order::CopyOrder;
use crate::exit::Failure;
use crate::phases::Tools;
use crate::plan::{PlanRefused, Verb};

/// The largest file of users, in bytes: as many as can be pinned, each as long as an id can be.
const FILE_MAX: u64 = (PINNED_MAX * 258) as u64;

/// Whom to bring where.
#[derive(Clone, Debug)]
pub struct Assignment {
    /// The users, in this order.
    pub users: Vec<UserId>,
    /// Where to.
    pub pool: Pool,
    /// How to copy what L1 holds of them.
    pub copy: CopyOrder,
}

/// What was done.
#[derive(Clone, Debug, Serialize)]
pub struct Assigned {
    /// Always `done`.
    pub outcome: &'static str,
    /// The pool.
    pub pool: Pool,
    /// Users that were brought there.
    pub moved: usize,
    /// Users that were there already.
    pub already_there: usize,
    /// Entries copied.
    pub copied_entries: u64,
    /// The longest that writes of one user's home slot waited, in milliseconds.
    pub longest_write_pause_ms: Option<u64>,
}

impl Assigned {
    /// For people.
    pub fn text(&self) -> String {
        let already = if self.already_there == 0 {
            String::new()
        } else {
            format!(", {} were there already", self.already_there)
        };
        let pause =
            self.longest_write_pause_ms.map_or_else(String::new, |ms| format!("; writes waited at most {ms} ms"));
        format!(
            "{} moved to pool {}{already}; {} entries copied{pause}",
            users(self.moved),
            self.pool,
            self.copied_entries
        )
    }
}

fn users(count: usize) -> String {
    if count == 1 { "1 user".to_owned() } else { format!("{count} users") }
}

/// Moves one after the other, until one fails: those before it stay moved.
pub async fn run(tools: &Tools, assignment: &Assignment) -> Result<Assigned, Failure> {
    let stop: CancellationToken = stop::on_signals();
    let mut assigned = Assigned {
        outcome: "done",
        pool: assignment.pool.clone(),
        moved: 0,
        already_there: 0,
        copied_entries: 0,
        longest_write_pause_ms: None,
    };
    for user in &assignment.users {
        let verb = Verb::AssignUser { user: user.clone(), pool: assignment.pool.clone() };
        let asked = Asked { verb, wait: std::time::Duration::ZERO, at_epoch: None, copy: assignment.copy };
        match change::run(tools, &asked, stop.clone()).await {
            Ok(summary) => {
                assigned.moved += 1;
                assigned.copied_entries += summary.copied_entries;
                assigned.longest_write_pause_ms = assigned.longest_write_pause_ms.max(summary.write_pause_ms);
            }
            Err(Failure::Refused(PlanRefused::AlreadyInPool(_))) => assigned.already_there += 1,
            Err(failure) => {
                if assigned.moved > 0 {
                    tools.progress.note(&format!("{} moved before this one", users(assigned.moved)));
                }
                return Err(failure);
            }
        }
    }
    Ok(assigned)
}

/// The users of a file, one a line; blank lines count for nothing.
pub fn read_users(file: &Path) -> Result<Vec<UserId>, Failure> {
    let wrong = |what: String| Failure::Usage(format!("{}: {what}", file.display()));
    let size = std::fs::metadata(file).map_err(|error| wrong(error.to_string()))?.len();
    if size > FILE_MAX {
        return Err(wrong(format!("it is larger than {PINNED_MAX} users can be")));
    }
    let text = std::fs::read(file).map_err(|error| wrong(error.to_string()))?;
    let lines =
        text.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii).enumerate().filter(|(_, line)| !line.is_empty());
    let parsed = lines
        .map(|(number, line)| UserId::parse(line).map_err(|invalid| wrong(format!("line {}: {invalid}", number + 1))));
    let users: Vec<UserId> = parsed.collect::<Result<_, _>>()?;
    match users.len() {
        0 => Err(wrong("it names no user".to_owned())),
        count if count > PINNED_MAX => Err(wrong(format!("it names {count} users; {PINNED_MAX} can be pinned"))),
        _ => Ok(users),
    }
}

/// The users that the command line names: one, or those of a file.
pub fn users_of(user: Option<UserId>, file: Option<PathBuf>) -> Result<Vec<UserId>, Failure> {
    match (user, file) {
        (Some(user), _) => Ok(vec![user]),
        (None, Some(file)) => read_users(&file),
        (None, None) => Err(Failure::Usage("name a user, or a --file of users".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[u8]) -> Result<Vec<String>, String> {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), text).expect("written");
        let users = read_users(file.path()).map_err(|failure| failure.to_string())?;
        Ok(users.into_iter().map(String::from).collect())
    }

    #[test]
    fn a_file_names_a_user_a_line_and_says_which_line_is_wrong() {
        assert_eq!(read(b"ada\n\n  bob \r\n#1\n"), Ok(vec!["ada".to_owned(), "bob".to_owned(), "#1".to_owned()]));
        assert!(read(b"ada\nb ob\n").expect_err("a blank within").contains("line 2"));
        assert!(read(b"\n\n").is_err());
        assert!(read(&b"u\n".repeat(PINNED_MAX + 1)).is_err());
        assert!(read_users(Path::new("/nonexistent/users")).is_err());
    }
}
