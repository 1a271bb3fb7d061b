//! Graphs that are ready to launch.

use std::ffi::{c_char, c_int, c_uint, c_ulonglong};

use crate::arguments::{put, put_new, put_optional, read};
use crate::cuda::layout::InstantiateParams;
use gpubench_virtual_gpu_driver::calls::graph::{destroy_exec, instantiate, launch, upload};
use gpubench_virtual_gpu_driver::handles::Handle;
use gpubench_virtual_gpu_driver::process::process;

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

    fn cuGraphInstantiateWithParams, cuGraphInstantiateWithParams_ptsz(
        exec: *mut Handle, graph: Handle, params: *mut InstantiateParams,
    ) {
        let mut updated = read(params)?;
        let made = put_new(exec, || instantiate(graph, updated.flags));
        updated.error_node = std::ptr::null_mut();
        // CUDA_GRAPH_INSTANTIATE_SUCCESS and _ERROR are 0 and 1 (cuda.h).
        updated.result = c_int::from(made.is_err());
        put(params, updated)?;
        made
    }

    fn cuGraphExecDestroy(exec: Handle) {
        destroy_exec(exec)
    }

    fn cuGraphExecGetFlags(exec: Handle, flags: *mut c_ulonglong) {
        put(flags, process()?.ready()?.execs.get(exec)?.flags)
    }

    fn cuGraphExecGetId(exec: Handle, id: *mut c_uint) {
        put(id, process()?.ready()?.execs.get(exec)?.number as c_uint)
    }

    fn cuGraphUpload, cuGraphUpload_ptsz(exec: Handle, stream: Handle) {
        upload(exec, stream)
    }

    fn cuGraphLaunch, cuGraphLaunch_ptsz(exec: Handle, stream: Handle) {
        launch(exec, stream)
    }
}
