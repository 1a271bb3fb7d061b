//! Making graphs ready, and launching them.
//!
//! Steps that do not depend on each other run in streams of the graph's own, so that the device
//! may overlap them. A step waits for the steps before it in other streams as a stream waits for
//! an event.

use std::ffi::{c_char, c_int, c_uint, c_ulonglong};

use crate::arguments::{put, put_optional, read};
use crate::cuda::layout::InstantiateParams;
use gpubench_virtual_gpu_driver::calls::graphs::free_leftovers;
use gpubench_virtual_gpu_driver::code::{self, Code};
use gpubench_virtual_gpu_driver::deferred_queue;
use gpubench_virtual_gpu_driver::graph::capture;
use gpubench_virtual_gpu_driver::graph::entries::ExecEntry;
use gpubench_virtual_gpu_driver::graph::instantiate::{
    AUTO_FREE, DEVICE_LAUNCH, FLAGS, flatten, lay_out, same_context,
};
use gpubench_virtual_gpu_driver::handles::Handle;
use gpubench_virtual_gpu_driver::operation::{Action, WaitPolicy};
use gpubench_virtual_gpu_driver::process::process;
use gpubench_virtual_gpu_driver::stream::{NON_BLOCKING, close, open};
use gpubench_virtual_gpu_driver::submit::submitted;

entries! {
    fn cuGraphInstantiate, cuGraphInstantiate_v2(
        exec: *mut Handle, graph: Handle, error_node: *mut Handle, log: *mut c_char,
        log_bytes: usize,
    ) {
        let _ = (log, log_bytes);
        older(exec, graph, error_node)
    }

    fn cuGraphInstantiateWithFlags(exec: *mut Handle, graph: Handle, flags: c_ulonglong) {
        instantiate(exec, graph, flags)
    }

    fn cuGraphInstantiateWithParams, cuGraphInstantiateWithParams_ptsz(
        exec: *mut Handle, graph: Handle, params: *mut InstantiateParams,
    ) {
        let mut params_now = read(params)?;
        let made = instantiate(exec, graph, params_now.flags);
        params_now.error_node = std::ptr::null_mut();
        // CUDA_GRAPH_INSTANTIATE_SUCCESS and _ERROR are 0 and 1 (cuda.h).
        params_now.result = c_int::from(made.is_err());
        put(params, params_now)?;
        made
    }

    fn cuGraphExecDestroy(exec: Handle) {
        let process = process()?;
        let lanes = process.ready()?.execs.get(exec)?.lanes.clone();
        // What is queued still runs; the streams can go only when it has.
        deferred_queue::drain(process)?;
        for lane in &lanes {
            process.device.wait_stream(*lane, submitted(*lane)?)?;
        }
        process.tables().execs.remove(exec)?;
        lanes.into_iter().try_for_each(|lane| close(process, lane))
    }

    fn cuGraphExecGetFlags(exec: Handle, flags: *mut c_ulonglong) {
        let found = process()?.ready()?.execs.get(exec)?.flags;
        put(flags, found)
    }

    fn cuGraphExecGetId(exec: Handle, id: *mut c_uint) {
        let found = process()?.ready()?.execs.get(exec)?.number;
        put(id, found as c_uint)
    }

    fn cuGraphUpload, cuGraphUpload_ptsz(exec: Handle, stream: Handle) {
        let process = process()?;
        let stream = process.stream(stream)?;
        same_context(process, exec, &stream)?;
        process.device.charge(process.device.machine().host.other_ns)?;
        Ok(())
    }

    fn cuGraphLaunch, cuGraphLaunch_ptsz(exec: Handle, stream: Handle) {
        let process = process()?;
        let stream = process.stream(stream)?;
        capture::forbid(process, &stream)?;
        let entry = same_context(process, exec, &stream)?;
        process.device.charge(process.device.machine().host.launch_ns)?;
        if entry.flags & AUTO_FREE != 0 {
            free_leftovers(process, &entry, &stream)?;
        }
        deferred_queue::pass(process, &stream, Action::Launch(Box::new(entry)), WaitPolicy::Graph)
    }
}

/// # Safety
/// `error_node` is null or valid.
unsafe fn older(exec: *mut Handle, graph: Handle, error_node: *mut Handle) -> Result<(), Code> {
    put_optional(error_node, std::ptr::null_mut());
    instantiate(exec, graph, 0)
}

unsafe fn instantiate(exec: *mut Handle, graph: Handle, flags: u64) -> Result<(), Code> {
    if exec.is_null() || flags & !FLAGS != 0 {
        return Err(code::INVALID_VALUE);
    }
    if flags & DEVICE_LAUNCH != 0 {
        return Err(code::NOT_SUPPORTED);
    }
    let process = process()?;
    let context = process.current()?;
    process
        .device
        .charge(process.device.machine().host.other_ns)?;
    let mut steps = Vec::new();
    flatten(&*process.ready()?, graph as usize, &[], &mut steps)?;
    let wanted = lay_out(&mut steps);
    let mut lanes = Vec::new();
    for _ in 0..wanted {
        lanes.push(open(process, &context, NON_BLOCKING, 0)?.slot);
    }
    let mut tables = process.tables();
    let number = tables.fresh_number();
    let made = ExecEntry {
        context: context.slot,
        number,
        flags,
        steps,
        lanes,
    };
    let handle = tables.execs.insert(made)?;
    put(exec, handle)
}
