//! Files that are kept of a device between runs: `$XDG_STATE_HOME/gpubench/FOLDER/UUID...`.

use std::path::PathBuf;

use crate::device::selector::is_uuid;
use crate::mechanism::host::{JournalError, state_dir};

/// The file of a device, its name ending like this. `None` for a text that is no UUID: that of a
/// record is from whoever wrote it, and must not name another file.
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
