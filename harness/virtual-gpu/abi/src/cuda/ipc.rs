//! Memory and events of other processes.

use std::ffi::c_uint;

use crate::arguments::{put, put_new};
use crate::cuda::layout::IpcHandle;
use gpubench_virtual_gpu_driver::calls::ipc;
use gpubench_virtual_gpu_driver::code;
use gpubench_virtual_gpu_driver::handles::Handle;

entries! {
    fn cuIpcGetMemHandle(handle: *mut IpcHandle, pointer: u64) {
        put(handle, IpcHandle(ipc::memory_handle(pointer)?))
    }

    fn cuIpcOpenMemHandle_v2(pointer: *mut u64, handle: IpcHandle, flags: c_uint) {
        // CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS is the only flag, and is required (cuda.h).
        if flags != 1 {
            return Err(code::INVALID_VALUE);
        }
        put_new(pointer, || ipc::open_memory(&handle.0))
    }

    fn cuIpcCloseMemHandle(pointer: u64) {
        ipc::close_memory(pointer)
    }

    fn cuIpcGetEventHandle(handle: *mut IpcHandle, event: Handle) {
        put(handle, IpcHandle(ipc::event_handle(event)?))
    }

    fn cuIpcOpenEventHandle(event: *mut Handle, handle: IpcHandle) {
        put_new(event, || ipc::open_event(&handle.0))
    }
}
