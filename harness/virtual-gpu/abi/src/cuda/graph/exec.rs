//! Graphs that are ready to launch.

use std::ffi::c_ulonglong;

use crate::arguments::put_new;
use gpubench_virtual_gpu_driver::calls::graph::{destroy_exec, instantiate, launch};
use gpubench_virtual_gpu_driver::handles::Handle;

entries! {
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
