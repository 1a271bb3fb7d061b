//! Graphs that are ready to launch.

use std::ffi::{c_char, c_ulonglong};

use crate::arguments::{put_new, put_optional};
use gpubench_virtual_gpu_driver::calls::graph::{destroy_exec, instantiate, launch};
use gpubench_virtual_gpu_driver::handles::Handle;

entries! {
    fn cuGraphInstantiate, cuGraphInstantiate_v2(
        exec: *mut Handle, graph: Handle, error_node: *mut Handle, log: *mut c_char,
        log_bytes: usize,
    ) {
        let _ = (log, log_bytes);
        put_optional(error_node, std::ptr::null_mut());
        put_new(exec, || instantiate(graph, 0))
    }

    fn cuGraphInstantiateWithFlags(exec: *mut Handle, graph: Handle, flags: c_ulonglong) {
        put_new(exec, || instantiate(graph, flags))
    }

    fn cuGraphExecDestroy(exec: Handle) {
        destroy_exec(exec)
    }

    fn cuGraphLaunch, cuGraphLaunch_ptsz(exec: Handle, stream: Handle) {
        launch(exec, stream)
    }
}
