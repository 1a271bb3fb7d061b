//! Device memory by `cuMemAlloc`, typed, and the copies to and from it.
//!
//! It never uses the asynchronous pool: the cost of an allocation and the refusal of a cap must
//! belong to `cuMemAlloc`.
#![expect(unsafe_code, reason = "calls libcuda and copies through raw pointers")]

use std::marker::PhantomData;

use super::context::Context;
use super::error::{DriverError, note_drop};
use super::stream::Stream;

mod sealed {
    pub trait Sealed {}
}

/// Plain numbers: every bit pattern is a value, and there is no padding.
pub trait Pod: sealed::Sealed + Copy + Default + Send + Sync + 'static {}

macro_rules! pod {
    ($($number:ty),*) => { $( impl sealed::Sealed for $number {} impl Pod for $number {} )* };
}
pod!(u8, u16, u32, u64, i8, i16, i32, i64, f32, f64);

/// An address in device memory, without ownership.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DevicePtr(pub u64);

impl DevicePtr {
    pub const NULL: Self = Self(0);

    /// The address `bytes` further on.
    pub fn offset_bytes(self, bytes: u64) -> Self {
        Self(self.0.wrapping_add(bytes))
    }
}

impl DevicePtr {
    /// Copies `values.len()` numbers from this address, of any owner, and waits. The driver checks
    /// the address and refuses unmapped ones.
    pub fn read<T: Pod>(self, context: &Context, values: &mut [T]) -> Result<(), DriverError> {
        let to = values.as_mut_ptr().cast();
        // SAFETY: the target is `values`, any bits are a value, and the source is checked by the
        // driver against every mapping of the context.
        unsafe { context.api().memcpy_d2h(to, self.0, size_of_val(values)) }
    }

    /// Queues a copy of the first `count` numbers of pinned memory from this address, of any owner.
    pub fn read_async<T: Pod>(
        self,
        to: &PinnedBuffer<T>,
        count: usize,
        stream: &Stream,
    ) -> Result<(), DriverError> {
        let target = to.address("asynchronous read", 0, count)?;
        let bytes = count * size_of::<T>();
        // SAFETY: the target was checked, and pinned memory waits for the device before it goes;
        // the source is checked by the driver against every mapping of the context.
        unsafe {
            stream.context().api().memcpy_d2h_async(target.cast(), self.0, bytes, stream.handle())
        }
    }

    /// Sets `bytes` bytes from this address on, of any owner, and waits. The driver checks the
    /// range as it does for a copy.
    pub fn fill_bytes(self, context: &Context, value: u8, bytes: u64) -> Result<(), DriverError> {
        // SAFETY: the target is checked by the driver against every mapping of the context.
        unsafe { context.api().memset_d8(self.0, value, bytes as usize) }?;
        settle(context)
    }
}

/// Device memory for `len` numbers.
#[derive(Debug)]
pub struct DeviceBuffer<T: Pod> {
    context: Context,
    pointer: u64,
    len: usize,
    kind: PhantomData<T>,
}

impl<T: Pod> DeviceBuffer<T> {
    /// Allocates; the contents are undefined.
    pub fn alloc(context: &Context, len: usize) -> Result<Self, DriverError> {
        let mut pointer = 0_u64;
        // The driver refuses a length that overflows the number of bytes.
        let bytes = len.saturating_mul(size_of::<T>());
        // SAFETY: writes one pointer.
        unsafe { context.api().mem_alloc(&raw mut pointer, bytes) }?;
        Ok(Self { context: context.clone(), pointer, len, kind: PhantomData })
    }

    /// Allocates and copies `values` there.
    pub fn from_slice(context: &Context, values: &[T]) -> Result<Self, DriverError> {
        let buffer = Self::alloc(context, values.len())?;
        buffer.write(0, values)?;
        Ok(buffer)
    }

    /// Frees the memory and returns the result. The context must be current.
    pub fn free(self) -> Result<(), DriverError> {
        let mut this = std::mem::ManuallyDrop::new(self);
        // SAFETY: allocated by this object and released once: its own drop does not run.
        let outcome = unsafe { this.context.api().mem_free(this.pointer) };
        // SAFETY: the only other owner; the object is not touched again.
        unsafe { std::ptr::drop_in_place(&raw mut this.context) };
        outcome
    }

    /// Frees the memory twice, as a faulty program does; returns the result of the second call.
    pub fn free_twice(self) -> Result<(), DriverError> {
        let (context, pointer) = (self.context.clone(), self.pointer);
        self.free()?;
        // SAFETY: the address is a plain number; the driver refuses an unknown one.
        unsafe { context.api().mem_free(pointer) }
    }

    pub fn context(&self) -> &Context {
        &self.context
    }

    pub fn device_ptr(&self) -> DevicePtr {
        DevicePtr(self.pointer)
    }

    /// How many numbers it holds.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many bytes it holds.
    pub fn bytes(&self) -> u64 {
        (self.len * size_of::<T>()) as u64
    }

    /// Copies `values` to the elements from `at` on, and waits.
    pub fn write(&self, at: usize, values: &[T]) -> Result<(), DriverError> {
        let to = self.address("write", at, values.len())?;
        // SAFETY: the source is `values`, the target range was checked.
        unsafe { self.context.api().memcpy_h2d(to, values.as_ptr().cast(), size_of_val(values)) }?;
        settle(&self.context)
    }

