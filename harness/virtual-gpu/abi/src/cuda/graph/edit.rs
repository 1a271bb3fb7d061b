//! Making graphs, looking into them, and changing how their nodes depend on each other.

use std::ffi::{c_int, c_uint, c_void};

use crate::arguments::{handles, put};
use gpubench_virtual_gpu_driver::code::{self, Code};
use gpubench_virtual_gpu_driver::graph::edit::{
    copy_graph, dependents, kind_of, new_graph, remove_graph,
};
use gpubench_virtual_gpu_driver::handles::Handle;
use gpubench_virtual_gpu_driver::operation::Action;
use gpubench_virtual_gpu_driver::process::process;

entries! {
    fn cuGraphCreate(graph: *mut Handle, flags: c_uint) {
        if graph.is_null() || flags != 0 {
            return Err(code::INVALID_VALUE);
        }
        let made = new_graph(&mut *process()?.ready()?, false)?;
        put(graph, made as Handle)
    }

    fn cuGraphDestroy(graph: Handle) {
        let mut tables = process()?.ready()?;
        let entry = tables.graphs.get(graph)?;
        let recorded = tables.captures.values().any(|capture| capture.graph == graph as usize);
        if entry.inner || recorded {
            return Err(code::INVALID_VALUE);
        }
        remove_graph(&mut tables, graph as usize)
    }

    fn cuGraphClone(copy: *mut Handle, graph: Handle) {
        if copy.is_null() {
            return Err(code::INVALID_VALUE);
        }
        let made = copy_graph(&mut *process()?.ready()?, graph as usize, false)?;
        put(copy, made as Handle)
    }

    fn cuGraphGetId(graph: Handle, id: *mut c_uint) {
        let number = process()?.ready()?.graphs.get(graph)?.number;
        put(id, number as c_uint)
    }

    fn cuGraphDestroyNode(node: Handle) {
        let mut tables = process()?.ready()?;
        let gone = tables.nodes.remove(node)?;
        let graph = tables.graphs.get_mut(gone.graph as Handle)?;
        graph.nodes.retain(|other| *other != node as usize);
        let others = graph.nodes.clone();
        for other in others {
            tables.nodes.get_mut(other as Handle)?.after.retain(|n| *n != node as usize);
        }
        match gone.action {
            Action::Graph(inner) => remove_graph(&mut tables, inner),
            _ => Ok(()),
        }
    }

    fn cuGraphNodeGetType(node: Handle, kind: *mut c_int) {
        let tables = process()?.ready()?;
        let kind_found = kind_of(&tables.nodes.get(node)?.action);
        put(kind, kind_found)
    }

    fn cuGraphNodeGetContainingGraph(node: Handle, graph: *mut Handle) {
        let found = process()?.ready()?.nodes.get(node)?.graph;
        put(graph, found as Handle)
    }

    fn cuGraphGetNodes(graph: Handle, nodes: *mut Handle, count: *mut usize) {
        let found = process()?.ready()?.graphs.get(graph)?.nodes.clone();
        list(&found, &[nodes], count)
    }

    fn cuGraphGetRootNodes(graph: Handle, nodes: *mut Handle, count: *mut usize) {
        let tables = process()?.ready()?;
        let is_root = |node: &&usize| {
            tables.nodes.get(**node as Handle).is_ok_and(|node| node.after.is_empty())
        };
        let found: Vec<usize> =
            tables.graphs.get(graph)?.nodes.iter().filter(is_root).copied().collect();
        list(&found, &[nodes], count)
    }

    fn cuGraphGetEdges(graph: Handle, from: *mut Handle, to: *mut Handle, count: *mut usize) {
        edges(graph, from, to, count)
    }

    fn cuGraphGetEdges_v2(
        graph: Handle, from: *mut Handle, to: *mut Handle, data: *mut [u8; 8], count: *mut usize,
    ) {
        edges(graph, from, to, count)?;
        plain_edges(data, count)
    }

    fn cuGraphNodeGetDependencies(node: Handle, before: *mut Handle, count: *mut usize) {
        let found = process()?.ready()?.nodes.get(node)?.after.clone();
        list(&found, &[before], count)
    }

    fn cuGraphNodeGetDependencies_v2(
        node: Handle, before: *mut Handle, data: *mut [u8; 8], count: *mut usize,
    ) {
        let found = process()?.ready()?.nodes.get(node)?.after.clone();
        list(&found, &[before], count)?;
        plain_edges(data, count)
    }

    fn cuGraphNodeGetDependentNodes(node: Handle, after: *mut Handle, count: *mut usize) {
        let found = dependents(node)?;
        list(&found, &[after], count)
    }

    fn cuGraphNodeGetDependentNodes_v2(
        node: Handle, after: *mut Handle, data: *mut [u8; 8], count: *mut usize,
    ) {
        let found = dependents(node)?;
        list(&found, &[after], count)?;
        plain_edges(data, count)
    }

    fn cuGraphAddDependencies(graph: Handle, from: *const Handle, to: *const Handle, count: usize) {
        change(graph, from, to, count, true)
    }

    fn cuGraphAddDependencies_v2(
        graph: Handle, from: *const Handle, to: *const Handle, data: *const c_void, count: usize,
    ) {
        check_plain(data, count)?;
        change(graph, from, to, count, true)
    }

    fn cuGraphRemoveDependencies(
        graph: Handle, from: *const Handle, to: *const Handle, count: usize,
    ) {
        change(graph, from, to, count, false)
    }

    fn cuGraphRemoveDependencies_v2(
        graph: Handle, from: *const Handle, to: *const Handle, data: *const c_void, count: usize,
    ) {
        check_plain(data, count)?;
        change(graph, from, to, count, false)
    }
}

