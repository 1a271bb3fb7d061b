//! Adding nodes, one entry point for each kind.

use crate::arguments::{handles, put_new, read};
use crate::cuda::launching::kernel;
use crate::cuda::layout::{KernelNode, KernelNode2, MemsetNode};
use gpubench_virtual_gpu_driver::code::{self, Code};
use gpubench_virtual_gpu_driver::fill_shape::Fill;
use gpubench_virtual_gpu_driver::graph::edit::{add, known_context};
use gpubench_virtual_gpu_driver::handles::Handle;
use gpubench_virtual_gpu_driver::launch::shape::Shape;
use gpubench_virtual_gpu_driver::operation::{Action, Kernel};
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

    fn cuGraphAddMemsetNode(
        node: *mut Handle, graph: Handle, after: *const Handle, count: usize,
        params: *const MemsetNode, context: Handle,
    ) {
        let action = known_context(context).and_then(|()| fill_action(params));
        enter(node, graph, (after, count), action)
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