    /// Copies the elements from `at` on into `values`, and waits.
    pub fn read(&self, at: usize, values: &mut [T]) -> Result<(), DriverError> {
        let from = self.address("read", at, values.len())?;
        // SAFETY: the target is `values`, the source range was checked, and any bits are a value.
        unsafe {
            self.context.api().memcpy_d2h(values.as_mut_ptr().cast(), from, size_of_val(values))
        }
    }

    /// Copies everything into a new vector, and waits.
    pub fn to_vec(&self) -> Result<Vec<T>, DriverError> {
        let mut values = vec![T::default(); self.len];
        self.read(0, &mut values)?;
        Ok(values)
    }

    /// Queues a copy of `count` elements from pinned host memory, both from their own `at`.
    pub fn write_async(
        &self,
        at: usize,
        from: &PinnedBuffer<T>,
        from_at: usize,
        count: usize,
        stream: &Stream,
    ) -> Result<(), DriverError> {
        let to = self.address("asynchronous write", at, count)?;
        let source = from.address("asynchronous write", from_at, count)?;
        let bytes = count * size_of::<T>();
        // SAFETY: both ranges were checked; pinned memory waits for the device before it goes.
        unsafe {
            self.context.api().memcpy_h2d_async(
                to,
                source.cast_const().cast(),
                bytes,
                stream.handle(),
            )
        }
    }

    /// Queues a copy of `count` elements to pinned host memory, both from their own `at`.
    pub fn read_async(
        &self,
        at: usize,
        to: &PinnedBuffer<T>,
        to_at: usize,
        count: usize,
        stream: &Stream,
    ) -> Result<(), DriverError> {
        let from = self.address("asynchronous read", at, count)?;
        let target = to.address("asynchronous read", to_at, count)?;
        let bytes = count * size_of::<T>();
        // SAFETY: both ranges were checked; pinned memory waits for the device before it goes.
        unsafe { self.context.api().memcpy_d2h_async(target.cast(), from, bytes, stream.handle()) }
    }

    /// Sets every byte, and waits.
    pub fn fill_bytes(&self, value: u8) -> Result<(), DriverError> {
        self.device_ptr().fill_bytes(&self.context, value, self.bytes())
    }

    fn address(&self, what: &'static str, at: usize, count: usize) -> Result<u64, DriverError> {
        check_range(what, at, count, self.len)?;
        Ok(self.pointer + (at * size_of::<T>()) as u64)
    }
}

impl DeviceBuffer<u32> {
    /// Sets every word, and waits.
    pub fn fill(&self, value: u32) -> Result<(), DriverError> {
        // SAFETY: the range is the whole buffer.
        unsafe { self.context.api().memset_d32(self.pointer, value, self.len) }?;
        settle(&self.context)
    }
}

impl<T: Pod> Drop for DeviceBuffer<T> {
    fn drop(&mut self) {
        // SAFETY: allocated by this object, released once.
        self.context.release(|api| unsafe { api.mem_free(self.pointer) });
    }
}

/// Waits for the default stream. A copy from pageable memory returns once it is staged and a fill
/// once it is queued, and our streams do not wait for the default one (CUDA driver API, "API
/// synchronization behavior").
fn settle(context: &Context) -> Result<(), DriverError> {
    // SAFETY: null is the default stream of the current context.
    unsafe { context.api().stream_synchronize(std::ptr::null_mut()) }
}

pub(super) fn check_range(
    what: &'static str,
    at: usize,
    count: usize,
    len: usize,
) -> Result<(), DriverError> {
    match at.checked_add(count) {
        Some(end) if end <= len => Ok(()),
        _ => Err(DriverError::Range { what, at, count, len }),
    }
}

// Page-locked host memory for copies at full PCIe speed.

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

// Pageable host memory that is page-locked after its allocation.

/// Host memory locked by `cuMemHostRegister`.
#[derive(Debug)]
pub struct RegisteredBuffer {
    context: Context,
    memory: Vec<u8>,
}

impl RegisteredBuffer {
    /// Allocates that many bytes, touches and locks them.
    pub fn register(context: &Context, bytes: usize) -> Result<Self, DriverError> {
        let mut memory = vec![1_u8; bytes];
        // SAFETY: the range is the vector's own, which does not move until it is unlocked.
        unsafe { context.api().mem_host_register(memory.as_mut_ptr().cast(), bytes, 0) }?;
        Ok(Self { context: context.clone(), memory })
    }

    /// How many bytes are locked.
    pub fn bytes(&self) -> usize {
        self.memory.len()
    }
}

impl Drop for RegisteredBuffer {
    fn drop(&mut self) {
        let pointer = self.memory.as_mut_ptr();
        // SAFETY: locked by this object, unlocked once, before the memory goes.
        self.context.release(|api| unsafe { api.mem_host_unregister(pointer.cast()) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_kept_and_overflow_is_refused() {
        for (at, count, len, fits) in [
            (0, 0, 0, true),
            (0, 4, 4, true),
            (3, 1, 4, true),
            (4, 0, 4, true),
            (4, 1, 4, false),
            (5, 0, 4, false),
            (usize::MAX, 2, 4, false),
        ] {
            assert_eq!(check_range("test", at, count, len).is_ok(), fits, "{at} {count} {len}");
        }
    }

    #[test]
    fn an_offset_is_in_bytes_for_every_type() {
        assert_eq!(DevicePtr(100).offset_bytes(8), DevicePtr(108));
    }
}
