//! Changing what a graph does that is ready to launch.

use std::ffi::{c_int, c_uint};

use crate::arguments::{put, put_optional};
use crate::cuda::graph::nodes::{
    copy_action, fill_action, host_action, kernel_action, kernel_action2,
};
use crate::cuda::layout::{Copy3d, HostNode, KernelNode, KernelNode2, MemsetNode};
use gpubench_virtual_gpu_driver::code;
use gpubench_virtual_gpu_driver::graph::edit::event_action;
use gpubench_virtual_gpu_driver::graph::update::{replace_step, step_of, update};
use gpubench_virtual_gpu_driver::handles::Handle;
use gpubench_virtual_gpu_driver::operation::Action;
use gpubench_virtual_gpu_driver::process::process;

/// `CUgraphExecUpdateResultInfo`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct UpdateResult {
    pub result: c_int,
    pub error_node: Handle,
    pub error_from: Handle,
}

/// `CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED` (cuda.h).
const TOPOLOGY_CHANGED: c_int = 2;

entries! {
    fn cuGraphExecKernelNodeSetParams(exec: Handle, node: Handle, params: *const KernelNode) {
        replace_step(exec, node, kernel_action(params))
    }

    fn cuGraphExecKernelNodeSetParams_v2(exec: Handle, node: Handle, params: *const KernelNode2) {
        replace_step(exec, node, kernel_action2(params))
    }

    fn cuGraphExecMemcpyNodeSetParams(
        exec: Handle, node: Handle, params: *const Copy3d, context: Handle,
    ) {
        let _ = context;
        replace_step(exec, node, copy_action(params))
    }

    fn cuGraphExecMemsetNodeSetParams(
        exec: Handle, node: Handle, params: *const MemsetNode, context: Handle,
    ) {
        let _ = context;
        replace_step(exec, node, fill_action(params))
    }

    fn cuGraphExecHostNodeSetParams(exec: Handle, node: Handle, params: *const HostNode) {
        replace_step(exec, node, host_action(params))
    }

    fn cuGraphExecEventRecordNodeSetEvent(exec: Handle, node: Handle, event: Handle) {
        replace_step(exec, node, event_action(event, Action::Record))
    }

    fn cuGraphExecEventWaitNodeSetEvent(exec: Handle, node: Handle, event: Handle) {
        replace_step(exec, node, event_action(event, Action::Wait))
    }

    fn cuGraphNodeSetEnabled(exec: Handle, node: Handle, enabled: c_uint) {
        let mut tables = process()?.ready()?;
        let step = step_of(&mut tables.execs.get_mut(exec)?.steps, node)?;
        // Only these kinds can be switched off (cuGraphNodeSetEnabled).
        if !matches!(step.action, Action::Kernel(_) | Action::Copy(_) | Action::Fill(_)) {
            return Err(code::INVALID_VALUE);
        }
        step.enabled = enabled != 0;
        Ok(())
    }

    fn cuGraphNodeGetEnabled(exec: Handle, node: Handle, enabled: *mut c_uint) {
        let mut tables = process()?.ready()?;
        let found = step_of(&mut tables.execs.get_mut(exec)?.steps, node)?.enabled;
        put(enabled, found.into())
    }

    fn cuGraphExecUpdate(exec: Handle, graph: Handle, error_node: *mut Handle, result: *mut c_int) {
        let updated = update(exec, graph);
        let failed = updated == Err(code::GRAPH_EXEC_UPDATE_FAILURE);
        let number = if failed { TOPOLOGY_CHANGED } else { 0 };
        put_optional(error_node, std::ptr::null_mut());
        put_optional(result, number);
        updated
    }

    fn cuGraphExecUpdate_v2(exec: Handle, graph: Handle, info: *mut UpdateResult) {
        let updated = update(exec, graph);
        let failed = updated == Err(code::GRAPH_EXEC_UPDATE_FAILURE);
        let found = UpdateResult {
            result: if failed { TOPOLOGY_CHANGED } else { 0 },
            error_node: std::ptr::null_mut(),
            error_from: std::ptr::null_mut(),
        };
        put(info, found)?;
        updated
    }
}
