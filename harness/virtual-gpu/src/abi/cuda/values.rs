//! Single words that a stream writes, or waits for.
//!
//! A write happens when the call is made, like every effect on bytes. A wait whose condition holds
//! at the call is a mark in the stream. One whose condition does not hold yet would have to hold
//! back the effects of what follows it in the stream, which this driver cannot: it is refused, so
//! that nothing ever runs too early.
#![expect(
    unsafe_code,
    reason = "a C interface is made of raw pointers and exported names"
)]

use std::ffi::{c_uint, c_ulonglong};

use super::action::{Action, Pace, perform};
use super::global::entries;
use crate::abi::code::{self, Code};
use crate::abi::handles::Handle;
use crate::abi::process::{Process, process};
use crate::launch;

entries! {
    fn cuStreamWriteValue32(stream: Handle, pointer: u64, value: c_uint, flags: c_uint) {
        write(stream, pointer, &value.to_le_bytes(), flags)
    }

    fn cuStreamWriteValue32_v2(stream: Handle, pointer: u64, value: c_uint, flags: c_uint) {
        write(stream, pointer, &value.to_le_bytes(), flags)
    }

    fn cuStreamWriteValue64(stream: Handle, pointer: u64, value: c_ulonglong, flags: c_uint) {
        write(stream, pointer, &value.to_le_bytes(), flags)
    }

    fn cuStreamWriteValue64_v2(stream: Handle, pointer: u64, value: c_ulonglong, flags: c_uint) {
        write(stream, pointer, &value.to_le_bytes(), flags)
    }

    fn cuStreamWaitValue32(stream: Handle, pointer: u64, value: c_uint, flags: c_uint) {
        wait(stream, pointer, value.into(), 4, flags)
    }

    fn cuStreamWaitValue32_v2(stream: Handle, pointer: u64, value: c_uint, flags: c_uint) {
        wait(stream, pointer, value.into(), 4, flags)
    }

    fn cuStreamWaitValue64(stream: Handle, pointer: u64, value: c_ulonglong, flags: c_uint) {
        wait(stream, pointer, value, 8, flags)
    }

    fn cuStreamWaitValue64_v2(stream: Handle, pointer: u64, value: c_ulonglong, flags: c_uint) {
        wait(stream, pointer, value, 8, flags)
    }
}

/// Host address of a word, and the allocation that it lies in; none for pinned host memory.
fn word(process: &Process, pointer: u64, bytes: u64) -> Result<(*mut u8, Option<u64>), Code> {
    if !pointer.is_multiple_of(bytes) {
        return Err(code::INVALID_VALUE);
    }
    super::ipc::check_opened(process, pointer)?;
    let tables = process.ready()?;
    if let Some(piece) = tables
        .pieces(pointer, bytes, true)
        .and_then(|p| p.first().copied())
    {
        let place = process.host_address(piece.offset, bytes)?;
        return Ok((place, Some(piece.start)));
    }
    let pinned = super::pinned::covering(&tables, pointer as usize, bytes as usize);
    pinned
        .map(|_| (pointer as *mut u8, None))
        .ok_or(code::INVALID_VALUE)
}

fn write(stream: Handle, pointer: u64, value: &[u8], flags: c_uint) -> Result<(), Code> {
    // CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER is 1 (cuda.h).
    if flags > 1 {
        return Err(code::INVALID_VALUE);
    }
    let process = process()?;
    let stream = process.stream(stream)?;
    super::graph::capture::forbid(process, &stream)?;
    let (place, start) = word(process, pointer, value.len() as u64)?;
    if let Some(start) = start {
        launch::finish_deferred_writes(process, start)?;
    }
    // SAFETY: a word of this process's memory, as `word` found it.
    unsafe { std::ptr::copy_nonoverlapping(value.as_ptr(), place, value.len()) };
    if let Some(start) = start {
        let mut tables = process.tables();
        let unwritten = tables
            .allocations
            .get(&start)
            .is_some_and(|entry| entry.unwritten);
        tables.wrote(start, unwritten);
    }
    process
        .device
        .charge(process.device.machine().host.event_ns)?;
    perform(process, &stream, Action::Empty, Pace::Later)
}

fn wait(stream: Handle, pointer: u64, value: u64, bytes: u64, flags: c_uint) -> Result<(), Code> {
    let process = process()?;
    let stream = process.stream(stream)?;
    super::graph::capture::forbid(process, &stream)?;
    let (place, _) = word(process, pointer, bytes)?;
    // CU_STREAM_WAIT_VALUE_FLUSH (cuda.h) concerns writes of other devices, of which there is none.
    if flags & !3 != 0 {
        return Err(if flags & !3 == 1 << 30 {
            code::NOT_SUPPORTED
        } else {
            code::INVALID_VALUE
        });
    }
    let mut found = [0_u8; 8];
    // SAFETY: a word of this process's memory, as `word` found it.
    unsafe { std::ptr::copy_nonoverlapping(place, found.as_mut_ptr(), bytes as usize) };
    process
        .device
        .charge(process.device.machine().host.event_ns)?;
    if !holds(u64::from_le_bytes(found), value, bytes, flags) {
        crate::abi::say(&format!(
            "a wait for the word at {pointer:#x} is refused: its condition does not hold yet, and \
             what follows in the stream cannot be held back"
        ));
        return Err(code::NOT_SUPPORTED);
    }
    perform(process, &stream, Action::Empty, Pace::Later)
}

/// The condition of a wait (`CUstreamWaitValue_flags`, cuda.h): cyclic not less, equal, any common
/// bit, not all bits.
fn holds(found: u64, value: u64, bytes: u64, flags: c_uint) -> bool {
    let mask = if bytes == 4 {
        u64::from(u32::MAX)
    } else {
        u64::MAX
    };
    match flags & 3 {
        0 if bytes == 4 => (found as u32).wrapping_sub(value as u32) as i32 >= 0,
        0 => found.wrapping_sub(value) as i64 >= 0,
        1 => found == value,
        2 => found & value & mask != 0,
        _ => !(found | value) & mask != 0,
    }
}

#[cfg(test)]
mod tests {
    use super::holds;

    #[test]
    fn conditions_are_those_of_the_header() {
        for (found, value, bytes, flags, expected) in [
            (5, 5, 4, 0, true),
            (4, 5, 4, 0, false),
            (1, 0xFFFF_FFFF, 4, 0, true),
            (1, 0xFFFF_FFFF, 8, 0, false),
            (5, 5, 8, 1, true),
            (6, 5, 8, 1, false),
            (6, 2, 4, 2, true),
            (4, 2, 4, 2, false),
            (0xFFFF_FFF0, 0xF, 4, 3, false),
            (0xFFFF_FF00, 0xF, 4, 3, true),
        ] {
            let held = holds(found, value, bytes, flags);
            assert_eq!(held, expected, "{found:#x} {value:#x} {bytes} {flags}");
        }
    }
}
