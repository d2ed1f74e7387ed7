//! A wall clock of a program's own, which a test steps while the program runs; the monotonic clocks stay as they are.

use std::path::PathBuf;

use tempfile::TempDir;

/// What the program loads to see this clock: libfaketime, in the multi-threaded form where there is one.
const LIBRARIES: [&str; 2] = ["libfaketimeMT.so.1", "libfaketime.so.1"];

/// The clock; it is the machine's until it is stepped.
pub struct SteppedClock {
    directory: TempDir,
    shim: PathBuf,
}

impl SteppedClock {
    /// A clock that is right.
    ///
    /// # Panics
    /// When libfaketime is not installed.
    pub fn new() -> Self {
        let clock = Self { directory: tempfile::tempdir().expect("a temporary directory"), shim: find_shim() };
        clock.step(0);
        clock
    }

    /// Sets it so many seconds off the machine's.
    pub fn step(&self, seconds: i64) {
        // Renamed into place: the program may read it at any moment.
        let next = self.directory.path().join("next");
        std::fs::write(&next, format!("{seconds:+}\n")).expect("the offset can be written");
        std::fs::rename(&next, self.offset()).expect("the offset can be put in place");
    }

    /// The variables that give a program this clock.
    pub fn env(&self) -> Vec<(&'static str, String)> {
        vec![
            ("LD_PRELOAD", self.shim.display().to_string()),
            ("FAKETIME_TIMESTAMP_FILE", self.offset().display().to_string()),
            // Each look at the clock looks at the file.
            ("FAKETIME_NO_CACHE", "1".to_owned()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
            ("DONT_FAKE_MONOTONIC", "1".to_owned()),
        ]
    }

    fn offset(&self) -> PathBuf {
        self.directory.path().join("offset")
    }
}

impl Default for SteppedClock {
    fn default() -> Self {
        Self::new()
    }
}

fn find_shim() -> PathBuf {
    let places = std::fs::read_dir("/usr/lib").expect("a system directory").flatten();
    let places: Vec<PathBuf> = places.map(|place| place.path().join("faketime")).collect();
    let mut found = LIBRARIES.iter().flat_map(|name| places.iter().map(move |place| place.join(name)));
    found.find(|path| path.is_file()).expect("libfaketime is not in /usr/lib/*/faketime: install libfaketime")
}
