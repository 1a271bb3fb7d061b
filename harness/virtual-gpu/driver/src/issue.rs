//! Submitting work to a stream: captured into a graph, or carried out.

use crate::code::Code;
use crate::entries::StreamEntry;
use crate::execute::run;
use crate::graph::capture;
use crate::operation::{Action, WaitPolicy};
use crate::process::Process;

/// Carries out an action in a stream, or adds it to the graph that the stream is captured into.
pub fn perform(
    process: &Process,
    stream: &StreamEntry,
    action: Action,
    policy: WaitPolicy,
) -> Result<(), Code> {
    match capture::recorded(process, stream, action, policy)? {
        None => Ok(()),
        Some(action) => run(process, stream, &action, policy),
    }
}
