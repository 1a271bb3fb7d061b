//! Page-locked host memory for copies at full PCIe speed.
#![expect(unsafe_code, reason = "calls libcuda and copies through raw pointers")]

use super::context::Context;
use super::error::{DriverError, note_drop};
use super::memory::{DevicePtr, Pod, check_range};

/// Usable from every context, and mapped into the device's address space (`CU_MEMHOSTALLOC_*`). Not
/// write-combined: reading that back on the host is very slow.
const PORTABLE_AND_MAPPED: u32 = 1 | 2;

/// Page-locked host memory for `len` numbers.
///
/// The device may write to it while the host reads, so no slice of it is handed out: `read` and
/// `write` copy. `write` needs the buffer for itself, so no thread reads what another one writes:
///
/// ```compile_fail,E0594,E0596
/// # use gpubench_kernels::driver::{DriverError, PinnedBuffer};
/// fn shared(buffer: &PinnedBuffer<u64>) -> Result<(), DriverError> {
///     buffer.write(0, &[1])
/// }
/// ```
///
/// Dropping it waits for the context, since a copy may be running.
#[derive(Debug)]
pub struct PinnedBuffer<T: Pod> {
    context: Context,
    pointer: *mut T,
    len: usize,
}

// SAFETY: raw memory owned by this object, which no thread-local state refers to.
unsafe impl<T: Pod> Send for PinnedBuffer<T> {}
// SAFETY: threads that share the buffer only read, since every write of the host takes `&mut self`.
// The device's writes are no memory accesses of this program, and are read as volatile.
unsafe impl<T: Pod> Sync for PinnedBuffer<T> {}

impl<T: Pod> PinnedBuffer<T> {
    /// Allocates and zeroes.
    pub fn alloc(context: &Context, len: usize) -> Result<Self, DriverError> {
        let buffer = Self::unwritten(context, len)?;
        // SAFETY: `len` numbers were just allocated and have no other reference; zero is a value.
        unsafe { buffer.pointer.write_bytes(0, len) };
        Ok(buffer)
    }

    /// Allocates and frees, without the time to write what the driver locks.
    pub fn alloc_and_free(context: &Context, len: usize) -> Result<(), DriverError> {
        Self::unwritten(context, len).map(drop)
    }

    /// Allocates. What the numbers are is unknown: they may not be read yet.
    fn unwritten(context: &Context, len: usize) -> Result<Self, DriverError> {
        let mut raw = std::ptr::null_mut();
        let bytes = len.saturating_mul(size_of::<T>());
        // SAFETY: writes one pointer.
        unsafe { context.api().mem_host_alloc(&raw mut raw, bytes, PORTABLE_AND_MAPPED) }?;
        Ok(Self { context: context.clone(), pointer: raw.cast(), len })
    }

    /// How many numbers it holds.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Its address on the device.
    pub fn device_ptr(&self) -> Result<DevicePtr, DriverError> {
        let mut pointer = 0_u64;
        let api = self.context.api();
        // SAFETY: writes one pointer; the memory was allocated as mapped.
        unsafe { api.mem_host_get_device_pointer(&raw mut pointer, self.pointer.cast(), 0) }?;
        Ok(DevicePtr(pointer))
    }

    /// Copies `values` to the elements from `at` on.
    pub fn write(&mut self, at: usize, values: &[T]) -> Result<(), DriverError> {
        let to = self.address("write to pinned memory", at, values.len())?;
        for (offset, value) in values.iter().enumerate() {
            // SAFETY: the range was checked; volatile because the device may be reading.
            unsafe { to.add(offset).write_volatile(*value) };
        }
        Ok(())
    }

    /// Copies the elements from `at` on into `values`.
    pub fn read(&self, at: usize, values: &mut [T]) -> Result<(), DriverError> {
        let from = self.address("read of pinned memory", at, values.len())?;
        for (offset, value) in values.iter_mut().enumerate() {
            // SAFETY: the range was checked; volatile because the device may be writing.
            *value = unsafe { from.add(offset).read_volatile() };
        }
        Ok(())
    }

    pub(super) fn address(
        &self,
        what: &'static str,
        at: usize,
        count: usize,
    ) -> Result<*mut T, DriverError> {
        check_range(what, at, count, self.len)?;
        // SAFETY: `at` is at most `len`, so the address lies in the allocation or at its end.
        Ok(unsafe { self.pointer.add(at) })
    }
}

impl<T: Pod> Drop for PinnedBuffer<T> {
    fn drop(&mut self) {
        let pointer = self.pointer;
        self.context.release(|api| {
            // SAFETY: no arguments; the context was made current.
            note_drop(unsafe { api.ctx_synchronize() });
            // SAFETY: allocated by this object, released once, after the device is done with it.
            unsafe { api.mem_free_host(pointer.cast()) }
        });
    }
}
