//! Rules about the repository itself that no compiler checks: who may depend on whom, sizes, words.

mod dependencies;
mod sources;

use std::path::{Path, PathBuf};

/// The top of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package is in the repository").to_owned()
}

/// Fails with every complaint, not only the first.
fn assert_none(complaints: &[String]) {
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}
