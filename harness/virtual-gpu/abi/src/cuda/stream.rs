//! Streams and events.

use std::ffi::{c_int, c_uint};

use crate::arguments::{put, put_new};
use gpubench_virtual_gpu_driver::calls::{event, stream};
use gpubench_virtual_gpu_driver::handles::Handle;
use gpubench_virtual_gpu_driver::process::process;

entries! {
    fn cuStreamCreate(stream: *mut Handle, flags: c_uint) {
        put_new(stream, || stream::create(flags, 0))
    }

    fn cuStreamCreateWithPriority(stream: *mut Handle, flags: c_uint, priority: c_int) {
        put_new(stream, || stream::create(flags, priority))
    }

    fn cuStreamDestroy_v2(stream: Handle) { stream::destroy(stream) }
    fn cuStreamSynchronize, cuStreamSynchronize_ptsz(stream: Handle) { stream::synchronize(stream) }
    fn cuStreamQuery, cuStreamQuery_ptsz(stream: Handle) { stream::query(stream) }
    fn cuStreamWaitEvent, cuStreamWaitEvent_ptsz(stream: Handle, event: Handle, flags: c_uint) {
        stream::wait_event(stream, event, flags)
    }

    fn cuStreamGetPriority, cuStreamGetPriority_ptsz(stream: Handle, priority: *mut c_int) {
        put(priority, process()?.stream(stream)?.priority)
    }

    fn cuEventCreate(event: *mut Handle, flags: c_uint) { put_new(event, || event::create(flags)) }
    fn cuEventDestroy_v2(event: Handle) { event::destroy(event) }
    fn cuEventRecord, cuEventRecord_ptsz(event: Handle, stream: Handle) {
        event::record(event, stream)
    }

    fn cuEventQuery(event: Handle) { event::query(event) }
    fn cuEventSynchronize(event: Handle) { event::synchronize(event) }
    fn cuEventElapsedTime, cuEventElapsedTime_v2(
        milliseconds: *mut f32, start: Handle, end: Handle,
    ) { put(milliseconds, event::elapsed_ms(start, end)?) }
}
