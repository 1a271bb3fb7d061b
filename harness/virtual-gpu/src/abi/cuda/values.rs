//! Single words that a stream writes, or waits for.
//!
//! A write changes the word when the call is made, like every effect on bytes; its time is that of
//! a mark in the stream. A wait whose word does not pass holds back what follows in its stream
//! (`backlog`) until an operation or the host changes the word. One whose word passes already waits
//! for the last write of a stream to that word. That a kernel or a copy may have written it which
//! is still under way, nobody can tell: the wait is over then.
#![expect(
    unsafe_code,
    reason = "a C interface is made of raw pointers and exported names"
)]

use std::ffi::{c_uint, c_ulonglong};

use super::action::{Action, Pace, charge, mark, perform};
use super::global::entries;
use crate::abi::code::{self, Code};
use crate::abi::entries::StreamEntry;
use crate::abi::handles::Handle;
use crate::abi::process::{Process, process};
use crate::device::words::read;
use crate::launch;
use crate::state::hold::Test;
use crate::state::{Hold, NEVER, Op, OpKind};

/// A word, with what is written to it or what it is held against.
#[derive(Debug, Clone, Copy)]
pub struct Word {
    /// Its address.
    pub pointer: u64,
    /// Length, value and, for waits, the kind of comparison.
    pub test: Test,
}

/// Where a word is.
#[derive(Debug, Clone, Copy)]
struct Place {
    host: *mut u8,
    /// Address of its allocation and place in device memory; none for pinned host memory.
    device: Option<(u64, u64)>,
}

entries! {
    fn cuStreamWriteValue32(stream: Handle, pointer: u64, value: c_uint, flags: c_uint) {
        queue_write(stream, pointer, value.into(), 4, flags)
    }

    fn cuStreamWriteValue32_v2(stream: Handle, pointer: u64, value: c_uint, flags: c_uint) {
        queue_write(stream, pointer, value.into(), 4, flags)
    }

    fn cuStreamWriteValue64(stream: Handle, pointer: u64, value: c_ulonglong, flags: c_uint) {
        queue_write(stream, pointer, value, 8, flags)
    }

    fn cuStreamWriteValue64_v2(stream: Handle, pointer: u64, value: c_ulonglong, flags: c_uint) {
        queue_write(stream, pointer, value, 8, flags)
    }

    fn cuStreamWaitValue32(stream: Handle, pointer: u64, value: c_uint, flags: c_uint) {
        queue_wait(stream, pointer, value.into(), 4, flags)
    }

    fn cuStreamWaitValue32_v2(stream: Handle, pointer: u64, value: c_uint, flags: c_uint) {
        queue_wait(stream, pointer, value.into(), 4, flags)
    }

    fn cuStreamWaitValue64(stream: Handle, pointer: u64, value: c_ulonglong, flags: c_uint) {
        queue_wait(stream, pointer, value, 8, flags)
    }

    fn cuStreamWaitValue64_v2(stream: Handle, pointer: u64, value: c_ulonglong, flags: c_uint) {
        queue_wait(stream, pointer, value, 8, flags)
    }
}

/// Where a word of the program is.
fn place(process: &Process, word: &Word) -> Result<Place, Code> {
    let (pointer, bytes) = (word.pointer, u64::from(word.test.bytes));
    if !pointer.is_multiple_of(bytes) {
        return Err(code::INVALID_VALUE);
    }
    super::ipc::check_opened(process, pointer)?;
    let tables = process.ready()?;
    if let Some(piece) = tables
        .pieces(pointer, bytes, true)
        .and_then(|p| p.first().copied())
    {
        let host = process.host_address(piece.offset, bytes)?;
        let device = Some((piece.start, piece.offset));
        return Ok(Place { host, device });
    }
    let pinned = super::pinned::covering(&tables, pointer as usize, bytes as usize);
    let place = Place {
        host: pointer as *mut u8,
        device: None,
    };
    pinned.map(|_| place).ok_or(code::INVALID_VALUE)
}

