//! Events: marks in streams, with the time at which the device passed them.
#![expect(
    unsafe_code,
    reason = "a C interface is made of raw pointers and exported names"
)]

use std::ffi::c_uint;

use super::global::entries;
use crate::abi::code::{self, Code};
use crate::abi::handles::Handle;
use crate::abi::process::{EventEntry, Process, process};
use crate::abi::put;
use crate::state::{Op, OpKind};

/// `CU_EVENT_DISABLE_TIMING` (cuda.h).
const DISABLE_TIMING: c_uint = 2;

/// Whether the event's last recording has completed.
fn is_done(process: &Process, event: &EventEntry) -> Result<bool, Code> {
    let Some((stream, seq)) = event.recorded else {
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
        if event.is_null() || flags > 7 {
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
            timing_disabled: flags & DISABLE_TIMING != 0,
            recorded: None,
        };
        let handle = process.tables().events.insert(entry)?;
        // SAFETY: the caller's place, checked for null above.
        unsafe { put(event, handle) }
    }

    fn cuEventDestroy_v2(event: Handle) {
        let process = process()?;
        let entry = process.ready()?.events.remove(event)?;
        process.device.shared().free_event(entry.index);
        Ok(())
    }

    fn cuEventRecord(event: Handle, stream: Handle) {
        record(event, stream)
    }

    fn cuEventRecordWithFlags(event: Handle, stream: Handle, flags: c_uint) {
        if flags > 1 {
            return Err(code::INVALID_VALUE);
        }
        record(event, stream)
    }

    fn cuEventQuery(event: Handle) {
        let process = process()?;
        let entry = *process.ready()?.events.get(event)?;
        process.check_sticky(entry.context)?;
        process.device.charge(process.device.machine().host.query_ns)?;
        let done = is_done(process, &entry)?;
        process.check_sticky(entry.context)?;
        if done { Ok(()) } else { Err(code::NOT_READY) }
    }

    fn cuEventSynchronize(event: Handle) {
        let process = process()?;
        let entry = *process.ready()?.events.get(event)?;
        process.check_sticky(entry.context)?;
        if let Some((stream, seq)) = entry.recorded {
            process.device.wait_stream(stream, seq)?;
        }
        process.device.charge(process.device.machine().host.sync_ns)?;
        crate::launch::finish_deferred(process, entry.context)?;
        process.check_sticky(entry.context)
    }

    fn cuEventElapsedTime(milliseconds: *mut f32, start: Handle, end: Handle) {
        elapsed(milliseconds, start, end)
    }

    fn cuEventElapsedTime_v2(milliseconds: *mut f32, start: Handle, end: Handle) {
        elapsed(milliseconds, start, end)
    }
}

fn record(event: Handle, stream: Handle) -> Result<(), Code> {
    let process = process()?;
    let entry = *process.ready()?.events.get(event)?;
    let target = process.stream(stream)?;
    if entry.context != target.context {
        return Err(code::INVALID_HANDLE);
    }
    process
        .device
        .charge(process.device.machine().host.event_ns)?;
    let op = Op {
        kind: OpKind::Record,
        target: entry.index,
        ..Op::default()
    };
    let seq = process.device.submit(target.slot, op)?;
    process.tables().events.get_mut(event)?.recorded = Some((target.slot, seq));
    Ok(())
}

fn elapsed(milliseconds: *mut f32, start: Handle, end: Handle) -> Result<(), Code> {
    let process = process()?;
    let (first, last) = {
        let tables = process.ready()?;
        (*tables.events.get(start)?, *tables.events.get(end)?)
    };
    process.check_sticky(first.context)?;
    for event in [&first, &last] {
        if event.timing_disabled || event.recorded.is_none() {
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
