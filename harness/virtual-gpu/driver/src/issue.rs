//! Giving work to a stream: recorded into a graph, deferred, or carried out.

use crate::code::Code;
use crate::deferred_queue;
use crate::entries::StreamEntry;
use crate::graph::capture;
use crate::operation::{Action, WaitPolicy};
use crate::process::Process;

/// Has a stream do something, or keeps it in the graph that the stream is recorded into.
///
/// # Errors
/// As the work itself; and when it cannot be recorded.
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
