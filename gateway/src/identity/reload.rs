//! A file that is read again when it changes: what it held last, as long as what it holds now is no good.
//!
//! Its content is compared, not its time: a file that is replaced by a link, or twice within a tick, is seen too.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;
use arc_swap::{ArcSwap, Guard};
use tokio_util::sync::CancellationToken;

use crate::limits;

/// What a file means, or why it means nothing; the reason repeats nothing of the file.
type Parse<T> = fn(&[u8]) -> Result<T, String>;

/// The meaning of a file.
pub(crate) struct Reloaded<T> {
    /// The setting that names the file.
    setting: &'static str,
    path: PathBuf,
    parse: Parse<T>,
    current: ArcSwap<T>,
    /// What was read last, good or not: each change is looked at, and complained of, once.
    seen: Mutex<Result<Vec<u8>, io::ErrorKind>>,
}

impl<T> Reloaded<T> {
    /// Reads the file for the first time: then it must be good.
    pub(super) fn open(setting: &'static str, path: &Path, parse: Parse<T>) -> anyhow::Result<Self> {
        let wrong = || format!("{setting}: {}", path.display());
        let content = read(path).with_context(wrong)?;
        let meaning = parse(&content).map_err(anyhow::Error::msg).with_context(wrong)?;
        let (path, current, seen) = (path.to_owned(), ArcSwap::from_pointee(meaning), Mutex::new(Ok(content)));
        Ok(Self { setting, path, parse, current, seen })
    }

    /// The newest good meaning.
    pub(super) fn current(&self) -> Guard<Arc<T>> {
        self.current.load()
    }

    /// Looks at the file again and again until stopped.
    pub(super) async fn follow(&self, stop: CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(limits::IDENTITY_FILE_EVERY) => {}
            }
            let path = self.path.clone();
            // A disk that does not answer must not hold up requests.
            let content = tokio::task::spawn_blocking(move || read(&path)).await;
            self.take(content.unwrap_or_else(|panicked| Err(panicked.into())));
        }
    }

    /// What follows from one look at the file.
    fn take(&self, content: io::Result<Vec<u8>>) {
        let content = content.map_err(|error| error.kind());
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if *seen == content {
            return;
        }
        let (setting, path) = (self.setting, self.path.display());
        match content.as_ref().map(|content| (self.parse)(content)) {
            Ok(Ok(meaning)) => {
                self.current.store(Arc::new(meaning));
                tracing::info!(setting, %path, "the file has changed and counts from now on");
            }
            Ok(Err(reason)) => {
                tracing::error!(setting, %path, reason, "the file has changed and is no good: what it held before counts");
            }
            Err(kind) => {
                tracing::error!(setting, %path, reason = %kind, "the file cannot be read: what it held before counts");
            }
        }
        *seen = content;
    }
}

/// The whole file, bounded.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    use std::io::Read;

    let mut content = Vec::new();
    std::fs::File::open(path)?.take(limits::IDENTITY_FILE_MAX + 1).read_to_end(&mut content)?;
    if content.len() as u64 > limits::IDENTITY_FILE_MAX {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "the file is over 1 MiB"));
    }
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(content: &[u8]) -> Result<u32, String> {
        let text = std::str::from_utf8(content).ok();
        text.and_then(|text| text.trim().parse().ok()).ok_or_else(|| "no number".to_owned())
    }

    fn written(content: &[u8]) -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("number");
        std::fs::write(&path, content).expect("written");
        (directory, path)
    }

    #[test]
    fn a_new_content_counts_and_a_broken_or_missing_one_leaves_the_last_good() {
        let (_directory, path) = written(b"1");
        let file = Reloaded::open("X", &path, number).expect("good");
        let after = |content: io::Result<&[u8]>| {
            file.take(content.map(<[u8]>::to_vec));
            **file.current()
        };
        assert_eq!(after(Ok(b"2")), 2);
        assert_eq!(after(Ok(b"two")), 2);
        assert_eq!(after(Err(io::ErrorKind::NotFound.into())), 2);
        assert_eq!(after(Ok(b"3")), 3);
        assert_eq!(after(Ok(b"2")), 2);
    }

    #[test]
    fn the_first_content_must_be_good_and_bounded() {
        for bad in [b"one".to_vec(), vec![b' '; limits::IDENTITY_FILE_MAX as usize + 1]] {
            let (_directory, path) = written(&bad);
            let error = Reloaded::open("SHARDCACHE_X", &path, number).err().expect("bad");
            assert!(format!("{error:#}").starts_with("SHARDCACHE_X: "), "{error:#}");
        }
        assert!(Reloaded::open("X", Path::new("/nowhere/at/all"), number).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn following_looks_again_and_ends_when_stopped() {
        let (_directory, path) = written(b"1");
        let file = Arc::new(Reloaded::open("X", &path, number).expect("good"));
        std::fs::write(&path, b"2").expect("written");
        let stop = CancellationToken::new();
        let following = tokio::spawn({
            let (file, stop) = (Arc::clone(&file), stop.clone());
            async move { file.follow(stop).await }
        });
        for _ in 0..1000 {
            if **file.current() == 2 {
                break;
            }
            tokio::time::sleep(limits::IDENTITY_FILE_EVERY).await;
        }
        assert_eq!(**file.current(), 2);
        stop.cancel();
        following.await.expect("ends");
    }
}
