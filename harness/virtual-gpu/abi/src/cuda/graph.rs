//! Graphs: recording streams into them, what allocates memory in them, and their launches.
//!
//! A node that allocates has its address from the start and memory behind it while the graph that
//! allocated it runs, until something frees it. What is freed stays with the process for the next
//! graph, and so in its account, until `cuDeviceGraphMemTrim`: a pool that gives nothing back by
//! itself.

use std::ffi::{c_int, c_uint, c_ulonglong};

use crate::arguments::{handles, put, put_new, read};
use crate::cuda::layout::{AllocNode, Location};
use gpubench_virtual_gpu_driver::calls::graph::{self, destroy_exec, instantiate, launch};
use gpubench_virtual_gpu_driver::code::refuse;
use gpubench_virtual_gpu_driver::graph::capture::{begin, end, status};
use gpubench_virtual_gpu_driver::graph::edit::add;
use gpubench_virtual_gpu_driver::graph::instantiate::pool_on;
use gpubench_virtual_gpu_driver::handles::Handle;
use gpubench_virtual_gpu_driver::operation::Action;
use gpubench_virtual_gpu_driver::process::process;
use gpubench_virtual_gpu_driver::{code, pool};

entries! {
    fn cuGraphCreate(graph: *mut Handle, flags: c_uint) {
        refuse(flags != 0, code::INVALID_VALUE)?;
        put_new(graph, graph::create)
    }

    fn cuGraphDestroy(graph: Handle) { graph::destroy(graph) }
    fn cuStreamBeginCapture_v2, cuStreamBeginCapture_v2_ptsz(stream: Handle, mode: c_int) {
        begin(stream, mode)
    }

    fn cuStreamEndCapture, cuStreamEndCapture_ptsz(stream: Handle, graph: *mut Handle) {
        refuse(graph.is_null(), code::INVALID_VALUE)?;
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

    fn cuGraphInstantiateWithFlags(exec: *mut Handle, graph: Handle, flags: c_ulonglong) {
        put_new(exec, || instantiate(graph, flags))
    }

    fn cuGraphExecDestroy(exec: Handle) { destroy_exec(exec) }
    fn cuGraphLaunch, cuGraphLaunch_ptsz(exec: Handle, stream: Handle) { launch(exec, stream) }
    fn cuGraphAddMemAllocNode(
        node: *mut Handle, graph: Handle, after: *const Handle, count: usize,
        params: *mut AllocNode,
    ) {
        let mut wanted = read(params)?;
        let pool = &wanted.pool;
        let plain = pool.kind == 1 && pool.handle_types == 0 && pool.location == Location::DEVICE;
        refuse(wanted.bytes == 0 || !plain, code::INVALID_VALUE)?;
        let process = process()?;
        process.ready()?.graphs.get(graph)?;
        let reserved = pool::reserve(process, wanted.bytes as u64)?;
        wanted.pointer = reserved.address;
        put_new(node, || {
            let after = handles(after, count)?;
            let action = Action::Allocate(reserved);
            Ok(add(&mut *process.ready()?, graph as usize, after, action)? as Handle)
        })?;
        put(params, wanted)
    }

    fn cuDeviceGraphMemTrim(device: c_int) {
        let process = process()?;
        let pool = pool_on(process, device)?;
        pool::trim(process, pool, 0)
    }
}
