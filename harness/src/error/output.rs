//! Files that the user named, written as a whole or not at all.

use std::fs::{File, Permissions};
use std::io::{BufWriter, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::OFlags;
use rustix::io::Errno;
use tempfile::NamedTempFile;

use super::ExpectedError;

/// Most symbolic links from a path to its file, as in the kernel (path_resolution(7)).
const LINKS_MAX: usize = 40;

/// How often, and how many times, a pipe is looked at until somebody reads it.
const READER_LOOK: Duration = Duration::from_millis(100);
const READER_LOOKS: u32 = 30;

/// Writes a file through a temporary one beside it, which replaces it. A symbolic link stays and
/// its target is written, also a target that does not exist yet, as with `>` of a shell. What is no
/// regular file, such as /dev/stdout, is written to as it is.
/// Fails when it cannot be written; an existing file then stays as it is.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), ExpectedError> {
    write_with(path, |out| out.write_all(bytes))
}

/// The same, of what a writer writes piece by piece.
pub fn write_with(path: &Path, write: impl Fill) -> Result<(), ExpectedError> {
    let target = target(path).map_err(|error| ExpectedError::from_write(path, error))?;
    // The file that could not be written is the target of a link, not the link.
    replace(&target, write).map_err(|error| ExpectedError::from_write(target, error))
}

/// What writes an output.
pub trait Fill: FnOnce(&mut dyn Write) -> std::io::Result<()> {}

impl<T: FnOnce(&mut dyn Write) -> std::io::Result<()>> Fill for T {}

/// The file behind every symbolic link of a path. It need not exist.
fn target(path: &Path) -> std::io::Result<PathBuf> {
    if path.exists() {
        // A pipe behind /dev/stdout has no path.
        return Ok(path.canonicalize().unwrap_or_else(|_| path.to_path_buf()));
    }
    let mut target = path.to_path_buf();
    for _ in 0..=LINKS_MAX {
        match target.read_link() {
            // A relative target begins in the folder of its link.
            Ok(next) => target = target.parent().unwrap_or(Path::new("")).join(next),
            Err(_) => return Ok(target),
        }
    }
    Err(Errno::LOOP.into())
}

fn replace(target: &Path, write: impl Fill) -> std::io::Result<()> {
    let found = target.metadata();
    if found.as_ref().is_ok_and(|found| !found.is_file()) {
        return filled(&mut open_stream(target)?, write);
    }
    // The umask applies to a new file.
    let mode = found.map_or(0o666, |found| found.permissions().mode() & 0o7777);
    let mut file = beside(target, mode)?;
    filled(file.as_file_mut(), write)?;
    file.as_file().sync_all()?;
    file.persist(target)?;
    Ok(())
}

/// Opens a device or a pipe for writing. Opening a pipe that nobody reads would wait forever.
fn open_stream(target: &Path) -> std::io::Result<File> {
    let unread = Some(Errno::NXIO.raw_os_error());
    for _ in 0..READER_LOOKS {
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        match File::options().write(true).custom_flags(flags).open(target) {
            Ok(file) => {
                rustix::fs::fcntl_setfl(&file, OFlags::empty())?;
                return Ok(file);
            }
            Err(error) if error.raw_os_error() == unread => std::thread::sleep(READER_LOOK),
            Err(error) => return Err(error),
        }
    }
    let waited = (READER_LOOK * READER_LOOKS).as_secs();
    Err(std::io::Error::other(format!("it is a pipe that nobody reads, after {waited} s")))
}

fn filled(file: &mut File, write: impl Fill) -> std::io::Result<()> {
    let mut out = BufWriter::new(file);
    write(&mut out)?;
    out.flush()
}

fn beside(target: &Path, mode: u32) -> std::io::Result<NamedTempFile> {
    let folder = target.parent().map(Path::to_path_buf).unwrap_or_default();
    let folder = if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder };
    tempfile::Builder::new()
        .prefix(".gpubench-")
        .permissions(Permissions::from_mode(mode))
        .tempfile_in(folder)
        .map_err(without_path)
}

/// The error of the operating system alone: the temporary file is no name of the user.
fn without_path(error: std::io::Error) -> std::io::Error {
    match error.to_string().rsplit_once(" at path ") {
        Some((own, _)) => std::io::Error::new(error.kind(), own.to_owned()),
        None => error,
    }
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
        let pipe = dir.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status()?;
        assert!(made.success());
        let refused = write_whole(&pipe, b"new").expect_err("nobody reads it");
        assert!(refused.to_string().ends_with("a pipe that nobody reads, after 3 s"), "{refused}");
        let reader = std::thread::spawn({
            let pipe = pipe.clone();
            move || std::fs::read_to_string(pipe)
        });
        assert!(write_whole(&pipe, b"new").is_ok());
        assert!(reader.join().is_ok_and(|read| read.is_ok_and(|text| text == "new")));
        Ok(())
    }

    #[test]
    fn a_dangling_link_stays_and_its_target_is_made() -> std::io::Result<()> {
        let dir = tempfile::tempdir()?;
        let target = dir.path().join("target");
        let [near, far, lost, ring] =
            ["near", "far", "lost", "ring"].map(|name| dir.path().join(name));
        symlink("target", &near)?;
        symlink(&near, &far)?;
        assert!(write_whole(&far, b"new").is_ok());
        assert!(near.is_symlink() && far.is_symlink());
        assert_eq!(std::fs::read_to_string(&target)?, "new");
        symlink("absent/target", &lost)?;
        symlink("ring", &ring)?;
        for (link, named) in [(&lost, "absent/target: No such file"), (&ring, "ring: Too many")] {
            let refused = write_whole(link, b"new").expect_err("written");
            assert!(refused.to_string().contains(named), "{refused}");
            assert!(link.is_symlink());
        }
        Ok(())
    }
}
