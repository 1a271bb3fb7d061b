//! Streams.
#![expect(
    unsafe_code,
    reason = "a C interface is made of raw pointers and exported names"
)]

use std::ffi::{c_int, c_uint, c_ulonglong};

use super::action::{Action, Pace, perform};
use super::backlog;
use super::global::entries;
use crate::process::{Process, current_handle, process};
use crate::put;
use gpubench_virtual_gpu_driver::code::{self, Code};
use gpubench_virtual_gpu_driver::entries::{ContextEntry, StreamEntry};
use gpubench_virtual_gpu_driver::handles::Handle;
use gpubench_virtual_gpu_model::lifecycle;
use gpubench_virtual_gpu_model::state::{Order, Stream, order};

/// The greatest priority there is; lower numbers go first.
pub const GREATEST_PRIORITY: c_int = -5;

/// `CU_STREAM_NON_BLOCKING` (cuda.h).
pub(super) const NON_BLOCKING: c_uint = 1;

/// Makes a stream of a context in the shared state.
///
/// # Errors
/// When there is no room for another one.
pub(super) fn open(
    process: &Process,
    context: &ContextEntry,
    flags: c_uint,
    priority: c_int,
) -> Result<StreamEntry, Code> {
    let device = &process.device;
    device.charge(device.machine().host.stream_ns)?;
    let priority = priority.clamp(GREATEST_PRIORITY, 0);
    let slot = device.transact(|state, _| {
        let slot = state.streams.claim(|s| !s.live)?;
        let order = match flags & NON_BLOCKING {
            0 => Order::Blocking,
            _ => Order::Free,
        };
        let row = &mut state.streams.rows[slot];
        *row = Stream::renewed(row, context.seat.context, order);
        row.priority = priority;
        Some(slot as u32)
    })?;
    let slot = slot.ok_or(code::OUT_OF_MEMORY)?;
    Ok(StreamEntry {
        slot,
        context: context.slot,
        seat: context.seat,
        flags,
        priority,
    })
}

/// Ends a stream in which everything has run.
///
/// # Errors
/// When the device cannot be asked.
pub(super) fn close(process: &Process, slot: u32) -> Result<(), Code> {
    process
        .device
        .transact(|state, _| lifecycle::close_stream(&mut state.streams.rows[slot as usize]))?;
    Ok(())
}

/// Ends a stream when everything in it has run. Destruction waits for nothing, but what is queued
/// still runs (cuStreamDestroy); the slot can go only when it has.
///
/// # Errors
/// When the clock stalls.
pub(super) fn finish(process: &Process, slot: u32) -> Result<(), Code> {
    let device = &process.device;
    device.wait_stream(slot, submitted(slot)?)?;
    device.charge(device.machine().host.stream_ns)?;
    close(process, slot)
}

fn create(stream: *mut Handle, flags: c_uint, priority: c_int) -> Result<(), Code> {
    if stream.is_null() || flags > NON_BLOCKING {
        return Err(code::INVALID_VALUE);
    }
    let process = process()?;
    let context = process.current()?;
    let entry = open(process, &context, flags, priority)?;
    let handle = process.tables().streams.insert(entry)?;
    // SAFETY: the caller's place, checked for null above.
    unsafe { put(stream, handle) }
}

