//! Events: marks in streams, with the time at which the device passed them.
#![expect(
    unsafe_code,
    reason = "a C interface is made of raw pointers and exported names"
)]

use std::ffi::c_uint;

use super::action::{Action, Pace, charge, perform, wait_for};
use super::global::entries;
use crate::process::{Process, process};
use crate::put;
use gpubench_virtual_gpu_driver::code::{self, Code};
use gpubench_virtual_gpu_driver::entries::{EventEntry, StreamEntry};
use gpubench_virtual_gpu_driver::handles::Handle;
use gpubench_virtual_gpu_model::state::{Op, OpKind};

/// `CU_EVENT_DISABLE_TIMING` and `CU_EVENT_INTERPROCESS` (cuda.h).
const DISABLE_TIMING: c_uint = 2;
const INTERPROCESS: c_uint = 4;

/// Stream and sequence number of an event's last recording, by whichever process.
fn last_recorded(process: &Process, event: &EventEntry) -> Result<Option<(u32, u64)>, Code> {
    if event.interprocess {
        super::ipc::event_recorded(process, event.index)
    } else {
        Ok(event.recorded)
    }
}

/// Whether the event's last recording has completed.
fn is_done(process: &Process, event: &EventEntry) -> Result<bool, Code> {
    if event.pending.is_some() {
        return Ok(false);
    }
    let Some((stream, seq)) = last_recorded(process, event)? else {
        return Ok(true);
    };
    let done = process.device.transact(|state, _| {
        let slot = &state.streams.rows[stream as usize];
        !slot.live || slot.completed >= seq
    })?;
    Ok(done)
}

entries! {
    fn cuEventCreate(event: *mut Handle, flags: c_uint) {
        // An event that other processes may open keeps no time (cuIpcGetEventHandle).
        let untimed = flags & DISABLE_TIMING != 0;
        if event.is_null() || flags > 7 || (flags & INTERPROCESS != 0 && !untimed) {
            return Err(code::INVALID_VALUE);
        }
        let process = process()?;
        let context = process.current()?;
        let device = &process.device;
        device.charge(device.machine().host.event_ns)?;
        let index = device.shared().claim_event(device.process()?).ok_or(code::OUT_OF_MEMORY)?;
        let entry = EventEntry {
            index,
            context: context.slot,
            timing_disabled: untimed,
            interprocess: flags & INTERPROCESS != 0,
            opened: false,
            recorded: None,
            pending: None,
        };
        if entry.interprocess {
            super::ipc::set_event_recorded(process, index, None)?;
        }
        let handle = process.tables().events.insert(entry)?;
        // SAFETY: the caller's place, checked for null above.
        unsafe { put(event, handle) }
    }

    fn cuEventDestroy_v2(event: Handle) {
        let process = process()?;
        let mut tables = process.ready()?;
        let entry = tables.events.remove(event)?;
        tables.captured_events.remove(&(event as usize));
        if !entry.opened {
            process.device.shared().free_event(entry.index);
        }
        Ok(())
    }

    fn cuEventRecord(event: Handle, stream: Handle) {
        queue(event, stream, 0)
    }

    fn cuEventRecordWithFlags(event: Handle, stream: Handle, flags: c_uint) {
        queue(event, stream, flags)
    }

    fn cuEventQuery(event: Handle) {
        let process = process()?;
        let entry = own(process, event)?;
        process.check_sticky(entry.context)?;
        process.device.charge(process.device.machine().host.query_ns)?;
        let done = is_done(process, &own(process, event)?)?;
        process.check_sticky(entry.context)?;
        if !done {
            return Err(code::NOT_READY);
        }
        crate::launch::finish_deferred(process, entry.context)
    }

    fn cuEventSynchronize(event: Handle) {
        let process = process()?;
        let mut entry = own(process, event)?;
        process.check_sticky(entry.context)?;
        if let Some((stream, number)) = entry.pending {
            process.device.wait_held(stream, number)?;
            entry = own(process, event)?;
        }
        if let Some((stream, seq)) = last_recorded(process, &entry)? {
            process.device.wait_stream(stream, seq)?;
        }
        process.device.charge(process.device.machine().host.sync_ns)?;
        crate::launch::finish_deferred(process, entry.context)?;
        super::pool::trim_all(process)?;
        process.check_sticky(entry.context)
    }

    fn cuEventElapsedTime(milliseconds: *mut f32, start: Handle, end: Handle) {
        elapsed(milliseconds, start, end)
    }

    fn cuEventElapsedTime_v2(milliseconds: *mut f32, start: Handle, end: Handle) {
        elapsed(milliseconds, start, end)
    }
}

