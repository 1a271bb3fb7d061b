//! Words in memory that a stream writes or waits for.
//!
//! A write changes the word when the call is made, like every effect on bytes; it takes the time of
//! a mark in the stream. A wait for a word that does not pass yet defers the later work of its
//! stream until an operation or the host changes the word. If the word passes already, the stream
//! waits for the last operation that wrote there. Of a kernel, only the extents that it writes are
//! known. A kernel writes its time stamps when its start time is known, so a wait for such a word
//! tests it again when the kernel is done. Time stamps of other processes are not awaited.

use crate::code::{self, Code};
use crate::device::words::{StreamWaitId, Woken, read};
use crate::entries::StreamEntry;
use crate::memory_op::{Form, Meaning, MemOp};
use crate::operation::{WaitPolicy, Word};
use crate::process::Process;
use crate::stored_word::Store;
use crate::stream::come_to;
use crate::submit::{self, charge, mark, wait_for};
use crate::{ipc, launch, pinned};
use gpubench_virtual_gpu_model::state::{NEVER, StreamWait};

/// Marks the waits that are met now, by the last operation of stream `by` or by the host.
pub fn notice(process: &Process, by: Option<u32>) -> Result<(), Code> {
    let device = &process.device;
    if !device.shared().words_wanted() {
        return Ok(());
    }
    let by = match by {
        Some(slot) => Some((slot, submit::submitted(slot)?)),
        None => None,
    };
    let owed = crate::launch::rerun_targets(process);
    device.notice(by, &owed, &|offset, bytes| {
        process.host_address(offset, bytes).ok()
    })?;
    Ok(())
}

/// The location of a word.
#[derive(Debug, Clone, Copy)]
struct Location {
    host: *mut u8,
    /// Host address of its allocation.
    base: usize,
    /// Address of its allocation, and its offset in device memory; none for pinned host memory.
    device: Option<(u64, u64)>,
}

impl Location {
    /// Host addresses of the word.
    fn part(&self, word: &Word) -> std::ops::Range<usize> {
        let first = self.host as usize;
        first..first + word.test.bytes as usize
    }
}

/// The location of a word of the program.
fn locate(process: &Process, word: &Word) -> Result<Location, Code> {
    let (pointer, bytes) = (word.pointer, u64::from(word.test.bytes));
    if !pointer.is_multiple_of(bytes) {
        return Err(code::INVALID_VALUE);
    }
    ipc::check_opened(process, pointer)?;
    let tables = process.ready()?;
    if let Some(piece) = tables
        .pieces(pointer, bytes, true)
        .and_then(|p| p.first().copied())
    {
        let host = process.host_address(piece.offset, bytes)?;
        let offset = tables.allocations.get(&piece.start).map(|a| a.offset);
        let base = process.host_address(offset.unwrap_or(piece.offset), bytes)? as usize;
        let device = Some((piece.start, piece.offset));
        return Ok(Location { host, base, device });
    }
    let pinned = pinned::covering(&tables, pointer as usize, bytes as usize);
    let (base, _) = pinned.ok_or(code::INVALID_VALUE)?;
    Ok(Location {
        host: pointer as *mut u8,
        base,
        device: None,
    })
}

/// Refuses a word that is misaligned or outside of memory of the program.
pub fn check(process: &Process, word: &Word) -> Result<(), Code> {
    locate(process, word).map(|_| ())
}

/// Writes a word.
pub fn write(
    process: &Process,
    stream: &StreamEntry,
    word: &Word,
    policy: WaitPolicy,
) -> Result<(), Code> {
    let at = locate(process, word)?;
    let store = Store {
        host: at.host as usize,
        bytes: word.test.bytes as usize,
        value: word.test.value,
    };
    let writing = launch::WriteGuard::begin(process);
    store.make();
    if let Some((start, _)) = at.device {
        let mut tables = process.tables();
        let unwritten = tables
            .allocations
            .get(&start)
            .is_some_and(|entry| entry.unwritten);
        tables.wrote(start, unwritten);
    }
    drop(writing);
    charge(process, policy, process.device.machine().host.event_ns)?;
    let seq = mark(process, stream)?;
    if let Some((start, _)) = at.device {
        launch::rerun_store(process, stream, seq, start, store);
    }
    let part = at.part(word);
    let mut tables = process.tables();
    tables.last_writers.note(at.base, part, (stream.slot, seq));
    Ok(())
}

/// Whether a word passes now.
pub fn passes(process: &Process, word: &Word) -> Result<bool, Code> {
    let found = read(locate(process, word)?.host, word.test.bytes);
    Ok(word.test.accepts(found))
}

/// Enters a wait of a stream for a word that does not pass yet.
pub fn arm(process: &Process, stream: &StreamEntry, word: &Word) -> Result<StreamWaitId, Code> {
    let Location { host, device, .. } = locate(process, word)?;
    let mut stream_wait = StreamWait {
        stream: stream.slot,
        offset: device.map_or(NEVER, |(_, offset)| offset),
        host: host as u64,
        test: word.test,
        ..StreamWait::default()
    };
    stream_wait.recheck_after(&launch::rerun_targets(process));
    Ok(process.device.arm(stream_wait)?)
}

/// Waits until a word passes, or its stream or context has ended. `armed` is a wait that was
/// entered before.
pub fn wait(
    process: &Process,
    stream: &StreamEntry,
    word: &Word,
    mut armed: Option<StreamWaitId>,
) -> Result<(), Code> {
    loop {
        let stream_wait = match armed.take() {
            Some(stream_wait) => stream_wait,
            None => arm(process, stream, word)?,
        };
        if process.device.wait_for_word(stream_wait)? == Woken::Over {
            return Ok(());
        }
        launch::finish_reruns(process, stream.context)?;
        if passes(process, word)? {
            return Ok(());
        }
    }
}

/// Continues a stream after the write that made its word pass.
pub fn follow(
    process: &Process,
    stream: &StreamEntry,
    word: &Word,
    policy: WaitPolicy,
) -> Result<(), Code> {
    let at = locate(process, word)?;
    charge(process, policy, process.device.machine().host.event_ns)?;
    let writer = process.tables().last_writers.last(at.base, &at.part(word));
    let Some((target, target_seq)) = writer.filter(|(slot, _)| *slot != stream.slot) else {
        return mark(process, stream).map(|_| ());
    };
    wait_for(process, stream.slot, target, target_seq)
}

/// Carries out a graph's batch, on a thread that can wait: the launch of a graph with a batch is
/// deferred.
pub fn run_batch(process: &Process, stream: &StreamEntry, ops: &[MemOp]) -> Result<(), Code> {
    for op in ops {
        match op.meaning(Form::Second)? {
            Meaning::Barrier => drop(mark(process, stream)?),
            Meaning::Write(word) => write(process, stream, &word, WaitPolicy::Graph)?,
            Meaning::Await(word) => {
                come_to(process, stream)?;
                if !passes(process, &word)? {
                    wait(process, stream, &word, None)?;
                    process.check_sticky(stream.context)?;
                }
                follow(process, stream, &word, WaitPolicy::Graph)?;
            }
        }
    }
    Ok(())
}
