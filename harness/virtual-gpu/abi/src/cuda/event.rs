//! Events: marks in streams, with the time at which the device passed them.

use std::ffi::c_uint;

use crate::arguments::put;
use gpubench_virtual_gpu_driver::calls::events::queue;
use gpubench_virtual_gpu_driver::code::{self, Code};
use gpubench_virtual_gpu_driver::entries::EventEntry;
use gpubench_virtual_gpu_driver::event::{is_done, last_recorded, own};
use gpubench_virtual_gpu_driver::handles::Handle;
use gpubench_virtual_gpu_driver::process::process;
use gpubench_virtual_gpu_driver::{ipc, pool};

/// `CU_EVENT_DISABLE_TIMING` and `CU_EVENT_INTERPROCESS` (cuda.h).
const DISABLE_TIMING: c_uint = 2;

const INTERPROCESS: c_uint = 4;

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
            ipc::set_event_recorded(process, index, None)?;
        }
        let handle = process.tables().events.insert(entry)?;
        put(event, handle)
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

    fn cuEventRecord, cuEventRecord_ptsz(event: Handle, stream: Handle) {
        queue(event, stream, 0)
    }

    fn cuEventRecordWithFlags, cuEventRecordWithFlags_ptsz(
        event: Handle, stream: Handle, flags: c_uint,
    ) {
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
        gpubench_virtual_gpu_driver::launch::finish_reruns(process, entry.context)
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
        gpubench_virtual_gpu_driver::launch::finish_reruns(process, entry.context)?;
        pool::trim_all(process)?;
        process.check_sticky(entry.context)
    }

    fn cuEventElapsedTime, cuEventElapsedTime_v2(
        milliseconds: *mut f32, start: Handle, end: Handle,
    ) {
        elapsed(milliseconds, start, end)
    }
}

unsafe fn elapsed(milliseconds: *mut f32, start: Handle, end: Handle) -> Result<(), Code> {
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
    put(milliseconds, (ns as f64 / 1e6) as f32)
}
