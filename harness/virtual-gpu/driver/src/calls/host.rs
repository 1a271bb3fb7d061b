//! Calls that queue functions of the program.

use crate::code::Code;
use crate::handles::Handle;
use crate::issue::perform;
use crate::operation::{Action, HostCall, WaitPolicy};
use crate::process::process;

/// Has a stream call a function.
pub fn queue(stream: Handle, call: HostCall) -> Result<(), Code> {
    let process = process()?;
    let stream = process.stream(stream)?;
    perform(process, &stream, Action::Host(call), WaitPolicy::Later)
}
