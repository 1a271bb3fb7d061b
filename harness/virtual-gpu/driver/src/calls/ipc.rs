//! Calls that share memory and events with other processes.

use crate::code::{self, Code, refuse};
use crate::entries::{EventEntry, Origin};
use crate::handles::Handle;
use crate::ipc::{Kind, Ticket, is_in_reach, is_there, open, owner_lives};
use crate::process::{Process, process};
use crate::virtual_memory::GRANULARITY;
use gpubench_virtual_gpu_model::state::EVENTS;

pub fn memory_handle(pointer: u64) -> Result<[u8; 64], Code> {
    let process = process()?;
    process.current()?;
    let (offset, bytes) = {
        let mut tables = process.ready()?;
        let start = tables.covering(pointer, 1).ok_or(code::INVALID_VALUE)?.0;
        let entry = tables.allocations.get_mut(&start);
        // Managed, pooled and mapped memory is shared by other means (cuIpcGetMemHandle).
        let plain = entry.filter(|entry| entry.origin == Origin::Plain);
        let entry = plain.ok_or(code::INVALID_VALUE)?;
        entry.open = true;
        (entry.offset, entry.bytes)
    };
    Ok(Ticket::new(process, Kind::Memory, offset, bytes)?.pack())
}

/// Maps the memory of another process.
pub fn open_memory(handle: &[u8; 64]) -> Result<u64, Code> {
    let process = process()?;
    let context = process.current()?;
    let ticket = of_another_process(process, Kind::Memory, handle)?;
    process.charge_locked(process.host().alloc_ns)?;
    process.device.catch_up()?;
    let there = is_there(process, &ticket.owner, ticket.bytes)?;
    refuse(!there || !is_in_reach(process, context.slot, &ticket.owner)?, code::INVALID_VALUE)?;
    open(process, context.slot, &ticket)
}

/// Unmaps the memory of another process when it is closed as often as it was opened.
pub fn close_memory(pointer: u64) -> Result<(), Code> {
    let process = process()?;
    let context = process.current_even_if_broken()?;
    {
        let mut tables = process.ready()?;
        let entry = tables.allocations.get_mut(&pointer);
        let Some(Origin::Opened(opens)) = entry.map(|entry| &mut entry.origin) else {
            return Err(code::INVALID_VALUE);
        };
        *opens -= 1;
        if *opens > 0 {
            return Ok(());
        }
    }
    process.device.wait_context(context.slot)?;
    let mut tables = process.tables();
    let gone = tables.allocations.remove(&pointer);
    let bytes = gone.map_or(0, |entry| entry.bytes.next_multiple_of(GRANULARITY));
    tables.addresses.give_back(pointer, bytes);
    Ok(())
}

pub fn event_handle(event: Handle) -> Result<[u8; 64], Code> {
    let process = process()?;
    let entry = *process.ready()?.events.get(event)?;
    refuse(!entry.interprocess, code::INVALID_HANDLE)?;
    Ok(Ticket::new(process, Kind::Event, entry.index.into(), 0)?.pack())
}

/// Opens the event of another process.
pub fn open_event(handle: &[u8; 64]) -> Result<Handle, Code> {
    let process = process()?;
    let context = process.current()?;
    let ticket = of_another_process(process, Kind::Event, handle)?;
    let index = u32::try_from(ticket.owner.offset).map_err(|_| code::INVALID_VALUE)?;
    refuse(!owner_lives(process, &ticket.owner)? || index as usize >= EVENTS, code::INVALID_VALUE)?;
    process.tables().events.insert(EventEntry {
        index,
        context: context.slot,
        timing_disabled: true,
        interprocess: true,
        opened: true,
        recorded: None,
    })
}

fn of_another_process(process: &Process, kind: Kind, handle: &[u8; 64]) -> Result<Ticket, Code> {
    let ticket = Ticket::unpack(process, kind, handle)?;
    refuse(ticket.owner.pid == std::process::id(), code::INVALID_CONTEXT)?;
    Ok(ticket)
}
