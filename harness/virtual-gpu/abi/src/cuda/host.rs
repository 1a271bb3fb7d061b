//! Functions of the program that wait for their turn in a stream.
//!
//! The call returns at once; a thread of the driver's own waits until the stream gets there and
//! calls the function, while what follows in the stream is held back (`backlog`). A graph's host
//! nodes are called by the thread that launches the graph's steps, which is one of those, too.

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

    // CUhostTaskSyncMode (cuda.h) tells the driver how to wait: blocking or spinning.
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
