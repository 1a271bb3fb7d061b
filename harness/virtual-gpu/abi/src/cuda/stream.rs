//! Streams.

use std::ffi::{c_int, c_uint};

use crate::arguments::{put, put_new};
use gpubench_virtual_gpu_driver::calls::stream;
use gpubench_virtual_gpu_driver::handles::Handle;
use gpubench_virtual_gpu_driver::process::process;

entries! {
    fn cuStreamCreate(stream: *mut Handle, flags: c_uint) {
        put_new(stream, || stream::create(flags, 0))
    }

    fn cuStreamCreateWithPriority(stream: *mut Handle, flags: c_uint, priority: c_int) {
        put_new(stream, || stream::create(flags, priority))
    }

    fn cuStreamDestroy_v2(stream: Handle) {
        stream::destroy(stream)
    }

    fn cuStreamSynchronize, cuStreamSynchronize_ptsz(stream: Handle) {
        stream::synchronize(stream)
    }

    fn cuStreamQuery, cuStreamQuery_ptsz(stream: Handle) {
        stream::query(stream)
    }

    fn cuStreamWaitEvent, cuStreamWaitEvent_ptsz(stream: Handle, event: Handle, flags: c_uint) {
        stream::wait_event(stream, event, flags)
    }

    fn cuStreamGetPriority, cuStreamGetPriority_ptsz(stream: Handle, priority: *mut c_int) {
        put(priority, process()?.stream(stream)?.priority)
    }
}
