//! Memory of graphs: nodes that allocate and free, and what the driver keeps for them.
//!
//! A node has its address from the start and memory behind it while the graph that allocated it
//! runs, until something frees it. What is freed stays with the process for the next graph, and so
//! in its account, until `cuDeviceGraphMemTrim`: a pool that gives nothing back by itself.

use std::ffi::{c_int, c_void};

use crate::arguments::{put, read};
use crate::cuda::graph::nodes::enter;
use crate::cuda::layout::{AllocNode, Location, PoolProperties};
use gpubench_virtual_gpu_driver::code;
use gpubench_virtual_gpu_driver::graph::memory::{RESERVED_HIGH, USED_HIGH, figure, pool_on};
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
        enter(node, graph, (after, count), Ok(Action::Allocate(reserved)))?;
        put(params, wanted)
    }

    fn cuGraphMemAllocNodeGetParams(node: Handle, params: *mut AllocNode) {
        let Action::Allocate(reserved) = process()?.ready()?.nodes.get(node)?.action else {
            return Err(code::INVALID_VALUE);
        };
        let found = AllocNode {
            pool: PoolProperties {
                kind: 1,
                handle_types: 0,
                location: Location::DEVICE,
                win32_attributes: std::ptr::null_mut(),
                max_bytes: 0,
                reserved: [0; 56],
            },
            access: std::ptr::null(),
            access_count: 0,
            bytes: reserved.bytes as usize,
            pointer: reserved.address,
        };
        put(params, found)
    }

    fn cuGraphAddMemFreeNode(
        node: *mut Handle, graph: Handle, after: *const Handle, count: usize, pointer: u64,
    ) {
        if pointer == 0 {
            return Err(code::INVALID_VALUE);
        }
        enter(node, graph, (after, count), Ok(Action::Free(pointer)))
    }

    fn cuGraphMemFreeNodeGetParams(node: Handle, pointer: *mut u64) {
        let Action::Free(found) = process()?.ready()?.nodes.get(node)?.action else {
            return Err(code::INVALID_VALUE);
        };
        put(pointer, found)
    }

    fn cuDeviceGraphMemTrim(device: c_int) {
        let process = process()?;
        let pool = pool_on(process, device)?;
        pool::trim(process, pool, 0)
    }

    fn cuDeviceGetGraphMemAttribute(device: c_int, attribute: c_int, value: *mut c_void) {
        let process = process()?;
        let pool = pool_on(process, device)?;
        let found = {
            let mut tables = process.ready()?;
            let entry = tables.pools.get_mut(pool as Handle)?;
            *figure(entry, attribute)?
        };
        put(value.cast::<u64>(), found)
    }

    fn cuDeviceSetGraphMemAttribute(device: c_int, attribute: c_int, value: *mut c_void) {
        let process = process()?;
        let pool = pool_on(process, device)?;
        let wanted = read(value.cast::<u64>())?;
        let mut tables = process.ready()?;
        let entry = tables.pools.get_mut(pool as Handle)?;
        // High watermarks alone can be set, and to the present only, by a 0.
        match attribute {
            USED_HIGH if wanted == 0 => entry.used.1 = entry.used.0,
            RESERVED_HIGH if wanted == 0 => entry.reserved.1 = entry.reserved.0,
            _ => return Err(code::INVALID_VALUE),
        }
        Ok(())
    }
}
