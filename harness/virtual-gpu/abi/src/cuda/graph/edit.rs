//! Graphs and their nodes.

use std::ffi::c_uint;

use crate::arguments::{put, put_new, read};
use gpubench_virtual_gpu_driver::calls::graph;
use gpubench_virtual_gpu_driver::code::{self, Code};
use gpubench_virtual_gpu_driver::handles::Handle;
use gpubench_virtual_gpu_driver::process::process;

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

    fn cuGraphGetNodes(graph: Handle, nodes: *mut Handle, count: *mut usize) {
        let found = process()?.ready()?.graphs.get(graph)?.nodes.clone();
        list(&found, nodes, count)
    }
}

/// Fills an array as cuGraphGetNodes does: without an array the count alone.
unsafe fn list(found: &[usize], to: *mut Handle, count: *mut usize) -> Result<(), Code> {
    let room = read(count)?;
    if to.is_null() {
        return put(count, found.len());
    }
    // Entries beyond the last node are set to null, within reason.
    for index in 0..room.min(found.len().max(4096)) {
        let node = found.get(index).copied().unwrap_or_default();
        put(to.wrapping_add(index), node as Handle)?;
    }
    put(count, found.len().min(room))
}
