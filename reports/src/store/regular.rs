//! Opens files of a record. A record can come from another person: a pipe in it would never be
//! read to its end, and a device has none.

use std::fs::File;
use std::io::{Error, Read};
use std::path::Path;

use super::error::StoreError;

/// Longest file that is read as a whole: several hundred times a record of every axis.
const BYTES_MAX: u64 = 1 << 29;

/// Opens a regular file for reading.
pub(super) fn open(path: &Path) -> Result<File, StoreError> {
    open_regular(path).map_err(StoreError::io("read", path))
}

/// [`open`] for a caller with another error.
pub(super) fn open_regular(path: &Path) -> std::io::Result<File> {
    // Asked before the file is opened, because opening a pipe waits for a writer.
    let found = std::fs::metadata(path)?;
    if found.is_dir() {
        return Err(Error::other("it is a folder (accepted: a regular file)"));
    }
    if !found.is_file() {
        return Err(Error::other("it is a pipe or a device (accepted: a regular file)"));
    }
    File::open(path)
}

/// The bytes of a regular file.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, StoreError> {
    let bytes = open_regular(path).and_then(|file| {
        let length = file.metadata()?.len();
        if length > BYTES_MAX {
            let accepted = format!("it has {length} bytes (accepted: at most {BYTES_MAX})");
            return Err(Error::other(accepted));
        }
        let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or_default());
        file.take(BYTES_MAX).read_to_end(&mut bytes)?;
        Ok(bytes)
    });
    bytes.map_err(StoreError::io("read", path))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::read;

    #[test]
    fn what_has_no_end_is_refused_before_it_is_read() -> std::io::Result<()> {
        let dir = tempfile::tempdir()?;
        let large = dir.path().join("large");
        std::fs::File::create(&large)?.set_len(1 << 40)?;
        for (path, problem) in [
            (Path::new("/dev/zero"), "a pipe or a device"),
            (dir.path(), "a folder (accepted: a regular file)"),
            (&large, "(accepted: at most 536870912)"),
        ] {
            let refused = read(path).err().map(|error| error.to_string());
            assert!(refused.is_some_and(|text| text.contains(problem)), "{problem}");
        }
        std::fs::write(&large, "text")?;
        assert!(read(&large).is_ok_and(|bytes| bytes == b"text"));
        Ok(())
    }
}
