//! Graphs, their nodes, and the dependencies between those.

use std::ffi::{c_int, c_uint, c_void};

use crate::arguments::{handles, put, put_new, read};
use gpubench_virtual_gpu_driver::calls::graph;
use gpubench_virtual_gpu_driver::code::{self, Code};
use gpubench_virtual_gpu_driver::graph::edit::kind_of;
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

    fn cuGraphDestroyNode(node: Handle) {
        graph::destroy_node(node)
    }

    fn cuGraphNodeGetType(node: Handle, kind: *mut c_int) {
        let tables = process()?.ready()?;
        let kind_found = kind_of(&tables.nodes.get(node)?.action);
        put(kind, kind_found)
    }

    fn cuGraphGetNodes(graph: Handle, nodes: *mut Handle, count: *mut usize) {
        let found = process()?.ready()?.graphs.get(graph)?.nodes.clone();
        list(&found, nodes, count)
    }

    fn cuGraphGetRootNodes(graph: Handle, nodes: *mut Handle, count: *mut usize) {
        list(&graph::roots(graph)?, nodes, count)
    }

    fn cuGraphAddDependencies(graph: Handle, from: *const Handle, to: *const Handle, count: usize) {
        graph::add_edges(graph, &handles(from, count)?, &handles(to, count)?)
    }

    fn cuGraphAddDependencies_v2(
        graph: Handle, from: *const Handle, to: *const Handle, data: *const c_void, count: usize,
    ) {
        check_plain(data, count)?;
        graph::add_edges(graph, &handles(from, count)?, &handles(to, count)?)
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

/// Refuses dependencies on less than the end of a node (`CUgraphEdgeData`).
unsafe fn check_plain(data: *const c_void, count: usize) -> Result<(), Code> {
    let data = data.cast::<[u8; 8]>();
    for index in 0..if data.is_null() { 0 } else { count } {
        if read(data.wrapping_add(index))? != [0; 8] {
            return Err(code::NOT_SUPPORTED);
        }
    }
    Ok(())
}
