//! Memory and events of other processes: handles to give away, and what can be opened with them.
//!
//! A handle says whose memory it is and where in device memory that lies. Of memory that was opened
//! by `cuIpcOpenMemHandle` the owner is asked for at every use: when it has freed the memory or is
//! gone, a copy is refused and a kernel faults. Physical memory that was imported stays for as long
//! as anybody holds it, whatever its maker does (`cuMemImportFromShareableHandle`); a descriptor
//! holds it, too (`exports`).

use std::ffi::{c_int, c_uint, c_ulonglong, c_void};
use std::os::fd::IntoRawFd;

use crate::arguments::put;
use crate::cuda::layout::IpcHandle;
use gpubench_virtual_gpu_driver::code;
use gpubench_virtual_gpu_driver::entries::{EventEntry, Origin};
use gpubench_virtual_gpu_driver::handles::Handle;
use gpubench_virtual_gpu_driver::ipc::{
    Kind, Ticket, export, import, is_in_reach, is_there, open, owner_lives, read_ticket,
};
use gpubench_virtual_gpu_driver::process::process;
use gpubench_virtual_gpu_driver::virtual_memory::{GRANULARITY, held};
use gpubench_virtual_gpu_model::state::EVENTS;

entries! {
    fn cuIpcGetMemHandle(handle: *mut IpcHandle, pointer: u64) {
        let process = process()?;
        process.current()?;
        let (offset, bytes) = {
            let mut tables = process.ready()?;
            let found = tables.covering(pointer, 1).map(|(start, _)| start);
            let start = found.ok_or(code::INVALID_VALUE)?;
            let entry = tables.allocations.get_mut(&start).ok_or(code::INVALID_VALUE)?;
            // Managed, pooled and mapped memory is shared by other means (cuIpcGetMemHandle).
            if entry.origin != Origin::Plain {
                return Err(code::INVALID_VALUE);
            }
            entry.open = true;
            (entry.offset, entry.bytes)
        };
        let ticket = Ticket::new(process, Kind::Memory, offset, bytes)?;
        put(handle, IpcHandle(ticket.pack()))
    }

    fn cuIpcOpenMemHandle_v2(pointer: *mut u64, handle: IpcHandle, flags: c_uint) {
        // CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS is the only flag, and has to be there (cuda.h).
        if pointer.is_null() || flags != 1 {
            return Err(code::INVALID_VALUE);
        }
        let process = process()?;
        let context = process.current()?;
        let ticket = Ticket::unpack(process, Kind::Memory, &handle.0)?;
        if ticket.owner.pid == std::process::id() {
            return Err(code::INVALID_CONTEXT);
        }
        process.device.charge_locked(process.device.machine().host.alloc_ns)?;
        process.device.catch_up()?;
        if !is_there(process, &ticket.owner, ticket.bytes)? {
            return Err(code::INVALID_VALUE);
        }
        if !is_in_reach(process, context.slot, &ticket.owner)? {
            return Err(code::INVALID_VALUE);
        }
        let address = open(process, context.slot, &ticket)?;
        put(pointer, address)
    }

    fn cuIpcCloseMemHandle(pointer: u64) {
        let process = process()?;
        let context = process.current_even_if_broken()?;
        let mut tables = process.ready()?;
        let entry = tables.allocations.get_mut(&pointer).ok_or(code::INVALID_VALUE)?;
        let Origin::Opened(opens) = &mut entry.origin else {
            return Err(code::INVALID_VALUE);
        };
        *opens -= 1;
        let last = *opens == 0;
        drop(tables);
        if last {
            process.device.wait_context(context.slot)?;
            let mut tables = process.tables();
            let gone = tables.allocations.remove(&pointer);
            let bytes = gone.map_or(0, |entry| entry.bytes.next_multiple_of(GRANULARITY));
            tables.addresses.give_back(pointer, bytes);
        }
        Ok(())
    }

    fn cuIpcGetEventHandle(handle: *mut IpcHandle, event: Handle) {
        let process = process()?;
        let entry = *process.ready()?.events.get(event)?;
        if !entry.interprocess {
            return Err(code::INVALID_HANDLE);
        }
        let ticket = Ticket::new(process, Kind::Event, entry.index.into(), 0)?;
        put(handle, IpcHandle(ticket.pack()))
    }

    fn cuIpcOpenEventHandle(event: *mut Handle, handle: IpcHandle) {
        if event.is_null() {
            return Err(code::INVALID_VALUE);
        }
        let process = process()?;
        let context = process.current()?;
        let ticket = Ticket::unpack(process, Kind::Event, &handle.0)?;
        if ticket.owner.pid == std::process::id() {
            return Err(code::INVALID_CONTEXT);
        }
        let index = u32::try_from(ticket.owner.offset).map_err(|_| code::INVALID_VALUE)?;
        if !owner_lives(process, &ticket.owner)? || index as usize >= EVENTS {
            return Err(code::INVALID_VALUE);
        }
        let entry = EventEntry {
            index,
            context: context.slot,
            timing_disabled: true,
            interprocess: true,
            opened: true,
            recorded: None,
            pending: None,
        };
        let made = process.tables().events.insert(entry)?;
        put(event, made)
    }

    fn cuMemExportToShareableHandle(
        shareable: *mut c_void, handle: u64, kind: c_int, flags: c_ulonglong,
    ) {
        // CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR is 1 (cuda.h).
        if shareable.is_null() || kind != 1 || flags != 0 {
            return Err(code::INVALID_VALUE);
        }
        let process = process()?;
        let physical = *held(&mut *process.ready()?, handle)?;
        if !physical.exportable || physical.imported {
            return Err(code::INVALID_VALUE);
        }
        let ticket = Ticket::new(process, Kind::Physical, physical.offset, physical.bytes)?;
        let file = export(process, &ticket)?;
        put(shareable.cast::<c_int>(), file.into_raw_fd())
    }

    fn cuMemImportFromShareableHandle(handle: *mut u64, shareable: *mut c_void, kind: c_int) {
        // The descriptor itself is passed as if it were a pointer (cuda.h).
        let descriptor = c_int::try_from(shareable as usize).map_err(|_| code::INVALID_VALUE)?;
        if handle.is_null() || kind != 1 {
            return Err(code::INVALID_VALUE);
        }
        let process = process()?;
        let context = process.current()?;
        let ticket = Ticket::unpack(process, Kind::Physical, &read_ticket(descriptor)?)?;
        let made = import(process, context.slot, &ticket)?;
        put(handle, made as u64)
    }
}
