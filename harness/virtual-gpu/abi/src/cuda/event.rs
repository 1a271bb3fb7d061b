//! Events.

use std::ffi::c_uint;

use crate::arguments::{put, put_new};
use gpubench_virtual_gpu_driver::calls::event;
use gpubench_virtual_gpu_driver::handles::Handle;

entries! {
    fn cuEventCreate(event: *mut Handle, flags: c_uint) {
        put_new(event, || event::create(flags))
    }

    fn cuEventDestroy_v2(event: Handle) {
        event::destroy(event)
    }

    fn cuEventRecord, cuEventRecord_ptsz(event: Handle, stream: Handle) {
        event::record(event, stream)
    }

    fn cuEventQuery(event: Handle) {
        event::query(event)
    }

    fn cuEventSynchronize(event: Handle) {
        event::synchronize(event)
    }

    fn cuEventElapsedTime, cuEventElapsedTime_v2(
        milliseconds: *mut f32, start: Handle, end: Handle,
    ) {
        put(milliseconds, event::elapsed_ms(start, end)?)
    }
}