fn queue_write(
    stream: Handle,
    pointer: u64,
    value: u64,
    bytes: u32,
    flags: c_uint,
) -> Result<(), Code> {
    // CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER is 1 (cuda.h).
    if flags > 1 {
        return Err(code::INVALID_VALUE);
    }
    let test = Test {
        bytes,
        kind: 0,
        value,
    };
    queue(stream, Word { pointer, test }, Action::Write)
}

fn queue_wait(
    stream: Handle,
    pointer: u64,
    value: u64,
    bytes: u32,
    flags: c_uint,
) -> Result<(), Code> {
    // CU_STREAM_WAIT_VALUE_FLUSH (cuda.h) needs a device that can flush writes of other devices
    // (CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES), which this one says it cannot.
    match flags & !3 {
        0 => {}
        0x4000_0000 => return Err(code::NOT_SUPPORTED),
        _ => return Err(code::INVALID_VALUE),
    }
    let test = Test {
        bytes,
        kind: flags,
        value,
    };
    queue(stream, Word { pointer, test }, Action::Await)
}

fn queue(stream: Handle, word: Word, action: fn(Word) -> Action) -> Result<(), Code> {
    let process = process()?;
    let stream = process.stream(stream)?;
    super::graph::capture::forbid(process, &stream)?;
    place(process, &word)?;
    perform(process, &stream, action(word), Pace::Later)
}

/// Writes a word.
///
/// # Errors
/// When its memory is gone.
pub(super) fn write(
    process: &Process,
    stream: &StreamEntry,
    word: &Word,
    pace: Pace,
) -> Result<(), Code> {
    let Place { host, device } = place(process, word)?;
    if let Some((start, _)) = device {
        launch::finish_deferred_writes(process, start)?;
    }
    let value = word.test.value.to_le_bytes();
    // SAFETY: a word of this process's memory, as `place` found it.
    unsafe { std::ptr::copy_nonoverlapping(value.as_ptr(), host, word.test.bytes as usize) };
    if let Some((start, _)) = device {
        let mut tables = process.tables();
        let unwritten = tables
            .allocations
            .get(&start)
            .is_some_and(|entry| entry.unwritten);
        tables.wrote(start, unwritten);
    }
    charge(process, pace, process.device.machine().host.event_ns)?;
    let seq = mark(process, stream)?;
    process
        .tables()
        .words
        .insert(host as usize, (stream.slot, seq));
    Ok(())
}

/// Whether a word passes now.
///
/// # Errors
/// When its memory is gone.
pub(super) fn passes(process: &Process, word: &Word) -> Result<bool, Code> {
    let found = read(place(process, word)?.host, word.test.bytes);
    Ok(word.test.accepts(found))
}

/// What the stream waits for whose word does not pass yet.
///
/// # Errors
/// When its memory is gone.
pub(super) fn hold(process: &Process, stream: &StreamEntry, word: &Word) -> Result<Hold, Code> {
    let Place { host, device } = place(process, word)?;
    Ok(Hold {
        stream: stream.slot,
        offset: device.map_or(NEVER, |(_, offset)| offset),
        host: host as u64,
        test: word.test,
        ..Hold::default()
    })
}

/// Lets a stream go on behind the write that made its word pass.
///
/// # Errors
/// When its memory is gone.
pub(super) fn follow(
    process: &Process,
    stream: &StreamEntry,
    word: &Word,
    pace: Pace,
) -> Result<(), Code> {
    let host = place(process, word)?.host;
    charge(process, pace, process.device.machine().host.event_ns)?;
    let writer = process.tables().words.get(&(host as usize)).copied();
    let Some((target, target_seq)) = writer.filter(|(slot, _)| *slot != stream.slot) else {
        return mark(process, stream).map(|_| ());
    };
    let op = Op {
        kind: OpKind::Wait,
        target,
        target_seq,
        ..Op::default()
    };
    process.device.submit(stream.slot, op)?;
    Ok(())
}
