//! Calls that copy.

use crate::code::{self, Code, refuse};
use crate::copy_shape::{Copy, Place};
use crate::execute::perform;
use crate::handles::Handle;
use crate::operation::{Action, WaitPolicy};
use crate::process::process;
use crate::{addresses, pinned};

/// Copies bytes in a stream, or in the default stream with a wait.
pub fn queue(
    to: Result<Place, Code>,
    from: Result<Place, Code>,
    bytes: usize,
    stream: Option<Handle>,
) -> Result<(), Code> {
    let process = process()?;
    let (stream, policy) = match stream {
        None => (std::ptr::null_mut(), WaitPolicy::Now),
        Some(stream) => (stream, WaitPolicy::Later),
    };
    let stream = process.stream(stream)?;
    let copy = Copy { to: to?, from: from?, bytes: bytes as u64 };
    perform(process, &stream, Action::Copy(copy), policy)
}

/// One side of a copy of rows: the first row, and the bytes from one to the next.
pub type Rows = (Place, u64);

/// Copies rows of equal length, each for itself where they do not follow one another.
pub fn queue_rows(
    (to, to_pitch): Rows,
    (from, from_pitch): Rows,
    (width, height): (usize, usize),
    stream: Option<Handle>,
) -> Result<(), Code> {
    let row = width as u64;
    let packed = height <= 1 || (to_pitch == row && from_pitch == row);
    refuse(height > 1 && (to_pitch < row || from_pitch < row), code::INVALID_VALUE)?;
    if packed {
        let bytes = width.checked_mul(height).ok_or(code::INVALID_VALUE)?;
        return queue(Ok(to), Ok(from), bytes, stream);
    }
    let after = |place: Place, pitch: u64, index: u64| {
        let (Place::Host(start) | Place::Device(start)) = place;
        let at = pitch.checked_mul(index).and_then(|at| start.checked_add(at));
        let at = at.ok_or(code::INVALID_VALUE)?;
        Ok(if matches!(place, Place::Host(_)) { Place::Host(at) } else { Place::Device(at) })
    };
    (0..height as u64).try_for_each(|index| {
        queue(after(to, to_pitch, index), after(from, from_pitch, index), width, stream)
    })
}

/// Host memory at a pointer; a `Result` like the other sides, which can fail.
pub fn host<T>(pointer: *const T) -> Result<Place, Code> {
    Ok(Place::Host(pointer as u64))
}

/// A device address: pinned host memory has one too, its own.
pub fn device(address: u64) -> Result<Place, Code> {
    let process = process()?;
    let pinned = pinned::covering(&*process.ready()?, address as usize, 1).is_some();
    Ok(if pinned { Place::Host(address) } else { Place::Device(address) })
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
    refuse(address < NEVER_MAPPED, code::INVALID_VALUE)?;
    Ok(Place::Host(address))
}