entries! {
    fn cuStreamCreate(stream: *mut Handle, flags: c_uint) {
        create(stream, flags, 0)
    }

    fn cuStreamCreateWithPriority(stream: *mut Handle, flags: c_uint, priority: c_int) {
        create(stream, flags, priority)
    }

    fn cuStreamDestroy_v2(stream: Handle) {
        let process = process()?;
        let entry = *process.ready()?.streams.get(stream)?;
        process.tables().captures.remove(&entry.slot);
        backlog::pass(process, &entry, Action::Close, Pace::Later)?;
        process.tables().streams.remove(stream)?;
        Ok(())
    }

    fn cuStreamSynchronize(stream: Handle) {
        let process = process()?;
        let entry = process.stream(stream)?;
        super::graph::capture::forbid(process, &entry)?;
        wait_until_idle(process, entry.slot)?;
        process.device.charge(process.device.machine().host.sync_ns)?;
        crate::launch::finish_deferred(process, entry.context)?;
        super::pool::trim_all(process)?;
        process.check_sticky(entry.context)
    }

    fn cuStreamQuery(stream: Handle) {
        let process = process()?;
        let entry = process.stream(stream)?;
        super::graph::capture::forbid(process, &entry)?;
        process.device.charge(process.device.machine().host.query_ns)?;
        process.device.catch_up()?;
        let idle = process
            .device
            .transact(|state, _| {
                let mut covered = order::covered(state, entry.slot as usize).into_iter();
                covered.all(|(slot, seq)| {
                    let row = &state.streams.rows[slot as usize];
                    row.completed >= seq && row.taken >= row.given
                })
            })?;
        process.check_sticky(entry.context)?;
        if !idle {
            return Err(code::NOT_READY);
        }
        crate::launch::finish_deferred(process, entry.context)
    }

    fn cuStreamWaitEvent(stream: Handle, event: Handle, flags: c_uint) {
        if flags > 1 {
            return Err(code::INVALID_VALUE);
        }
        let process = process()?;
        let entry = process.stream(stream)?;
        process.ready()?.events.get(event)?;
        // CU_EVENT_WAIT_EXTERNAL (cuda.h) makes a node of it where the other form joins captures.
        if flags == 0 && super::graph::capture::join(process, &entry, event)? {
            return Ok(());
        }
        perform(process, &entry, Action::Wait(event as usize), Pace::Later)
    }

    fn cuStreamGetPriority(stream: Handle, priority: *mut c_int) {
        let entry = process()?.stream(stream)?;
        // SAFETY: the caller's place, checked for null.
        unsafe { put(priority, entry.priority) }
    }

    fn cuStreamGetFlags(stream: Handle, flags: *mut c_uint) {
        let entry = process()?.stream(stream)?;
        // SAFETY: the caller's place, checked for null.
        unsafe { put(flags, entry.flags) }
    }

    fn cuStreamGetId(stream: Handle, id: *mut c_ulonglong) {
        let entry = process()?.stream(stream)?;
        // SAFETY: the caller's place, checked for null.
        unsafe { put(id, c_ulonglong::from(entry.slot)) }
    }

    fn cuStreamGetDevice(stream: Handle, device: *mut c_int) {
        process()?.stream(stream)?;
        // SAFETY: the caller's place, checked for null.
        unsafe { put(device, 0) }
    }

    fn cuStreamGetCtx(stream: Handle, context: *mut Handle) {
        let found = context_of(stream)?;
        // SAFETY: the caller's place, checked for null.
        unsafe { put(context, found) }
    }
}

/// The handle of the context that a stream belongs to.
fn context_of(stream: Handle) -> Result<Handle, Code> {
    let process = process()?;
    let entry = process.stream(stream)?;
    if (stream as usize) <= 2 {
        return current_handle().ok_or(code::INVALID_CONTEXT);
    }
    let tables = process.ready()?;
    tables
        .contexts
        .find(|context| context.slot == entry.context)
        .ok_or(code::CONTEXT_IS_DESTROYED)
}

/// Waits for everything in a stream, and for its results.
///
/// # Errors
/// When the clock stalls.
pub(super) fn wait_for_all(process: &Process, stream: &StreamEntry) -> Result<(), Code> {
    wait_until_idle(process, stream.slot)?;
    crate::launch::finish_deferred(process, stream.context)
}

/// Waits for what was submitted to a stream, and to those that its handle stands for.
fn wait_until_idle(process: &Process, slot: u32) -> Result<(), Code> {
    let covered = || {
        let shared = process.device.shared();
        let read = shared.read(|state| {
            let slots = order::covered(state, slot as usize);
            let given =
                |(slot, seq): (u32, u64)| (slot, seq, state.streams.rows[slot as usize].given);
            slots.into_iter().map(given).collect::<Vec<_>>()
        });
        read.map_err(gpubench_virtual_gpu_driver::device::DeviceError::State)
    };
    for (slot, _, given) in covered()? {
        process.device.wait_held(slot, given)?;
    }
    for (slot, seq, _) in covered()? {
        process.device.wait_stream(slot, seq)?;
    }
    Ok(())
}

/// How much was ever submitted to a stream: what a wait for all of it waits for.
///
/// # Errors
/// When the device cannot be asked.
pub(super) fn submitted(slot: u32) -> Result<u64, Code> {
    let read = process()?
        .device
        .shared()
        .read(|s| s.streams.rows[slot as usize].submitted);
    Ok(read.map_err(gpubench_virtual_gpu_driver::device::DeviceError::State)?)
}
