//! Memory of graphs: nodes that allocate, and what the driver keeps for them.
//!
//! A node has its address from the start and memory behind it while the graph that allocated it
//! runs, until something frees it. What is freed stays with the process for the next graph, and so
//! in its account, until `cuDeviceGraphMemTrim`: a pool that gives nothing back by itself.

use std::ffi::c_int;

use crate::arguments::{handles, put, put_new, read};
use crate::cuda::layout::{AllocNode, Location};
use gpubench_virtual_gpu_driver::code;
use gpubench_virtual_gpu_driver::graph::edit::add;
use gpubench_virtual_gpu_driver::graph::memory::pool_on;
use gpubench_virtual_gpu_driver::handles::Handle;
use gpubench_virtual_gpu_driver::operation::Action;
use gpubench_virtual_gpu_driver::pool;
use gpubench_virtual_gpu_driver::process::process;

entries! {
    fn cuGraphAddMemAllocNode(
        node: *mut Handle, graph: Handle, after: *const Handle, count: usize,
        params: *mut AllocNode,
    ) {
        let mut wanted = read(params)?;
        let pool = &wanted.pool;
        let plain = pool.kind == 1 && pool.handle_types == 0 && pool.location == Location::DEVICE;
        if wanted.bytes == 0 || !plain {
            return Err(code::INVALID_VALUE);
        }
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
