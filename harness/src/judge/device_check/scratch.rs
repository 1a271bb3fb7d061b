//! A private folder for the record of a device check.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::error::ExpectedError;

/// A folder, removed when dropped.
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes the folder.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn new() -> Result<Self, ExpectedError> {
        let path = std::env::temp_dir().join(format!("gpubench-doctor-{}", std::process::id()));
        std::fs::DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .map_err(|error| ExpectedError::from_write(&path, error))?;
        Ok(Self(path))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Files left in a temporary folder are not an error of the verb.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
