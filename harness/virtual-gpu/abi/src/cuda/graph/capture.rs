//! Recording streams into a graph: what would have been queued becomes nodes.

use std::ffi::c_int;

use crate::arguments::put;
use gpubench_virtual_gpu_driver::code;
use gpubench_virtual_gpu_driver::graph::capture::{begin, end, status};
use gpubench_virtual_gpu_driver::handles::Handle;
use gpubench_virtual_gpu_driver::process::process;

entries! {
    fn cuStreamBeginCapture_v2, cuStreamBeginCapture_v2_ptsz(stream: Handle, mode: c_int) {
        begin(stream, mode)
    }

    fn cuStreamEndCapture, cuStreamEndCapture_ptsz(stream: Handle, graph: *mut Handle) {
        if graph.is_null() {
            return Err(code::INVALID_VALUE);
        }
        let process = process()?;
        let entry = process.stream(stream)?;
        let ended = end(&mut *process.ready()?, &entry);
        let found = ended.as_ref().map_or(std::ptr::null_mut(), |made| *made as Handle);
        put(graph, found)?;
        ended.map(|_| ())
    }

    fn cuStreamIsCapturing, cuStreamIsCapturing_ptsz(stream: Handle, to: *mut c_int) {
        put(to, status(stream)?)
    }

}
