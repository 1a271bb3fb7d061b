//! Files that are kept of a device between runs: `$XDG_STATE_HOME/gpubench/FOLDER/UUID...`.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::device::selector::is_uuid;
use crate::error::ExpectedError;
use crate::error::output::write_whole;
use crate::mechanism::host::{JournalError, state_dir};

/// The file of a device, with this end of its name. `None` for a text that is no UUID: the UUID of a
/// record is untrusted input and must not name another file.
///
/// # Errors
/// When the folder for state cannot be named.
pub(super) fn device_file(
    folder: &str,
    uuid: &str,
    ending: &str,
) -> Result<Option<PathBuf>, JournalError> {
    if !is_uuid(uuid) {
        return Ok(None);
    }
    let name = format!("{uuid}{ending}");
    Ok(Some(state_dir()?.join(folder).join(name)))
}

/// Writes such a file as a whole, in a folder that only this user can read.
///
/// # Errors
/// When it cannot be written.
pub(super) fn write_private(path: &Path, text: &str) -> Result<(), ExpectedError> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|error| ExpectedError::from_write(folder, error))?;
    write_whole(path, text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::device_file;

    #[test]
    fn a_text_that_is_no_uuid_names_no_file() {
        for text in
            ["../../x", "GPU-../../x", "GPU-92af0b11/x", "/x", "GPU-", "x", "", "GPU-92af0b11\0"]
        {
            let found = device_file("spread", text, ".json");
            assert!(matches!(found, Ok(None)), "{text}: {found:?}");
        }
        // Without a folder for state there is no file, which is another matter.
        if let Ok(found) = device_file("spread", "GPU-92af0b11", ".json") {
            assert!(found.is_some_and(|path| path.ends_with("spread/GPU-92af0b11.json")));
        }
    }
}
