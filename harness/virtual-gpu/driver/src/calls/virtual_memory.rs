//! Calls on physical memory, address ranges, and the maps between them.

use std::ffi::c_int;
use std::io::Read;
use std::os::fd::IntoRawFd;

use super::wait_for_context;
use crate::code::{self, Code, refuse};
use crate::device_memory::{take, take_without_context};
use crate::entries::{Origin, PhysicalEntry};
use crate::handles::Handle;
use crate::host_process::memfd;
use crate::ipc::{Kind, Ticket, is_in_reach, is_there};
use crate::placement::visible_context;
use crate::process::{current_handle, process};
use crate::virtual_memory::{GRANULARITY, held, is_whole, let_go, whole_maps};
use gpubench_virtual_gpu_model::state::NONE;

/// Allocates physical memory, with or without a context.
pub fn create(bytes: u64, exportable: bool) -> Result<u64, Code> {
    refuse(!is_whole(bytes), code::INVALID_VALUE)?;
    let process = process()?;
    drop(process.ready()?);
    let context = match current_handle() {
        Some(_) => process.current()?.slot,
        None => NONE,
    };
    process.charge_locked(process.host().alloc_ns)?;
    let made = match context {
        NONE => take_without_context(process, &visible_context(&process.device)?, bytes)?,
        context => take(process, context, bytes)?,
    };
    let handle = process.tables().physical.insert(PhysicalEntry {
        offset: made.offset,
        bytes,
        context,
        holders: 1,
        handles: 1,
        exportable,
        owner: None,
    })?;
    Ok(handle as u64)
}

/// A file descriptor that names physical memory and can be passed to other processes.
pub fn export(handle: u64) -> Result<c_int, Code> {
    let process = process()?;
    let physical = *held(&mut *process.ready()?, handle)?;
    refuse(!physical.exportable || physical.owner.is_some(), code::INVALID_VALUE)?;
    // What other processes write is not this one's to skip or to remember.
    let origin = Origin::Mapped(handle as usize);
    let mut tables = process.ready()?;
    tables.allocations.values_mut().filter(|a| a.origin == origin).for_each(|a| a.open = true);
    drop(tables);
    let ticket = Ticket::new(process, Kind::Physical, physical.offset, physical.bytes)?;
    let made = memfd(&ticket.pack());
    Ok(made.map_err(|_| code::OPERATING_SYSTEM)?.into_raw_fd())
}

/// The physical memory that a descriptor names: another handle of this process's own, or that of
/// another process, which ends with it.
pub fn import(descriptor: c_int) -> Result<u64, Code> {
    let process = process()?;
    let mut contents = [0; 64];
    let file = std::fs::File::open(format!("/proc/self/fd/{descriptor}"));
    let read = file.and_then(|mut file| file.read_exact(&mut contents));
    read.map_err(|_| code::INVALID_VALUE)?;
    let ticket = Ticket::unpack(process, Kind::Physical, &contents)?;
    let mut tables = process.ready()?;
    if ticket.owner.pid == std::process::id() {
        let same = |p: &PhysicalEntry| p.owner.is_none() && p.offset == ticket.owner.offset;
        let handle = tables.physical.find(same).ok_or(code::INVALID_VALUE)?;
        let entry = tables.physical.get_mut(handle)?;
        entry.handles += 1;
        entry.holders += 1;
        return Ok(handle as u64);
    }
    drop(tables);
    process.device.catch_up()?;
    refuse(!is_there(process, &ticket.owner, ticket.bytes)?, code::INVALID_VALUE)?;
    let context = if current_handle().is_some() { process.current()?.slot } else { NONE };
    let handle = process.tables().physical.insert(PhysicalEntry {
        offset: ticket.owner.offset,
        bytes: ticket.bytes,
        context,
        holders: 1,
        handles: 1,
        exportable: false,
        owner: Some(ticket.owner),
    })?;
    Ok(handle as u64)
}

