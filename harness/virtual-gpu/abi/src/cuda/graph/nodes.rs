//! Adding nodes, one entry point for each kind, and changing what they do.

use std::ffi::c_uint;

use crate::arguments::{handles, put, put_new, read, text_of};
use crate::cuda::launching::kernel;
use crate::cuda::layout::{Copy3d, HostNode, KernelNode, KernelNode2, MemsetNode};
use gpubench_virtual_gpu_driver::code::{self, Code};
use gpubench_virtual_gpu_driver::fill_shape::Fill;
use gpubench_virtual_gpu_driver::graph::edit::{
    self, add, copy_graph, dot, event_action, known_context, replace_node,
};
use gpubench_virtual_gpu_driver::handles::Handle;
use gpubench_virtual_gpu_driver::launch::shape::Shape;
use gpubench_virtual_gpu_driver::operation::{Action, HostCall, Kernel};
use gpubench_virtual_gpu_driver::process::process;

entries! {
    fn cuGraphAddEmptyNode(node: *mut Handle, graph: Handle, after: *const Handle, count: usize) {
        enter(node, graph, (after, count), Ok(Action::Empty))
    }

    fn cuGraphAddKernelNode(
        node: *mut Handle, graph: Handle, after: *const Handle, count: usize,
        params: *const KernelNode,
    ) {
        enter(node, graph, (after, count), kernel_action(params))
    }

    fn cuGraphAddKernelNode_v2(
        node: *mut Handle, graph: Handle, after: *const Handle, count: usize,
        params: *const KernelNode2,
    ) {
        enter(node, graph, (after, count), kernel_action2(params))
    }

    fn cuGraphAddMemcpyNode(
        node: *mut Handle, graph: Handle, after: *const Handle, count: usize, params: *const Copy3d,
        context: Handle,
    ) {
        let action = known_context(context).and_then(|()| copy_action(params));
        enter(node, graph, (after, count), action)
    }

    fn cuGraphAddMemsetNode(
        node: *mut Handle, graph: Handle, after: *const Handle, count: usize,
        params: *const MemsetNode, context: Handle,
    ) {
        let action = known_context(context).and_then(|()| fill_action(params));
        enter(node, graph, (after, count), action)
    }

    fn cuGraphAddHostNode(
        node: *mut Handle, graph: Handle, after: *const Handle, count: usize,
        params: *const HostNode,
    ) {
        enter(node, graph, (after, count), host_action(params))
    }

    fn cuGraphAddEventRecordNode(
        node: *mut Handle, graph: Handle, after: *const Handle, count: usize, event: Handle,
    ) {
        let action = event_action(event, Action::Record);
        enter(node, graph, (after, count), action)
    }

    fn cuGraphAddEventWaitNode(
        node: *mut Handle, graph: Handle, after: *const Handle, count: usize, event: Handle,
    ) {
        let action = event_action(event, Action::Wait);
        enter(node, graph, (after, count), action)
    }

    fn cuGraphAddChildGraphNode(
        node: *mut Handle, graph: Handle, after: *const Handle, count: usize, child: Handle,
    ) {
        if child == graph {
            return Err(code::INVALID_VALUE);
        }
        let process = process()?;
        process.ready()?.graphs.get(graph)?;
        let copied = copy_graph(&mut *process.ready()?, child as usize, true)?;
        let entered = enter(node, graph, (after, count), Ok(Action::Graph(copied)));
        if entered.is_err() {
            edit::remove_graph(&mut *process.ready()?, copied)?;
        }
        entered
    }

    fn cuGraphChildGraphNodeGetGraph(node: Handle, graph: *mut Handle) {
        let Action::Graph(inner) = process()?.ready()?.nodes.get(node)?.action else {
            return Err(code::INVALID_VALUE);
        };
        put(graph, inner as Handle)
    }

    fn cuGraphKernelNodeSetParams(node: Handle, params: *const KernelNode) {
        replace_node(node, kernel_action(params))
    }

    fn cuGraphKernelNodeSetParams_v2(node: Handle, params: *const KernelNode2) {
        replace_node(node, kernel_action2(params))
    }

    fn cuGraphMemcpyNodeSetParams(node: Handle, params: *const Copy3d) {
        replace_node(node, copy_action(params))
    }

    fn cuGraphMemsetNodeSetParams(node: Handle, params: *const MemsetNode) {
        replace_node(node, fill_action(params))
    }

    fn cuGraphHostNodeSetParams(node: Handle, params: *const HostNode) {
        replace_node(node, host_action(params))
    }

    fn cuGraphEventRecordNodeSetEvent(node: Handle, event: Handle) {
        replace_node(node, event_action(event, Action::Record))
    }

    fn cuGraphEventWaitNodeSetEvent(node: Handle, event: Handle) {
        replace_node(node, event_action(event, Action::Wait))
    }

    fn cuGraphDebugDotPrint(graph: Handle, path: *const std::ffi::c_char, flags: c_uint) {
        let _ = flags;
        let path = text_of(path)?;
        let text = dot(graph)?;
        std::fs::write(path, text).map_err(|_| code::OPERATING_SYSTEM)
    }
}

/// Puts a node into a graph and its handle where the caller wants it.
///
/// # Safety
/// The array is null or has as many entries as given; `node` is null or valid.
pub unsafe fn enter(
    node: *mut Handle,
    graph: Handle,
    (after, count): (*const Handle, usize),
    action: Result<Action, Code>,
) -> Result<(), Code> {
    put_new(node, || {
        let after = handles(after, count)?;
        Ok(add(&mut *process()?.ready()?, graph as usize, after, action?)? as Handle)
    })
}

pub unsafe fn kernel_action(params: *const KernelNode) -> Result<Action, Code> {
    read(params).and_then(|params| kernel_of(params, params.function))
}

pub unsafe fn kernel_action2(params: *const KernelNode2) -> Result<Action, Code> {
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

unsafe fn kernel_of(params: KernelNode, function: Handle) -> Result<Action, Code> {
    let process = process()?;
    let shape = Shape {
        grid: params.grid,
        block: params.block,
        shared_bytes: params.shared_bytes,
        cooperative: false,
    };
    let kernel: Kernel = kernel(process, function, &shape, params.params, params.extra)?;
    Ok(Action::Kernel(Box::new(kernel)))
}

pub unsafe fn copy_action(params: *const Copy3d) -> Result<Action, Code> {
    let params = read(params)?;
    params.resolve(process()?).map(Action::Copy)
}

pub unsafe fn fill_action(params: *const MemsetNode) -> Result<Action, Code> {
    let params = read(params)?;
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

pub unsafe fn host_action(params: *const HostNode) -> Result<Action, Code> {
    let params = read(params)?;
    let function = params.function.ok_or(code::INVALID_VALUE)?;
    Ok(Action::Host(HostCall {
        function,
        data: params.data as usize,
    }))
}
