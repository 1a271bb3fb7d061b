//! Functions of the program that a stream calls.
//!
//! A thread of the driver calls the function when the stream gets there; later work of the stream
//! is deferred meanwhile. Host nodes of a graph are called by the thread that launches its steps.

use std::ffi::{c_uint, c_void};

use gpubench_virtual_gpu_driver::calls::host::queue;
use gpubench_virtual_gpu_driver::code;
use gpubench_virtual_gpu_driver::graph::capture;
use gpubench_virtual_gpu_driver::handles::Handle;
use gpubench_virtual_gpu_driver::issue::perform;
use gpubench_virtual_gpu_driver::operation::{
    Action, Callback, HostCall, HostFunction, StreamCallback, WaitPolicy,
};
use gpubench_virtual_gpu_driver::process::process;

entries! {
    fn cuLaunchHostFunc, cuLaunchHostFunc_ptsz(
        stream: Handle, function: Option<HostFunction>, data: *mut c_void,
    ) {
        let function = function.ok_or(code::INVALID_VALUE)?;
        queue(stream, HostCall { function, data: data as usize })
    }

    // CUhostTaskSyncMode (cuda.h) says how the driver waits: blocking or spinning.
    fn cuLaunchHostFunc_v2, cuLaunchHostFunc_v2_ptsz(
        stream: Handle, function: Option<HostFunction>, data: *mut c_void, mode: c_uint,
    ) {
        let function = function.filter(|_| mode <= 1).ok_or(code::INVALID_VALUE)?;
        queue(stream, HostCall { function, data: data as usize })
    }

    fn cuStreamAddCallback, cuStreamAddCallback_ptsz(
        stream: Handle, callback: Option<StreamCallback>, data: *mut c_void, flags: c_uint,
    ) {
        let callback = callback.filter(|_| flags == 0).ok_or(code::INVALID_VALUE)?;
        let process = process()?;
        let entry = process.stream(stream)?;
        capture::forbid(process, &entry)?;
        let (stream, data) = (stream as usize, data as usize);
        let call = Callback { function: callback, stream, data };
        perform(process, &entry, Action::Callback(call), WaitPolicy::Later)
    }
}
