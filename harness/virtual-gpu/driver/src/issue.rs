//! Submitting work to a stream: captured into a graph, deferred, or carried out.

use crate::code::Code;
use crate::deferred_queue;
use crate::entries::StreamEntry;
use crate::graph::capture;
use crate::operation::{Action, WaitPolicy};
use crate::process::Process;

/// Carries out an action in a stream, defers it, or adds it to the graph that the stream is
/// captured into.
pub fn perform(
    process: &Process,
    stream: &StreamEntry,
    action: Action,
    policy: WaitPolicy,
) -> Result<(), Code> {
    match capture::recorded(process, stream, action, policy)? {
        None => Ok(()),
        Some(action) => deferred_queue::pass(process, stream, action, policy),
    }
}
