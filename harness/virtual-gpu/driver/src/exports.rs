//! Descriptors of device memory that are passed between processes: files that name the memory.
//!
//! A descriptor holds its memory by itself, also after its process has ended. Only the kernel knows
//! how many copies of it exist: each export is a file in the device's folder, locked through the
//! one opening that is passed on. The lock ends with the last descriptor of that opening
//! (`flock(2)`). The process that detects this ends the export's row in the shared state.

use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use gpubench_virtual_gpu_model::memory::{self, Export};
use gpubench_virtual_gpu_model::state::State;

/// Folder of the files, in the device's folder.
const FOLDER: &str = "exports";

/// Maximum number of exports of one allocation at the same time.
const EXPORTS_MAX: u32 = 1024;

fn path(device_dir: &Path, (number, which): Export) -> PathBuf {
    device_dir.join(FOLDER).join(format!("{number}-{which}"))
}

/// Makes the file of another export of an allocation, with these contents, and locks it.
pub fn make(device_dir: &Path, number: u64, contents: &[u8]) -> io::Result<(Export, File)> {
    match std::fs::create_dir(device_dir.join(FOLDER)) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    for which in 1..=EXPORTS_MAX {
        let export = (number, which);
        let mut options = File::options();
        let made = options.read(true).write(true).create_new(true);
        match made.open(path(device_dir, export)) {
            Ok(file) => {
                file.write_all_at(contents, 0)?;
                file.lock()?;
                return Ok((export, file));
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other(format!(
        "more than {EXPORTS_MAX} exports of one allocation"
    )))
}

/// Whether a descriptor of it is still open.
fn is_held(device_dir: &Path, export: Export) -> io::Result<bool> {
    let file = match File::open(path(device_dir, export)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    match file.try_lock_shared() {
        Ok(()) => Ok(false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// The exports in a state that have no open descriptor.
pub fn closed(device_dir: &Path, state: &State) -> io::Result<Vec<Export>> {
    let rows = state.allocations.live().iter();
    let exports = rows.filter(|row| row.live && row.export != 0);
    let mut out = Vec::new();
    for row in exports {
        let export = (row.number, row.export);
        if !is_held(device_dir, export)? {
            out.push(export);
        }
    }
    Ok(out)
}

/// Ends an export in a state.
pub fn end(state: &mut State, (number, which): Export) {
    memory::end_where(state, |row| row.export == which && row.number == number);
}

/// Removes the file of an export that has ended. Another process may have done so.
pub fn remove(device_dir: &Path, export: Export) -> io::Result<()> {
    match std::fs::remove_file(path(device_dir, export)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