pub fn release(handle: u64) -> Result<(), Code> {
    let process = process()?;
    held(&mut *process.ready()?, handle)?.handles -= 1;
    let_go(process, handle as usize)
}

/// A further handle of the physical memory that is mapped at an address.
pub fn retain(pointer: u64) -> Result<u64, Code> {
    let mut tables = process()?.ready()?;
    let found = tables.covering(pointer, 1);
    let Some(Origin::Mapped(physical)) = found.map(|(_, entry)| entry.origin.clone()) else {
        return Err(code::INVALID_VALUE);
    };
    let entry = tables.physical.get_mut(physical as Handle)?;
    entry.handles += 1;
    entry.holders += 1;
    Ok(physical as u64)
}

/// Reserves addresses, at `wish` if they are free there.
pub fn reserve(bytes: u64, alignment: usize, wish: u64) -> Result<u64, Code> {
    let aligned = alignment == 0 || alignment.is_power_of_two();
    refuse(!is_whole(bytes) || !aligned, code::INVALID_VALUE)?;
    let alignment = (alignment as u64).max(GRANULARITY);
    let mut tables = process()?.ready()?;
    let address = tables.addresses.take(bytes, alignment, wish);
    address.ok_or(code::OUT_OF_MEMORY)
}

/// Returns reserved addresses at which nothing is mapped.
pub fn free(pointer: u64, bytes: u64) -> Result<(), Code> {
    let mut tables = process()?.ready()?;
    if tables.is_mapped(pointer, bytes) || !tables.addresses.give_back(pointer, bytes) {
        return Err(code::INVALID_VALUE);
    }
    Ok(())
}

/// Maps physical memory at reserved addresses.
pub fn map(pointer: u64, bytes: u64, handle: u64) -> Result<(), Code> {
    let process = process()?;
    let context = process.current()?.slot;
    process.charge(process.host().other_ns)?;
    let physical = *held(&mut *process.ready()?, handle)?;
    if let Some(owner) = physical.owner
        && !is_in_reach(process, context, &owner)?
    {
        return Err(code::INVALID_VALUE);
    }
    let mut tables = process.ready()?;
    let fits = bytes <= physical.bytes && tables.addresses.holds(pointer, bytes);
    refuse(!is_whole(bytes) || !is_whole(pointer) || !fits, code::INVALID_VALUE)?;
    refuse(tables.is_mapped(pointer, bytes), code::ALREADY_MAPPED)?;
    let origin = Origin::Mapped(handle as usize);
    tables.enter(pointer, bytes, context, physical.offset, origin.clone());
    if let Some(entry) = tables.allocations.get_mut(&pointer) {
        (entry.readable, entry.writable) = (false, false);
        entry.owner = physical.owner;
        entry.open = physical.exportable || physical.owner.is_some();
    }
    held(&mut tables, handle)?.holders += 1;
    // Memory that is mapped twice can be written at one address and read at the other.
    let maps = tables.allocations.values_mut();
    let maps: Vec<_> = maps.filter(|entry| entry.origin == origin).collect();
    if maps.len() > 1 {
        maps.into_iter().for_each(|entry| entry.open = true);
    }
    Ok(())
}

/// Unmaps a range once the work that may still use it is done.
pub fn unmap(pointer: u64, bytes: u64) -> Result<(), Code> {
    let process = process()?;
    if current_handle().is_none() {
        // The end of the context has unmapped it.
        let tables = process.ready()?;
        let is_gone = tables.addresses.holds(pointer, bytes) && !tables.is_mapped(pointer, bytes);
        return if is_gone { Ok(()) } else { Err(code::INVALID_CONTEXT) };
    }
    let context = process.current()?;
    whole_maps(&*process.ready()?, pointer, bytes)?;
    wait_for_context(process, context.slot)?;
    process.charge(process.host().other_ns)?;
    let maps = whole_maps(&*process.ready()?, pointer, bytes)?;
    for (address, physical) in maps {
        process.tables().allocations.remove(&address);
        let_go(process, physical)?;
    }
    Ok(())
}
