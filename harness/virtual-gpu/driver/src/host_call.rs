//! Functions of the program that are called when a stream reaches them.
//!
//! They run on a thread of the driver, while what follows in the stream is deferred.
#![expect(
    unsafe_code,
    reason = "memory of the device and of the program is reached by raw pointers"
)]

use std::ffi::c_void;

use crate::code::Code;
use crate::entries::StreamEntry;
use crate::handles::Handle;
use crate::operation::{Callback, HostCall};
use crate::process::Process;
use crate::stream::come_to;

/// Waits for the stream and calls the function.
pub fn run(process: &Process, stream: &StreamEntry, call: &HostCall) -> Result<(), Code> {
    come_to(process, stream)?;
    process.check_sticky(stream.context)?;
    // SAFETY: the program's own function with the program's own argument.
    unsafe { (call.function)(call.data as *mut c_void) };
    Ok(())
}

/// Waits for the stream and calls the function, even after an error of the context.
pub fn call_back(process: &Process, stream: &StreamEntry, call: &Callback) -> Result<(), Code> {
    come_to(process, stream)?;
    let status = process
        .check_sticky(stream.context)
        .map_or_else(|code| code.0, |()| 0);
    let (handle, data) = (call.stream as Handle, call.data as *mut c_void);
    // SAFETY: the program's own function with the program's own argument.
    unsafe { (call.function)(handle, status, data) };
    Ok(())
}
