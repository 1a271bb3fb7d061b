//! Streams: opening, closing, lookup, and waits for the work submitted to them.

use std::cell::Cell;
use std::ffi::{c_int, c_uint};

use crate::code::{self, Code};
use crate::entries::{ContextEntry, StreamEntry};
use crate::handles::Handle;
use crate::process::{Process, current_handle};
use crate::submit::submitted;
use gpubench_virtual_gpu_model::lifecycle;
use gpubench_virtual_gpu_model::state::{Order, Stream, order};

thread_local! {
    /// The stream that the null handle names in the current call.
    static NULL_STREAM: Cell<usize> = const { Cell::new(LEGACY) };
}

/// Number of the stream that the null handle names.
pub fn null_stream() -> usize {
    NULL_STREAM.get()
}

/// Runs a call in which the null handle names the thread's own default stream.
pub fn with_own_stream(call: impl FnOnce() -> i32) -> i32 {
    NULL_STREAM.set(PER_THREAD);
    let code = call();
    NULL_STREAM.set(LEGACY);
    code
}

/// The thread's own default stream in a context, made at first use.
pub fn default_stream_of_thread(
    process: &Process,
    context: &ContextEntry,
) -> Result<StreamEntry, Code> {
    let current = current_handle().ok_or(code::INVALID_CONTEXT)? as usize;
    let key = (std::thread::current().id(), current);
    {
        let tables = process.ready()?;
        if let Some(&handle) = tables.per_thread.get(&key) {
            return tables.streams.get(handle as Handle).copied();
        }
    }
    let entry = open(process, context, 0, 0)?;
    let mut tables = process.tables();
    let handle = tables.streams.insert(entry)? as usize;
    tables.per_thread.insert(key, handle);
    Ok(entry)
}

/// The greatest priority; lower numbers go first.
pub const GREATEST_PRIORITY: c_int = -5;

/// `CU_STREAM_NON_BLOCKING` (cuda.h).
pub const NON_BLOCKING: c_uint = 1;

/// Creates a stream of a context in the shared state.
pub fn open(
    process: &Process,
    context: &ContextEntry,
    flags: c_uint,
    priority: c_int,
) -> Result<StreamEntry, Code> {
    let device = &process.device;
    device.charge(device.machine().host.stream_ns)?;
    let greatest = if device.machine().defects.one_stream_priority { 0 } else { GREATEST_PRIORITY };
    let priority = priority.clamp(greatest, 0);
    let slot = device.transact(|state, _| {
        let slot = state.streams.claim(|s| !s.live)?;
        let order = match flags & NON_BLOCKING {
            0 => Order::Blocking,
            _ => Order::Free,
        };
        state.streams.rows[slot] =
            Stream { priority, ..Stream::of(context.placement.context, order) };
        Some(slot as u32)
    })?;
    let slot = slot.ok_or(code::OUT_OF_MEMORY)?;
    Ok(StreamEntry { slot, context: context.slot, placement: context.placement, flags, priority })
}

/// Ends a stream without pending work.
pub fn close(process: &Process, slot: u32) -> Result<(), Code> {
    process
        .device
        .transact(|state, _| lifecycle::close_stream(&mut state.streams.rows[slot as usize]))?;
    Ok(())
}

/// Ends a stream when its work is done. cuStreamDestroy returns at once and queued work still runs;
/// the slot is freed afterwards.
pub fn finish(process: &Process, slot: u32) -> Result<(), Code> {
    let device = &process.device;
    device.wait_stream(slot, submitted(slot)?)?;
    device.charge(device.machine().host.stream_ns)?;
    close(process, slot)
}

pub fn wait_for_all(process: &Process, stream: &StreamEntry) -> Result<(), Code> {
    wait_until_idle(process, stream.slot)?;
    crate::launch::finish_reruns(process, stream.context)
}

/// Waits for the work of a stream, and of the streams that the legacy stream synchronizes with.
pub fn wait_until_idle(process: &Process, slot: u32) -> Result<(), Code> {
    let shared = process.device.shared();
    let covered = shared.read(|state| order::covered(state, slot as usize))?;
    for (slot, seq) in covered {
        process.device.wait_stream(slot, seq)?;
    }
    Ok(())
}

/// `CU_STREAM_LEGACY` (cuda.h).
pub const LEGACY: usize = 1;
/// `CU_STREAM_PER_THREAD` (cuda.h).
pub const PER_THREAD: usize = 2;

impl Process {
    /// The stream of a handle; null and the two reserved handles name default streams.
    pub fn stream(&self, handle: Handle) -> Result<StreamEntry, Code> {
        let context = self.current_even_if_broken();
        let number = if handle.is_null() { null_stream() } else { handle as usize };
        let entry = match number {
            LEGACY => {
                let context = context?;
                StreamEntry {
                    slot: context.default_stream,
                    context: context.slot,
                    placement: context.placement,
                    flags: 0,
                    priority: 0,
                }
            }
            PER_THREAD => {
                let context = context?;
                self.check_sticky(context.slot)?;
                default_stream_of_thread(self, &context)?
            }
            _ => *self.ready()?.streams.get(handle)?,
        };
        self.check_sticky(entry.context)?;
        Ok(entry)
    }
}
