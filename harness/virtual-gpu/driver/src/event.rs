//! Events: marks in streams, with the time at which the device passed them.

use crate::code::{self, Code, refuse};
use crate::entries::EventEntry;
use crate::handles::Handle;
use crate::ipc;
use crate::issue::Issue;
use crate::process::Process;
use crate::submit::{charge, wait_for};
use gpubench_virtual_gpu_model::state::{Op, OpKind};

/// Stream and sequence number of an event's last recording, by any process.
pub fn last_recorded(process: &Process, event: &EventEntry) -> Result<Option<(u32, u64)>, Code> {
    if event.interprocess { ipc::event_recorded(process, event.index) } else { Ok(event.recorded) }
}

/// Whether the event's last recording has completed.
pub fn is_done(process: &Process, event: &EventEntry) -> Result<bool, Code> {
    let Some((stream, seq)) = last_recorded(process, event)? else { return Ok(true) };
    let done = process.device.transact(|state, _| {
        let slot = &state.streams.rows[stream as usize];
        !slot.live || slot.completed >= seq
    })?;
    Ok(done)
}

/// An event that was not recorded in a capture.
pub fn own(process: &Process, event: Handle) -> Result<EventEntry, Code> {
    let tables = process.ready()?;
    let entry = *tables.events.get(event)?;
    refuse(tables.captured_events.contains_key(&(event as usize)), code::CAPTURED_EVENT)?;
    Ok(entry)
}

pub fn record(Issue { process, stream, policy }: Issue<'_>, event: usize) -> Result<(), Code> {
    let event = event as Handle;
    let entry = *process.ready()?.events.get(event)?;
    refuse(entry.context != stream.context, code::INVALID_HANDLE)?;
    charge(process, policy, process.device.machine().host.event_ns)?;
    let op = Op { kind: OpKind::Record, target: entry.index, ..Op::default() };
    let seq = process.device.submit(stream.slot, op)?;
    let mut tables = process.tables();
    tables.captured_events.remove(&(event as usize));
    tables.events.get_mut(event)?.recorded = Some((stream.slot, seq));
    drop(tables);
    if entry.interprocess {
        ipc::set_event_recorded(process, entry.index, Some((stream.slot, seq)))?;
    }
    Ok(())
}

/// Makes a stream wait for an event.
pub fn wait(Issue { process, stream, policy }: Issue<'_>, event: usize) -> Result<(), Code> {
    let entry = *process.ready()?.events.get(event as Handle)?;
    charge(process, policy, process.device.machine().host.event_ns)?;
    let recorded = last_recorded(process, &entry)?;
    if let Some((target, target_seq)) = recorded.filter(|(slot, _)| *slot != stream.slot) {
        wait_for(process, stream.slot, target, target_seq)?;
    }
    Ok(())
}
