//! Calls on graphs that are ready to launch.

use crate::code::Code;
use crate::entries::StreamEntry;
use crate::execute::run;
use crate::graph::entries::ExecEntry;
use crate::operation::{Action, WaitPolicy};
use crate::process::Process;

/// Frees what the last launch allocated and nobody freed.
pub fn free_leftovers(
    process: &Process,
    entry: &ExecEntry,
    stream: &StreamEntry,
) -> Result<(), Code> {
    for step in &entry.steps {
        if let Action::Allocate(reserved) = &step.action
            && process.tables().allocations.contains_key(&reserved.address)
        {
            run(
                process,
                stream,
                &Action::Free(reserved.address),
                WaitPolicy::Graph,
            )?;
        }
    }
    Ok(())
}
