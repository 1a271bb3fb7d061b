//! Device memory of another process, by its CUDA IPC handle.
#![expect(unsafe_code, reason = "calls libcuda")]

use super::context::Context;
use super::error::DriverError;
use super::layout::IpcHandle;
use super::memory::{DeviceBuffer, DevicePtr, Pod};

/// Peer access is set up when needed (`CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS`, the only flag).
const LAZY_PEER_ACCESS: u32 = 1;

impl<T: Pod> DeviceBuffer<T> {
    /// A handle by which another process may map this buffer, as long as this one keeps it.
    pub fn ipc_handle(&self) -> Result<IpcHandle, DriverError> {
        let mut handle = IpcHandle([0; 64]);
        let api = self.context().api();
        // SAFETY: writes one handle; the pointer is this buffer's.
        unsafe { api.ipc_get_mem_handle(&raw mut handle, self.device_ptr().0) }?;
        Ok(handle)
    }
}

/// A buffer of another process, mapped here.
#[derive(Debug)]
pub struct IpcMapping {
    context: Context,
    pointer: u64,
}

impl IpcMapping {
    /// Maps the buffer; the exporter must be another process.
    pub fn open(context: &Context, handle: IpcHandle) -> Result<Self, DriverError> {
        let mut pointer = 0_u64;
        let api = context.api();
        // SAFETY: writes one pointer; the handle is plain bytes that the driver checks.
        unsafe { api.ipc_open_mem_handle(&raw mut pointer, handle, LAZY_PEER_ACCESS) }?;
        Ok(Self { context: context.clone(), pointer })
    }

    /// Its address in this process.
    pub fn device_ptr(&self) -> DevicePtr {
        DevicePtr(self.pointer)
    }
}

impl Drop for IpcMapping {
    fn drop(&mut self) {
        // SAFETY: mapped by this object, released once.
        self.context.release(|api| unsafe { api.ipc_close_mem_handle(self.pointer) });
    }
}