/// Fills arrays of the caller's as cuGraphGetNodes does: the count alone if there is no array.
///
/// # Safety
/// Each array is null or has as many entries as `count` says, which is null or valid.
unsafe fn list(found: &[usize], places: &[*mut Handle], count: *mut usize) -> Result<(), Code> {
    if count.is_null() {
        return Err(code::INVALID_VALUE);
    }
    let room = count.read();
    let mut filled = found.len();
    for place in places.iter().filter(|place| !place.is_null()) {
        filled = found.len().min(room);
        // Places beyond the last node are set to null, within reason.
        for index in 0..room.min(found.len().max(4096)) {
            let node = found.get(index).copied().unwrap_or_default();
            put(place.wrapping_add(index), node as Handle)?;
        }
    }
    put(count, filled)
}

/// # Safety
/// As `list`.
unsafe fn edges(
    graph: Handle,
    from: *mut Handle,
    to: *mut Handle,
    count: *mut usize,
) -> Result<(), Code> {
    if from.is_null() != to.is_null() || count.is_null() {
        return Err(code::INVALID_VALUE);
    }
    let tables = process()?.ready()?;
    let (mut starts, mut ends) = (Vec::new(), Vec::new());
    for node in &tables.graphs.get(graph)?.nodes {
        for before in &tables.nodes.get(*node as Handle)?.after {
            starts.push(*before);
            ends.push(*node);
        }
    }
    let room = count.read();
    list(&starts, &[from], count)?;
    put(count, room)?;
    list(&ends, &[to], count)
}

/// Describes as many plain dependencies as were listed.
///
/// # Safety
/// `data` is null or has as many entries as `count` says, which is valid.
unsafe fn plain_edges(data: *mut [u8; 8], count: *mut usize) -> Result<(), Code> {
    if data.is_null() {
        return Ok(());
    }
    let filled = count.read();
    for index in 0..filled {
        put(data.wrapping_add(index), [0; 8])?;
    }
    Ok(())
}

/// Refuses dependencies on less than the end of a node.
///
/// # Safety
/// `data` is null or has `count` entries of `CUgraphEdgeData`.
unsafe fn check_plain(data: *const c_void, count: usize) -> Result<(), Code> {
    let data = data.cast::<[u8; 8]>();
    for index in 0..if data.is_null() { 0 } else { count } {
        if data.add(index).read_unaligned() != [0; 8] {
            return Err(code::NOT_SUPPORTED);
        }
    }
    Ok(())
}

/// # Safety
/// The arrays are null or have `count` entries.
unsafe fn change(
    graph: Handle,
    from: *const Handle,
    to: *const Handle,
    count: usize,
    add: bool,
) -> Result<(), Code> {
    let (from, to) = (handles(from, count)?, handles(to, count)?);
    let mut tables = process()?.ready()?;
    tables.graphs.get(graph)?;
    for (&first, &then) in from.iter().zip(&to) {
        let in_graph = |node: usize| {
            tables
                .nodes
                .get(node as Handle)
                .is_ok_and(|node| node.graph == graph as usize)
        };
        if !in_graph(first) || !in_graph(then) || first == then {
            return Err(code::INVALID_VALUE);
        }
        let after = &mut tables.nodes.get_mut(then as Handle)?.after;
        if after.contains(&first) == add {
            return Err(code::INVALID_VALUE);
        }
        if add {
            after.push(first);
        } else {
            after.retain(|node| *node != first);
        }
    }
    Ok(())
}
