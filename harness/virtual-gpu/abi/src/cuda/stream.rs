//! Streams.

use std::ffi::{c_int, c_uint, c_ulonglong};

use crate::arguments::put;
use gpubench_virtual_gpu_driver::code::{self, Code};
use gpubench_virtual_gpu_driver::graph::capture;
use gpubench_virtual_gpu_driver::handles::Handle;
use gpubench_virtual_gpu_driver::issue::perform;
use gpubench_virtual_gpu_driver::operation::{Action, WaitPolicy};
use gpubench_virtual_gpu_driver::process::process;
use gpubench_virtual_gpu_driver::stream::{NON_BLOCKING, context_of, open, wait_until_idle};
use gpubench_virtual_gpu_driver::{deferred_queue, pool};
use gpubench_virtual_gpu_model::state::order;

unsafe fn create(stream: *mut Handle, flags: c_uint, priority: c_int) -> Result<(), Code> {
    if stream.is_null() || flags > NON_BLOCKING {
        return Err(code::INVALID_VALUE);
    }
    let process = process()?;
    let context = process.current()?;
    let entry = open(process, &context, flags, priority)?;
    let handle = process.tables().streams.insert(entry)?;
    put(stream, handle)
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
        deferred_queue::pass(process, &entry, Action::Close, WaitPolicy::Later)?;
        process.tables().streams.remove(stream)?;
        Ok(())
    }

    fn cuStreamSynchronize, cuStreamSynchronize_ptsz(stream: Handle) {
        let process = process()?;
        let entry = process.stream(stream)?;
        capture::forbid(process, &entry)?;
        wait_until_idle(process, entry.slot)?;
        process.device.charge(process.device.machine().host.sync_ns)?;
        gpubench_virtual_gpu_driver::launch::finish_reruns(process, entry.context)?;
        pool::trim_all(process)?;
        process.check_sticky(entry.context)
    }

    fn cuStreamQuery, cuStreamQuery_ptsz(stream: Handle) {
        let process = process()?;
        let entry = process.stream(stream)?;
        capture::forbid(process, &entry)?;
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
        gpubench_virtual_gpu_driver::launch::finish_reruns(process, entry.context)
    }

    fn cuStreamWaitEvent, cuStreamWaitEvent_ptsz(stream: Handle, event: Handle, flags: c_uint) {
        if flags > 1 {
            return Err(code::INVALID_VALUE);
        }
        let process = process()?;
        let entry = process.stream(stream)?;
        process.ready()?.events.get(event)?;
        // CU_EVENT_WAIT_EXTERNAL (cuda.h) makes a node of it where the other form joins captures.
        if flags == 0 && capture::join(process, &entry, event)? {
            return Ok(());
        }
        perform(process, &entry, Action::Wait(event as usize), WaitPolicy::Later)
    }

    fn cuStreamGetPriority, cuStreamGetPriority_ptsz(stream: Handle, priority: *mut c_int) {
        let entry = process()?.stream(stream)?;
        put(priority, entry.priority)
    }

    fn cuStreamGetFlags, cuStreamGetFlags_ptsz(stream: Handle, flags: *mut c_uint) {
        let entry = process()?.stream(stream)?;
        put(flags, entry.flags)
    }

    fn cuStreamGetId, cuStreamGetId_ptsz(stream: Handle, id: *mut c_ulonglong) {
        let entry = process()?.stream(stream)?;
        put(id, c_ulonglong::from(entry.slot))
    }

    fn cuStreamGetDevice, cuStreamGetDevice_ptsz(stream: Handle, device: *mut c_int) {
        process()?.stream(stream)?;
        put(device, 0)
    }

    fn cuStreamGetCtx, cuStreamGetCtx_ptsz(stream: Handle, context: *mut Handle) {
        let found = context_of(stream)?;
        put(context, found)
    }
}
