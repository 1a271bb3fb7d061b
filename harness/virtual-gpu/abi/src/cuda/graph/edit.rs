//! Graphs.

use std::ffi::c_uint;

use crate::arguments::put_new;
use gpubench_virtual_gpu_driver::calls::graph;
use gpubench_virtual_gpu_driver::code;
use gpubench_virtual_gpu_driver::handles::Handle;

entries! {
    fn cuGraphCreate(graph: *mut Handle, flags: c_uint) {
        if flags != 0 {
            return Err(code::INVALID_VALUE);
        }
        put_new(graph, graph::create)
    }

    fn cuGraphDestroy(graph: Handle) {
        graph::destroy(graph)
    }
}
