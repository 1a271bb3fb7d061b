//! Calls on events: marks in streams, with the time at which the device passes them.

use std::ffi::c_uint;

use super::after_wait;
use crate::code::{self, Code, refuse};
use crate::entries::EventEntry;
use crate::event::{is_done, last_recorded, own};
use crate::execute::perform;
use crate::graph::capture;
use crate::handles::Handle;
use crate::operation::{Action, WaitPolicy};
use crate::process::process;
use crate::{ipc, launch};

/// `CU_EVENT_DISABLE_TIMING` (cuda.h).
const DISABLE_TIMING: c_uint = 2;
/// `CU_EVENT_INTERPROCESS` (cuda.h).
const INTERPROCESS: c_uint = 4;

/// Makes an event of the current context.
pub fn create(flags: c_uint) -> Result<Handle, Code> {
    let timing_disabled = flags & DISABLE_TIMING != 0;
    let interprocess = flags & INTERPROCESS != 0;
    // An event that other processes may open keeps no time (cuIpcGetEventHandle).
    refuse(flags > 7 || (interprocess && !timing_disabled), code::INVALID_VALUE)?;
    let process = process()?;
    let context = process.current()?;
    process.charge(process.host().event_ns)?;
    let device = &process.device;
    let index = device.shared().claim_event(device.process()?);
    let entry = EventEntry {
        index: index.ok_or(code::OUT_OF_MEMORY)?,
        context: context.slot,
        timing_disabled,
        interprocess,
        opened: false,
        recorded: None,
    };
    if interprocess {
        ipc::set_event_recorded(process, entry.index, None)?;
    }
    process.tables().events.insert(entry)
}

pub fn destroy(event: Handle) -> Result<(), Code> {
    let process = process()?;
    let mut tables = process.ready()?;
    let entry = tables.events.remove(event)?;
    tables.captured_events.remove(&(event as usize));
    if !entry.opened {
        process.device.shared().free_event(entry.index);
    }
    Ok(())
}

pub fn record(event: Handle, stream: Handle) -> Result<(), Code> {
    let process = process()?;
    let entry = *process.ready()?.events.get(event)?;
    let target = process.stream(stream)?;
    refuse(entry.context != target.context, code::INVALID_HANDLE)?;
    if capture::mark(process, &target, event)? {
        return Ok(());
    }
    let action = Action::Record(event as usize);
    perform(process, &target, action, WaitPolicy::Later)
}

/// Whether the work before the last record of an event is done.
pub fn query(event: Handle) -> Result<(), Code> {
    let process = process()?;
    let entry = own(process, event)?;
    process.check_sticky(entry.context)?;
    process.charge(process.host().query_ns)?;
    let done = is_done(process, &own(process, event)?)?;
    process.check_sticky(entry.context)?;
    refuse(!done, code::NOT_READY)?;
    launch::finish_reruns(process, entry.context)
}

/// Waits for the work before the last record of an event.
pub fn synchronize(event: Handle) -> Result<(), Code> {
    let process = process()?;
    let entry = own(process, event)?;
    process.check_sticky(entry.context)?;
    if let Some((stream, seq)) = last_recorded(process, &entry)? {
        process.device.wait_stream(stream, seq)?;
    }
    after_wait(process, entry.context)
}

/// Milliseconds between two records.
pub fn elapsed_ms(start: Handle, end: Handle) -> Result<f32, Code> {
    let process = process()?;
    let (first, last) = (own(process, start)?, own(process, end)?);
    process.check_sticky(first.context)?;
    for event in [&first, &last] {
        refuse(event.timing_disabled || event.recorded.is_none(), code::INVALID_HANDLE)?;
        refuse(!is_done(process, event)?, code::NOT_READY)?;
    }
    let time_ns = |event: &EventEntry| process.device.shared().event_time_ns(event.index);
    let ns = i128::from(time_ns(&last)) - i128::from(time_ns(&first));
    Ok((ns as f64 / 1e6) as f32)
}
