//! The folder of a run.

use std::path::{Path, PathBuf};

use crate::error::ExpectedError;
use crate::run::rfc3339_now;

/// The folder of a run without `--out`: a new one for each run.
#[must_use]
pub fn default_path(profile: &str) -> PathBuf {
    let stamp = rfc3339_now().replace([':', '-'], "");
    PathBuf::from("gpubench-out").join(format!("{stamp}-{profile}-{}", std::process::id()))
}

/// Makes the folder and checks that it is writable, before anything is measured.
///
/// # Errors
/// When it is not.
pub fn make(out: &Path) -> Result<(), ExpectedError> {
    std::fs::create_dir_all(out).map_err(|error| ExpectedError::from_write(out, error))?;
    let file = out.join(".writable");
    std::fs::write(&file, b"").map_err(|error| ExpectedError::from_write(out, error))?;
    std::fs::remove_file(&file).map_err(|error| ExpectedError::from_write(out, error))
}
