//! Calls that copy.

use crate::code::{self, Code};
use crate::copy_shape::{Copy, Place};
use crate::handles::Handle;
use crate::issue::perform;
use crate::operation::{Action, WaitPolicy};
use crate::process::{Process, process};
use crate::{addresses, pinned};

/// Copies bytes that lie in one row: in a stream, or in the default stream with a wait.
pub fn plain(
    to: Result<Place, Code>,
    from: Result<Place, Code>,
    bytes: usize,
    stream: Option<Handle>,
) -> Result<(), Code> {
    queue(|_| Ok(Copy::plain(to?, from?, bytes)), stream)
}

/// Queues a copy in a stream, or makes it in the default stream and waits.
pub fn queue(
    copy: impl FnOnce(&Process) -> Result<Copy, Code>,
    stream: Option<Handle>,
) -> Result<(), Code> {
    let process = process()?;
    let (stream, policy) = match stream {
        None => (std::ptr::null_mut(), WaitPolicy::Now),
        Some(stream) => (stream, WaitPolicy::Later),
    };
    let stream = process.stream(stream)?;
    let copy = copy(process)?;
    perform(process, &stream, Action::Copy(copy), policy)
}

/// Host memory at a pointer; a `Result` like the other sides, which can fail.
pub fn host<T>(pointer: *const T) -> Result<Place, Code> {
    Ok(Place::Host(pointer as u64))
}

/// A device address: pinned host memory has one too, its own.
pub fn device(address: u64) -> Result<Place, Code> {
    let process = process()?;
    let pinned = pinned::covering(&*process.ready()?, address as usize, 1).is_some();
    Ok(if pinned {
        Place::Host(address)
    } else {
        Place::Device(address)
    })
}

/// A device or host address, distinguished by its range. An address outside of both allocation
/// tables is memory of the program, unless no program can map it.
pub fn anywhere(address: u64) -> Result<Place, Code> {
    let process = process()?;
    let tables = process.ready()?;
    let in_device =
        process.contents.holds(address) || (addresses::FIRST..addresses::END).contains(&address);
    if tables.covering(address, 1).is_some() || in_device {
        return Ok(Place::Device(address));
    }
    /// No program maps its first pages (vm.mmap_min_addr of Linux).
    const NEVER_MAPPED: u64 = 64 << 10;
    if address < NEVER_MAPPED {
        return Err(code::INVALID_VALUE);
    }
    Ok(Place::Host(address))
}

/// A place in an array's memory.
pub fn in_array(array: Handle, offset: usize, bytes: usize) -> Result<Place, Code> {
    let tables = process()?.ready()?;
    let entry = *tables.arrays.get(array)?;
    let room = tables
        .allocations
        .get(&entry.address)
        .map_or(0, |a| a.bytes);
    let end = (offset as u64)
        .checked_add(bytes as u64)
        .ok_or(code::INVALID_VALUE)?;
    if end > room {
        return Err(code::INVALID_VALUE);
    }
    Ok(Place::Device(entry.address + offset as u64))
}

/// Refuses contexts that do not exist.
pub fn known_contexts(contexts: &[Handle]) -> Result<(), Code> {
    let tables = process()?.ready()?;
    let unknown = contexts
        .iter()
        .any(|context| tables.contexts.get(*context).is_err());
    if unknown {
        Err(code::INVALID_CONTEXT)
    } else {
        Ok(())
    }
}
