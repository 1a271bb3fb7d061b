//! Changing what a graph does that is ready to launch.

use crate::code::{self, Code};
use crate::graph::entries::Step;
use crate::handles::Handle;
use crate::memory_op::is_alike;
use crate::operation::Action;
use crate::process::process;

/// The step that was made from a node.
pub fn step_of(steps: &mut [Step], node: Handle) -> Result<&mut Step, Code> {
    let found = steps.iter_mut().find(|step| step.node == node as usize);
    found.ok_or(code::INVALID_VALUE)
}

/// Replaces the action of a step by one of the same kind.
pub fn replace_step(exec: Handle, node: Handle, action: Result<Action, Code>) -> Result<(), Code> {
    let action = action?;
    let mut tables = process()?.ready()?;
    let step = step_of(&mut tables.execs.get_mut(exec)?.steps, node)?;
    if !is_kind(&step.action, &action) {
        return Err(code::INVALID_VALUE);
    }
    step.action = action;
    Ok(())
}

/// Whether the action of a step may be replaced by another.
fn is_kind(old: &Action, new: &Action) -> bool {
    match (old, new) {
        (Action::Batch(old), Action::Batch(new)) => is_alike(old, new),
        _ => std::mem::discriminant(old) == std::mem::discriminant(new),
    }
}
