//! Functions of the program that wait for their turn in a stream.
//!
//! The call returns at once; a thread of the driver's own waits until the stream gets there and
//! calls the function, while what follows in the stream is held back (`backlog`). A graph's host
//! nodes are called by the thread that launches the graph's steps, which is one of those, too.
#![expect(
    unsafe_code,
    reason = "a C interface is made of raw pointers and exported names"
)]

use std::ffi::{c_int, c_uint, c_void};

use super::action::{Action, Pace, mark, perform};
use super::global::entries;
use crate::process::{Process, process};
use gpubench_virtual_gpu_driver::code::{self, Code};
use gpubench_virtual_gpu_driver::entries::StreamEntry;
use gpubench_virtual_gpu_driver::handles::Handle;

/// `CUhostFn`.
pub type HostFunction = unsafe extern "C" fn(*mut c_void);
/// `CUstreamCallback`.
pub type StreamCallback = unsafe extern "C" fn(Handle, c_int, *mut c_void);

/// A function of the program with what it is called with. The addresses are the program's affair.
#[derive(Debug, Clone, Copy)]
pub struct HostCall {
    /// The function.
    pub function: HostFunction,
    /// Its argument.
    pub data: usize,
}

/// A function that is told the stream and how it stands with its context, too.
#[derive(Debug, Clone, Copy)]
pub struct Callback {
    /// The function.
    pub function: StreamCallback,
    /// The stream's handle.
    pub stream: usize,
    /// Its argument.
    pub data: usize,
}

entries! {
    fn cuLaunchHostFunc(stream: Handle, function: Option<HostFunction>, data: *mut c_void) {
        let function = function.ok_or(code::INVALID_VALUE)?;
        queue(stream, HostCall { function, data: data as usize })
    }

    // CUhostTaskSyncMode (cuda.h) tells the driver how to wait: blocking or spinning.
    fn cuLaunchHostFunc_v2(
        stream: Handle,
        function: Option<HostFunction>,
        data: *mut c_void,
        mode: c_uint,
    ) {
        let function = function.filter(|_| mode <= 1).ok_or(code::INVALID_VALUE)?;
        queue(stream, HostCall { function, data: data as usize })
    }

    fn cuStreamAddCallback(
        stream: Handle,
        callback: Option<StreamCallback>,
        data: *mut c_void,
        flags: c_uint,
    ) {
        let callback = callback.filter(|_| flags == 0).ok_or(code::INVALID_VALUE)?;
        let process = process()?;
        let entry = process.stream(stream)?;
        super::graph::capture::forbid(process, &entry)?;
        let (stream, data) = (stream as usize, data as usize);
        let call = Callback { function: callback, stream, data };
        perform(process, &entry, Action::Callback(call), Pace::Later)
    }
}

fn queue(stream: Handle, call: HostCall) -> Result<(), Code> {
    let process = process()?;
    let stream = process.stream(stream)?;
    perform(process, &stream, Action::Host(call), Pace::Later)
}

/// Waits for the stream and calls the function.
///
/// # Errors
/// When the context broke: the function is not called then.
pub(super) fn run(process: &Process, stream: &StreamEntry, call: &HostCall) -> Result<(), Code> {
    come_to(process, stream)?;
    process.check_sticky(stream.context)?;
    // SAFETY: the program's own function with the program's own argument.
    unsafe { (call.function)(call.data as *mut c_void) };
    Ok(())
}

/// Waits for the stream and calls the function, whatever became of the context.
///
/// # Errors
/// When the clock stalls.
pub(super) fn call_back(
    process: &Process,
    stream: &StreamEntry,
    call: &Callback,
) -> Result<(), Code> {
    come_to(process, stream)?;
    let status = process
        .check_sticky(stream.context)
        .map_or_else(|code| code.0, |()| 0);
    let (handle, data) = (call.stream as Handle, call.data as *mut c_void);
    // SAFETY: the program's own function with the program's own argument.
    unsafe { (call.function)(handle, status, data) };
    Ok(())
}

/// Waits until the device has come to this place of the stream, and for the results until there.
///
/// # Errors
/// When the clock stalls.
pub(super) fn come_to(process: &Process, stream: &StreamEntry) -> Result<(), Code> {
    let seq = mark(process, stream)?;
    process.device.wait_stream(stream.slot, seq)?;
    crate::launch::finish_deferred(process, stream.context)
}
