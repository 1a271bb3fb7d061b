//! Adding nodes, one entry point for each kind, and changing what they do.
#![expect(
    unsafe_code,
    reason = "a C interface is made of raw pointers and exported names"
)]

use std::ffi::c_uint;

use super::super::action::{Action, Kernel};
use super::super::copies::read;
use super::super::fill::Fill;
use super::super::global::entries;
use super::super::host::HostCall;
use super::super::launching::kernel;
use super::super::layout::{Copy3d, HostNode, KernelNode, KernelNode2, MemsetNode};
use super::edit::handles;
use super::{add, copy_graph};
use crate::launch::Shape;
use crate::process::process;
use crate::put;
use gpubench_virtual_gpu_driver::code::{self, Code};
use gpubench_virtual_gpu_driver::handles::Handle;

entries! {
    fn cuGraphAddEmptyNode(
        node: *mut Handle,
        graph: Handle,
        after: *const Handle,
        count: usize,
    ) {
        // SAFETY: the caller's array and place.
        unsafe { enter(node, graph, (after, count), Ok(Action::Empty)) }
    }

    fn cuGraphAddKernelNode(
        node: *mut Handle,
        graph: Handle,
        after: *const Handle,
        count: usize,
        params: *const KernelNode,
    ) {
        // SAFETY: the caller's arrays, structure and place.
        unsafe { enter(node, graph, (after, count), kernel_action(params)) }
    }

    fn cuGraphAddKernelNode_v2(
        node: *mut Handle,
        graph: Handle,
        after: *const Handle,
        count: usize,
        params: *const KernelNode2,
    ) {
        // SAFETY: the caller's arrays, structure and place.
        unsafe { enter(node, graph, (after, count), kernel_action2(params)) }
    }

    fn cuGraphAddMemcpyNode(
        node: *mut Handle,
        graph: Handle,
        after: *const Handle,
        count: usize,
        params: *const Copy3d,
        context: Handle,
    ) {
        // SAFETY: the caller's array, structure and place.
        unsafe {
            let action = known(context).and_then(|()| copy_action(params));
            enter(node, graph, (after, count), action)
        }
    }

    fn cuGraphAddMemsetNode(
        node: *mut Handle,
        graph: Handle,
        after: *const Handle,
        count: usize,
        params: *const MemsetNode,
        context: Handle,
    ) {
        // SAFETY: the caller's array, structure and place.
        unsafe {
            let action = known(context).and_then(|()| fill_action(params));
            enter(node, graph, (after, count), action)
        }
    }

    fn cuGraphAddHostNode(
        node: *mut Handle,
        graph: Handle,
        after: *const Handle,
        count: usize,
        params: *const HostNode,
    ) {
        // SAFETY: the caller's array, structure and place.
        unsafe { enter(node, graph, (after, count), host_action(params)) }
    }

    fn cuGraphAddEventRecordNode(
        node: *mut Handle,
        graph: Handle,
        after: *const Handle,
        count: usize,
        event: Handle,
    ) {
        let action = event_action(event, Action::Record);
        // SAFETY: the caller's array and place.
        unsafe { enter(node, graph, (after, count), action) }
    }

    fn cuGraphAddEventWaitNode(
        node: *mut Handle,
        graph: Handle,
        after: *const Handle,
        count: usize,
        event: Handle,
    ) {
        let action = event_action(event, Action::Wait);
        // SAFETY: the caller's array and place.
        unsafe { enter(node, graph, (after, count), action) }
    }

    fn cuGraphAddChildGraphNode(
        node: *mut Handle,
        graph: Handle,
        after: *const Handle,
        count: usize,
        child: Handle,
    ) {
        if child == graph {
            return Err(code::INVALID_VALUE);
        }
        let process = process()?;
        process.ready()?.graphs.get(graph)?;
        let copied = copy_graph(&mut *process.ready()?, child as usize, true)?;
        // SAFETY: the caller's array and place.
        let entered = unsafe { enter(node, graph, (after, count), Ok(Action::Graph(copied))) };
        if entered.is_err() {
            super::remove_graph(&mut *process.ready()?, copied)?;
        }
        entered
    }

    fn cuGraphChildGraphNodeGetGraph(node: Handle, graph: *mut Handle) {
        let Action::Graph(inner) = process()?.ready()?.nodes.get(node)?.action else {
            return Err(code::INVALID_VALUE);
        };
        // SAFETY: the caller's place, checked for null.
        unsafe { put(graph, inner as Handle) }
    }

    fn cuGraphKernelNodeSetParams(node: Handle, params: *const KernelNode) {
        // SAFETY: the caller's structure.
        replace(node, unsafe { kernel_action(params) })
    }

    fn cuGraphKernelNodeSetParams_v2(node: Handle, params: *const KernelNode2) {
        // SAFETY: the caller's structure.
        replace(node, unsafe { kernel_action2(params) })
    }

    fn cuGraphMemcpyNodeSetParams(node: Handle, params: *const Copy3d) {
        // SAFETY: the caller's structure.
        replace(node, unsafe { copy_action(params) })
    }

    fn cuGraphMemsetNodeSetParams(node: Handle, params: *const MemsetNode) {
        // SAFETY: the caller's structure.
        replace(node, unsafe { fill_action(params) })
    }

    fn cuGraphHostNodeSetParams(node: Handle, params: *const HostNode) {
        // SAFETY: the caller's structure.
        replace(node, unsafe { host_action(params) })
    }

    fn cuGraphEventRecordNodeSetEvent(node: Handle, event: Handle) {
        replace(node, event_action(event, Action::Record))
    }

    fn cuGraphEventWaitNodeSetEvent(node: Handle, event: Handle) {
        replace(node, event_action(event, Action::Wait))
    }

    fn cuGraphDebugDotPrint(graph: Handle, path: *const std::ffi::c_char, flags: c_uint) {
        let _ = flags;
        // SAFETY: the caller's string.
        let path = unsafe { super::super::module::text_of(path) }?;
        let text = dot(graph)?;
        std::fs::write(path, text).map_err(|_| code::OPERATING_SYSTEM)
    }
}

