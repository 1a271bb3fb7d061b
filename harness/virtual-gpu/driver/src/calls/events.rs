//! Calls on events.

use std::ffi::c_uint;

use crate::code::{self, Code};
use crate::graph::capture;
use crate::handles::Handle;
use crate::issue::perform;
use crate::operation::{Action, WaitPolicy};
use crate::process::process;

/// Records an event in a stream.
///
/// # Errors
/// For unknown flags, a dead event, and a stream of another context.
pub fn queue(event: Handle, stream: Handle, flags: c_uint) -> Result<(), Code> {
    if flags > 1 {
        return Err(code::INVALID_VALUE);
    }
    let process = process()?;
    let entry = *process.ready()?.events.get(event)?;
    let target = process.stream(stream)?;
    if entry.context != target.context {
        return Err(code::INVALID_HANDLE);
    }
    // CU_EVENT_RECORD_EXTERNAL (cuda.h) makes a node of it where the other form marks a place.
    if flags == 0 && capture::mark(process, &target, event)? {
        return Ok(());
    }
    perform(
        process,
        &target,
        Action::Record(event as usize),
        WaitPolicy::Later,
    )
}
