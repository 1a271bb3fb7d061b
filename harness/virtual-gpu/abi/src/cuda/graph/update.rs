//! Changing what a graph does that is ready to launch.

use std::ffi::c_uint;

use crate::cuda::graph::nodes::{kernel_action, kernel_action2};
use crate::cuda::layout::{KernelNode, KernelNode2};
use gpubench_virtual_gpu_driver::code;
use gpubench_virtual_gpu_driver::graph::update::{replace_step, step_of};
use gpubench_virtual_gpu_driver::handles::Handle;
use gpubench_virtual_gpu_driver::operation::Action;
use gpubench_virtual_gpu_driver::process::process;

entries! {
    fn cuGraphExecKernelNodeSetParams(exec: Handle, node: Handle, params: *const KernelNode) {
        replace_step(exec, node, kernel_action(params))
    }

    fn cuGraphExecKernelNodeSetParams_v2(exec: Handle, node: Handle, params: *const KernelNode2) {
        replace_step(exec, node, kernel_action2(params))
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

}