/// An event that stands for work of its own rather than for a place in a graph.
fn own(process: &Process, event: Handle) -> Result<EventEntry, Code> {
    let tables = process.ready()?;
    let entry = *tables.events.get(event)?;
    if tables.captured_events.contains_key(&(event as usize)) {
        return Err(code::CAPTURED_EVENT);
    }
    Ok(entry)
}

fn queue(event: Handle, stream: Handle, flags: c_uint) -> Result<(), Code> {
    if flags > 1 {
        return Err(code::INVALID_VALUE);
    }
    let process = process()?;
    let entry = *process.ready()?.events.get(event)?;
    let target = process.stream(stream)?;
    if entry.context != target.context {
        return Err(code::INVALID_HANDLE);
    }
    // CU_EVENT_RECORD_EXTERNAL (cuda.h) makes a node of it where the other form marks a place.
    if flags == 0 && super::graph::capture::mark(process, &target, event)? {
        return Ok(());
    }
    perform(
        process,
        &target,
        Action::Record(event as usize),
        Pace::Later,
    )
}

/// Records an event in a stream.
///
/// # Errors
/// When the event is gone or belongs to another context.
pub(super) fn record(
    process: &Process,
    stream: &StreamEntry,
    event: usize,
    pace: Pace,
) -> Result<(), Code> {
    let event = event as Handle;
    let entry = *process.ready()?.events.get(event)?;
    if entry.context != stream.context {
        return Err(code::INVALID_HANDLE);
    }
    charge(process, pace, process.device.machine().host.event_ns)?;
    let op = Op {
        kind: OpKind::Record,
        target: entry.index,
        ..Op::default()
    };
    let seq = process.device.submit(stream.slot, op)?;
    let mut tables = process.tables();
    tables.captured_events.remove(&(event as usize));
    tables.events.get_mut(event)?.recorded = Some((stream.slot, seq));
    drop(tables);
    if entry.interprocess {
        super::ipc::set_event_recorded(process, entry.index, Some((stream.slot, seq)))?;
    }
    Ok(())
}

/// A held recording has been carried out: unless a later one is held, none is.
pub(super) fn settle(process: &Process, event: Handle, held: (u32, u64)) {
    if let Ok(entry) = process.tables().events.get_mut(event)
        && entry.pending == Some(held)
    {
        entry.pending = None;
    }
}

/// Lets a stream wait for an event.
///
/// # Errors
/// When the event is gone.
pub(super) fn wait(
    process: &Process,
    stream: &StreamEntry,
    event: usize,
    pace: Pace,
) -> Result<(), Code> {
    let entry = *process.ready()?.events.get(event as Handle)?;
    charge(process, pace, process.device.machine().host.event_ns)?;
    let recorded = last_recorded(process, &entry)?;
    if let Some((target, target_seq)) = recorded.filter(|(slot, _)| *slot != stream.slot) {
        wait_for(process, stream.slot, target, target_seq)?;
    }
    Ok(())
}

fn elapsed(milliseconds: *mut f32, start: Handle, end: Handle) -> Result<(), Code> {
    let process = process()?;
    let (first, last) = (own(process, start)?, own(process, end)?);
    process.check_sticky(first.context)?;
    for event in [&first, &last] {
        let recorded = event.recorded.is_some() || event.pending.is_some();
        if event.timing_disabled || !recorded {
            return Err(code::INVALID_HANDLE);
        }
        if !is_done(process, event)? {
            return Err(code::NOT_READY);
        }
    }
    let time = |event: &EventEntry| process.device.shared().event_time_ns(event.index);
    let ns = i128::from(time(&last)) - i128::from(time(&first));
    // SAFETY: the caller's place, checked for null.
    unsafe { put(milliseconds, (ns as f64 / 1e6) as f32) }
}
