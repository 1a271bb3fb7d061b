//! Changing what a graph does that is ready to launch.
#![expect(
    unsafe_code,
    reason = "a C interface is made of raw pointers and exported names"
)]

use std::ffi::{c_int, c_uint};

use super::super::action::Action;
use super::super::global::entries;
use super::super::layout::{Copy3d, HostNode, KernelNode, KernelNode2, MemsetNode};
use super::super::mem_ops::is_alike;
use super::Step;
use super::exec::flatten;
use super::nodes::{
    copy_action, event_action, fill_action, host_action, kernel_action, kernel_action2,
};
use crate::process::process;
use crate::put;
use gpubench_virtual_gpu_driver::code::{self, Code};
use gpubench_virtual_gpu_driver::handles::Handle;

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
        // SAFETY: the caller's structure.
        replace(exec, node, unsafe { kernel_action(params) })
    }

    fn cuGraphExecKernelNodeSetParams_v2(exec: Handle, node: Handle, params: *const KernelNode2) {
        // SAFETY: the caller's structure.
        replace(exec, node, unsafe { kernel_action2(params) })
    }

    fn cuGraphExecMemcpyNodeSetParams(
        exec: Handle,
        node: Handle,
        params: *const Copy3d,
        context: Handle,
    ) {
        let _ = context;
        // SAFETY: the caller's structure.
        replace(exec, node, unsafe { copy_action(params) })
    }

    fn cuGraphExecMemsetNodeSetParams(
        exec: Handle,
        node: Handle,
        params: *const MemsetNode,
        context: Handle,
    ) {
        let _ = context;
        // SAFETY: the caller's structure.
        replace(exec, node, unsafe { fill_action(params) })
    }

    fn cuGraphExecHostNodeSetParams(exec: Handle, node: Handle, params: *const HostNode) {
        // SAFETY: the caller's structure.
        replace(exec, node, unsafe { host_action(params) })
    }

    fn cuGraphExecEventRecordNodeSetEvent(exec: Handle, node: Handle, event: Handle) {
        replace(exec, node, event_action(event, Action::Record))
    }

    fn cuGraphExecEventWaitNodeSetEvent(exec: Handle, node: Handle, event: Handle) {
        replace(exec, node, event_action(event, Action::Wait))
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
        // SAFETY: the caller's place, checked for null.
        unsafe { put(enabled, found.into()) }
    }

    fn cuGraphExecUpdate(
        exec: Handle,
        graph: Handle,
        error_node: *mut Handle,
        result: *mut c_int,
    ) {
        let updated = update(exec, graph);
        let failed = updated == Err(code::GRAPH_EXEC_UPDATE_FAILURE);
        let number = if failed { TOPOLOGY_CHANGED } else { 0 };
        // SAFETY: the caller's places; null means not wanted.
        unsafe {
            if !error_node.is_null() {
                put(error_node, std::ptr::null_mut())?;
            }
            if !result.is_null() {
                put(result, number)?;
            }
        }
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
        // SAFETY: the caller's place, checked for null.
        unsafe { put(info, found) }?;
        updated
    }
}

fn step_of(steps: &mut [Step], node: Handle) -> Result<&mut Step, Code> {
    let found = steps.iter_mut().find(|step| step.node == node as usize);
    found.ok_or(code::INVALID_VALUE)
}

/// Gives a step something else to do, of the same kind.
///
/// # Errors
/// When the action is none or of another kind, or the step is not there.
pub(in super::super) fn replace(
    exec: Handle,
    node: Handle,
    action: Result<Action, Code>,
) -> Result<(), Code> {
    let action = action?;
    let mut tables = process()?.ready()?;
    let step = step_of(&mut tables.execs.get_mut(exec)?.steps, node)?;
    if !is_kind(&step.action, &action) {
        return Err(code::INVALID_VALUE);
    }
    step.action = action;
    Ok(())
}

/// Whether a step may do the one instead of the other.
fn is_kind(old: &Action, new: &Action) -> bool {
    match (old, new) {
        (Action::Batch(old), Action::Batch(new)) => is_alike(old, new),
        _ => std::mem::discriminant(old) == std::mem::discriminant(new),
    }
}

/// Takes over what a graph of the same shape does.
fn update(exec: Handle, graph: Handle) -> Result<(), Code> {
    let mut tables = process()?.ready()?;
    let mut steps = Vec::new();
    tables.execs.get(exec)?;
    flatten(&tables, graph as usize, &[], &mut steps)?;
    let own = &mut tables.execs.get_mut(exec)?.steps;
    let alike =
        |(old, new): (&Step, &Step)| is_kind(&old.action, &new.action) && old.after == new.after;
    if own.len() != steps.len() || !own.iter().zip(&steps).all(alike) {
        return Err(code::GRAPH_EXEC_UPDATE_FAILURE);
    }
    // Steps keep the handles of the nodes that the program knows them by.
    for (old, new) in own.iter_mut().zip(steps) {
        old.action = new.action;
    }
    Ok(())
}
