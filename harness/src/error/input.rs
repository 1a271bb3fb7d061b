//! Files that the user named, read up to a limit: a device or a pipe has no end.

use std::io::{Error, Read};
use std::path::Path;

use super::ExpectedError;

/// Longest profile, scenario, list or other file that people write.
pub const WRITTEN_BYTES_MAX: u64 = 1 << 20;
/// Longest file that gpubench writes and reads as a whole.
pub const RECORD_BYTES_MAX: u64 = 1 << 29;

/// The text of a file of at most this many bytes.
///
/// # Errors
/// When it cannot be read, is longer, or is no text.
pub fn read_text(what: &'static str, path: &Path, bytes_max: u64) -> Result<String, ExpectedError> {
    read_limited(path, bytes_max).map_err(|source| ExpectedError::Unreadable {
        what,
        path: path.to_owned(),
        source,
    })
}

/// [`read_text`] for a caller that treats a missing file in its own way.
pub fn read_limited(path: &Path, bytes_max: u64) -> std::io::Result<String> {
    let file = std::fs::File::open(path)?;
    let mut bytes = Vec::new();
    file.take(bytes_max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        let accepted = format!("it is too long (accepted: at most {bytes_max} bytes)");
        return Err(Error::other(accepted));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Error::other(format!("it is no text: byte {at} is not UTF-8"))
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::read_text;

    #[test]
    fn a_file_is_read_up_to_its_limit() -> std::io::Result<()> {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("file");
        std::fs::write(&path, "12345")?;
        let read =
            |path: &Path, most| read_text("list", path, most).map_err(|error| error.to_string());
        assert_eq!(read(&path, 5).as_deref(), Ok("12345"));
        for (path, most, problem) in [
            (path.as_path(), 4, "it is too long (accepted: at most 4 bytes)"),
            (Path::new("/dev/zero"), 1 << 16, "at most 65536 bytes"),
            (dir.path(), 4, "directory"),
        ] {
            let refused = read(path, most).err().unwrap_or_default();
            assert!(refused.starts_with("cannot read list "), "{refused}");
            assert!(refused.contains(problem), "{refused}");
        }
        std::fs::write(&path, b"ab\xff")?;
        let refused = read(&path, 9).err().unwrap_or_default();
        assert!(refused.ends_with("byte 2 is not UTF-8"), "{refused}");
        Ok(())
    }
}
