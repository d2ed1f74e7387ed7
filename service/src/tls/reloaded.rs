//! Something made of files, and made anew when they change.

use std::fmt;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::Read;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use anyhow::{Context, ensure};

/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// The largest file: many times a long chain.
const FILE_MAX_BYTES: u64 = 1 << 20;

/// What the files hold, in their order.
type Contents = Vec<Vec<u8>>;

type Make<T> = Box<dyn Fn(&Contents) -> anyhow::Result<T> + Send + Sync>;

/// The newest `T` that could be made of the files.
pub(super) struct Reloaded<T> {
    files: Vec<PathBuf>,
    make: Make<T>,
    state: Mutex<State<T>>,
    hasher: RandomState,
}

struct State<T> {
    current: Arc<T>,
    /// Of the contents looked at last, whether or not something could be made of them.
    seen: u64,
}

/// What a look at the files came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Looked {
    /// They are as they were.
    Same,
    /// Another `T` is in force.
    Renewed,
    /// Nothing can be made of them: the old `T` stays.
    Refused,
}

impl<T: Send + Sync + 'static> Reloaded<T> {
    /// Reads the files and makes the first `T`; the error names the file. Looks at the files from then on, inside a runtime,
    /// as long as anybody has the result.
    pub(super) fn load(
        files: Vec<PathBuf>,
        make: impl Fn(&Contents) -> anyhow::Result<T> + Send + Sync + 'static,
    ) -> anyhow::Result<Arc<Self>> {
        let hasher = RandomState::new();
        let contents = read(&files)?;
        let (current, seen) = (Arc::new(make(&contents)?), hasher.hash_one(&contents));
        let state = Mutex::new(State { current, seen });
        let this = Arc::new(Self { files, make: Box::new(make), state, hasher });
        tokio::spawn(look_while_used(Arc::downgrade(&this)));
        Ok(this)
    }

    /// What is in force.
    pub(super) fn current(&self) -> Arc<T> {
        Arc::clone(&self.state().current)
    }

    /// Looks at the files once. What cannot be used is told once in the log: the two files of a pair are seldom replaced in the
    /// same moment.
    pub(super) fn look(&self) -> Looked {
        let contents = read(&self.files);
        let seen = contents.as_ref().map_or(0, |contents| self.hasher.hash_one(contents));
        if std::mem::replace(&mut self.state().seen, seen) == seen {
            return Looked::Same;
        }
        match contents.and_then(|contents| (self.make)(&contents)) {
            Ok(made) => {
                self.state().current = Arc::new(made);
                tracing::info!(files = ?self.files, "certificates have changed and are in force");
                Looked::Renewed
            }
            Err(error) => {
                let error = format!("{error:#}");
                tracing::warn!(files = ?self.files, error, "certificates have changed and cannot be used: the old stay");
                Looked::Refused
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> fmt::Debug for Reloaded<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reloaded").field("files", &self.files).finish_non_exhaustive()
    }
}

fn read(files: &[PathBuf]) -> anyhow::Result<Contents> {
    let read = |path: &PathBuf| {
        let mut content = Vec::new();
        let file = File::open(path);
        file.and_then(|file| file.take(FILE_MAX_BYTES + 1).read_to_end(&mut content))
            .with_context(|| format!("{} cannot be read", path.display()))?;
        ensure!(content.len() as u64 <= FILE_MAX_BYTES, "{} is over {FILE_MAX_BYTES} bytes", path.display());
        Ok(content)
    };
    files.iter().map(read).collect()
}

async fn look_while_used<T: Send + Sync + 'static>(reloaded: Weak<Reloaded<T>>) {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let Some(reloaded) = reloaded.upgrade() else { return };
        // Fails only when the runtime ends.
        let _ = tokio::task::spawn_blocking(move || reloaded.look()).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn length_of_text(contents: &Contents) -> anyhow::Result<usize> {
        Ok(std::str::from_utf8(&contents[0])?.len())
    }

    #[tokio::test]
    async fn what_cannot_be_used_leaves_the_old_in_force() {
        let path = std::env::temp_dir().join(format!("shardcache-reloaded-{}", std::process::id()));
        let write = |content: &[u8]| std::fs::write(&path, content).expect("a file");
        write(b"one");
        let reloaded = Reloaded::load(vec![path.clone()], length_of_text).expect("made");
        assert_eq!((reloaded.look(), *reloaded.current()), (Looked::Same, 3));
        write(b"\xff");
        assert_eq!((reloaded.look(), reloaded.look(), *reloaded.current()), (Looked::Refused, Looked::Same, 3));
        std::fs::remove_file(&path).expect("it is there");
        assert_eq!((reloaded.look(), reloaded.look(), *reloaded.current()), (Looked::Refused, Looked::Same, 3));
        write(b"three");
        assert_eq!((reloaded.look(), *reloaded.current()), (Looked::Renewed, 5));
        std::fs::remove_file(&path).expect("it is there");
        assert!(Reloaded::load(vec![path], length_of_text).is_err());
    }
}
