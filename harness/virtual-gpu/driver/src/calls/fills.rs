//! Calls that fill memory.

use crate::code::Code;
use crate::execute::perform;
use crate::fill_shape::Fill;
use crate::handles::Handle;
use crate::operation::{Action, WaitPolicy};
use crate::process::process;

/// Fills in a stream, or in the default stream with a wait.
pub fn queue(fill: Fill, stream: Option<Handle>) -> Result<(), Code> {
    let process = process()?;
    let policy = if stream.is_some() { WaitPolicy::Later } else { WaitPolicy::Now };
    let stream = process.stream(stream.unwrap_or(std::ptr::null_mut()))?;
    perform(process, &stream, Action::Fill(fill), policy)
}