/// Puts a node into a graph and its handle where the caller wants it.
///
/// # Errors
/// When the action is none, or graph and nodes are not there.
///
/// # Safety
/// The array is null or has as many entries as given; `node` is null or valid.
pub(in super::super) unsafe fn enter(
    node: *mut Handle,
    graph: Handle,
    (after, count): (*const Handle, usize),
    action: Result<Action, Code>,
) -> Result<(), Code> {
    if node.is_null() {
        return Err(code::INVALID_VALUE);
    }
    // SAFETY: the caller's contract.
    let after = unsafe { handles(after, count) }?;
    let action = action?;
    let made = add(&mut *process()?.ready()?, graph as usize, after, action)?;
    // SAFETY: the caller's place, checked for null above.
    unsafe { put(node, made as Handle) }
}

/// Gives a node something else to do, of the same kind.
///
/// # Errors
/// When the action is none or of another kind, or the node is not there.
pub(in super::super) fn replace(node: Handle, action: Result<Action, Code>) -> Result<(), Code> {
    let mut tables = process()?.ready()?;
    let same = std::mem::discriminant(&tables.nodes.get(node)?.action);
    // The lock is not needed to make the action, but the node has to be there first.
    let action = action?;
    if std::mem::discriminant(&action) != same {
        return Err(code::INVALID_VALUE);
    }
    tables.nodes.get_mut(node)?.action = action;
    Ok(())
}

/// Whether a context is there; null means the present one.
///
/// # Errors
/// When it is not.
pub(in super::super) fn known(context: Handle) -> Result<(), Code> {
    // Newer callers leave the context to the driver.
    if context.is_null() {
        return process()?.current().map(|_| ());
    }
    process()?
        .ready()?
        .contexts
        .get(context)
        .map(|_| ())
        .map_err(|_| code::INVALID_CONTEXT)
}

/// # Safety
/// `params` is null or valid, with the arrays that a launch wants.
pub(super) unsafe fn kernel_action(params: *const KernelNode) -> Result<Action, Code> {
    // SAFETY: the caller's contract.
    unsafe { read(params).and_then(|params| kernel_of(params, params.function)) }
}

/// # Safety
/// As `kernel_action`.
pub(super) unsafe fn kernel_action2(params: *const KernelNode2) -> Result<Action, Code> {
    // SAFETY: the caller's contract.
    unsafe {
        let params = read(params)?;
        let function = params.first.function;
        kernel_of(
            params.first,
            if function.is_null() {
                params.kernel
            } else {
                function
            },
        )
    }
}

/// # Safety
/// As `kernel_action`.
unsafe fn kernel_of(params: KernelNode, function: Handle) -> Result<Action, Code> {
    let process = process()?;
    let shape = Shape {
        grid: params.grid,
        block: params.block,
        shared_bytes: params.shared_bytes,
        cooperative: false,
    };
    // SAFETY: the caller's contract.
    let kernel: Kernel = unsafe { kernel(process, function, &shape, params.params, params.extra) }?;
    Ok(Action::Kernel(Box::new(kernel)))
}

/// # Safety
/// `params` is null or valid.
pub(super) unsafe fn copy_action(params: *const Copy3d) -> Result<Action, Code> {
    // SAFETY: the caller's contract.
    let params = unsafe { read(params) }?;
    params.resolve(process()?).map(Action::Copy)
}

/// # Safety
/// `params` is null or valid.
pub(super) unsafe fn fill_action(params: *const MemsetNode) -> Result<Action, Code> {
    // SAFETY: the caller's contract.
    let params = unsafe { read(params) }?;
    if ![1, 2, 4].contains(&params.element_bytes) {
        return Err(code::INVALID_VALUE);
    }
    Ok(Action::Fill(Fill {
        pointer: params.to,
        pitch: params.pitch as u64,
        value: params.value,
        element: params.element_bytes.into(),
        width: params.width as u64,
        height: params.height as u64,
    }))
}

/// # Safety
/// `params` is null or valid.
pub(super) unsafe fn host_action(params: *const HostNode) -> Result<Action, Code> {
    // SAFETY: the caller's contract.
    let params = unsafe { read(params) }?;
    let function = params.function.ok_or(code::INVALID_VALUE)?;
    Ok(Action::Host(HostCall {
        function,
        data: params.data as usize,
    }))
}

pub(super) fn event_action(
    event: Handle,
    action: impl FnOnce(usize) -> Action,
) -> Result<Action, Code> {
    process()?.ready()?.events.get(event)?;
    Ok(action(event as usize))
}

/// The graph as graphviz reads it.
fn dot(graph: Handle) -> Result<String, Code> {
    let tables = process()?.ready()?;
    let mut text = String::from("digraph graph_0 {\n");
    for node in &tables.graphs.get(graph)?.nodes {
        let entry = tables.nodes.get(*node as Handle)?;
        let label = match &entry.action {
            Action::Kernel(kernel) => kernel.function.name.clone(),
            other => format!("{other:?}")
                .split(['(', ' ', '{'])
                .next()
                .unwrap_or("")
                .to_owned(),
        };
        text.push_str(&format!("  n{node} [label=\"{label}\"];\n"));
        for before in &entry.after {
            text.push_str(&format!("  n{before} -> n{node};\n"));
        }
    }
    text.push_str("}\n");
    Ok(text)
}
