//! Writes a file of output as a whole or not at all.

use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::error::ExpectedError;

/// Writes a file through a temporary one beside it, which replaces it. A link is followed, and what
/// is no regular file, such as /dev/stdout, is written to as it is.
///
/// # Errors
/// When it cannot be written; an existing file then stays as it is.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), ExpectedError> {
    replace(path, bytes).map_err(|error| ExpectedError::from_write(path, error))
}

fn replace(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let target = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    let found = target.metadata();
    if found.as_ref().is_ok_and(|found| !found.is_file()) {
        return std::fs::write(&target, bytes);
    }
    // The umask applies to a new file.
    let mode = found.map_or(0o666, |found| found.permissions().mode() & 0o7777);
    let mut file = beside(&target, mode)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(&target)?;
    Ok(())
}

fn beside(target: &Path, mode: u32) -> std::io::Result<NamedTempFile> {
    let folder = target.parent().map(Path::to_path_buf).unwrap_or_default();
    let folder = if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder };
    tempfile::Builder::new()
        .prefix(".gpubench-")
        .permissions(Permissions::from_mode(mode))
        .tempfile_in(folder)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::Path;

    use super::write_whole;

    #[test]
    fn a_file_is_replaced_whole_with_its_mode_and_links_stay() -> std::io::Result<()> {
        let dir = tempfile::tempdir()?;
        let file = dir.path().join("file");
        std::fs::write(&file, "old")?;
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o640))?;
        let link = dir.path().join("link");
        symlink(&file, &link)?;
        let open = std::fs::File::open(&file)?;
        assert!(write_whole(&link, b"new").is_ok());
        assert_eq!(std::fs::read_to_string(&file)?, "new");
        // A reader of the old file has it whole.
        assert_eq!(std::io::read_to_string(open)?, "old");
        assert!(link.is_symlink());
        assert_eq!(file.metadata()?.permissions().mode() & 0o777, 0o640);
        assert!(write_whole(Path::new("/dev/null"), b"new").is_ok());
        Ok(())
    }

    #[test]
    fn a_write_that_fails_leaves_the_old_file() -> std::io::Result<()> {
        let dir = tempfile::tempdir()?;
        let file = dir.path().join("none/file");
        let refused = write_whole(&file, b"new").map_err(|error| error.exit_code().code());
        assert_eq!(refused, Err(5));
        assert_eq!(std::fs::read_dir(dir.path())?.count(), 0);
        Ok(())
    }
}
