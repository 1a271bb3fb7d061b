//! Memory and events of other processes.

use std::ffi::{c_int, c_uint, c_ulonglong, c_void};
use std::os::fd::IntoRawFd;

use crate::arguments::{put, put_new};
use crate::cuda::layout::IpcHandle;
use gpubench_virtual_gpu_driver::calls::ipc;
use gpubench_virtual_gpu_driver::code;
use gpubench_virtual_gpu_driver::handles::Handle;
use gpubench_virtual_gpu_driver::ipc::read_ticket;

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

    fn cuMemExportToShareableHandle(
        shareable: *mut c_void, handle: u64, kind: c_int, flags: c_ulonglong,
    ) {
        // CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR is 1 (cuda.h).
        if kind != 1 || flags != 0 {
            return Err(code::INVALID_VALUE);
        }
        put_new(shareable.cast::<c_int>(), || {
            Ok(ipc::export_physical(handle)?.into_raw_fd())
        })
    }

    fn cuMemImportFromShareableHandle(handle: *mut u64, shareable: *mut c_void, kind: c_int) {
        // The descriptor itself is passed as if it were a pointer (cuda.h).
        let descriptor = c_int::try_from(shareable as usize).map_err(|_| code::INVALID_VALUE)?;
        if kind != 1 {
            return Err(code::INVALID_VALUE);
        }
        put_new(handle, || ipc::import_physical(&read_ticket(descriptor)?))
    }
}
