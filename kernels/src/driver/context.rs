//! A context and its use by threads.
#![expect(unsafe_code, reason = "calls libcuda")]

use std::ffi::{c_int, c_uint};
use std::sync::Arc;

use super::api::{Api, Handle};
use super::device::Device;
use super::error::{DriverError, note_drop};

/// How a host thread waits for the device (`CUctx_flags` of cuda.h).
///
/// With `Auto` the driver counts the contexts of this process only, so that many tenants spin on
/// few cores. A tenant should choose a mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum WaitMode {
    /// The driver's choice.
    Auto = 0,
    /// Spin: lowest latency, one core.
    Spin = 1,
    /// Spin, but yield to other threads.
    Yield = 2,
    /// Sleep until an interrupt.
    BlockingSync = 4,
}

/// Limits of a context (`CUlimit` of cuda.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum Limit {
    /// Bytes of stack of each thread.
    StackBytes = 0,
    PrintfBytes = 1,
    /// Bytes of the device heap.
    HeapBytes = 2,
}

/// Device memory as the driver reports it to this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemInfo {
    pub free_bytes: u64,
    /// Bytes in total, or the cap where a mechanism reports one.
    pub total_bytes: u64,
}

/// How a context was created, which decides how it is released.
#[derive(Debug)]
pub(super) enum Kind {
    Primary,
    Own,
    /// Converted from this green context of the primary one.
    Green {
        green: Handle,
        primary: Context,
    },
}

#[derive(Debug)]
struct Inner {
    device: Device,
    handle: Handle,
    kind: Kind,
}

// SAFETY: a context handle may be used from any thread (CUDA driver API, "Thread safety"); the rest
// is plain data.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

/// A context of a device; clones share it, and the last clone releases it.
///
/// It is current on the thread that created it. Every other thread that launches, copies, records
/// or allocates calls `bind` first. Releases make it current by themselves.
#[derive(Debug, Clone)]
pub struct Context(Arc<Inner>);

impl Context {
    /// Retains the primary context, which a framework in this process would share.
    pub fn primary(device: &Device, wait: WaitMode) -> Result<Self, DriverError> {
        let api = &device.driver.api;
        let mut handle: Handle = std::ptr::null_mut();
        // SAFETY: plain numbers.
        unsafe { api.primary_ctx_set_flags(device.handle, wait as c_uint) }?;
        // SAFETY: writes one handle.
        unsafe { api.primary_ctx_retain(&raw mut handle, device.handle) }?;
        let context = Self(Arc::new(Inner { device: *device, handle, kind: Kind::Primary }));
        context.bind()?;
        Ok(context)
    }

    /// Takes ownership of a context and makes it current on this thread.
    pub(super) fn adopt(device: &Device, handle: Handle, kind: Kind) -> Result<Self, DriverError> {
        let device = *device;
        let context = Self(Arc::new(Inner { device, handle, kind }));
        context.bind()?;
        Ok(context)
    }

    pub fn create(device: &Device, wait: WaitMode) -> Result<Self, DriverError> {
        let mut handle: Handle = std::ptr::null_mut();
        let flags = wait as c_uint;
        // SAFETY: writes one handle; the new context is current on this thread.
        unsafe { device.driver.api.ctx_create(&raw mut handle, flags, device.handle) }?;
        Ok(Self(Arc::new(Inner { device: *device, handle, kind: Kind::Own })))
    }

    pub fn device(&self) -> &Device {
        &self.0.device
    }

    /// Its flags now (`CUctx_flags` of cuda.h). A green context has those of the primary one.
    pub fn flags(&self) -> Result<u32, DriverError> {
        let (mut flags, mut active) = (0, 0);
        let api = self.api();
        match self.0.kind {
            Kind::Own => {
                self.bind()?;
                // SAFETY: writes one number.
                unsafe { api.ctx_get_flags(&raw mut flags) }?;
            }
            Kind::Primary | Kind::Green { .. } => {
                let device = self.0.device.handle;
                // SAFETY: writes two numbers.
                unsafe { api.primary_ctx_get_state(device, &raw mut flags, &raw mut active) }?;
            }
        }
        Ok(flags)
    }

    /// Makes the context current on this thread.
    pub fn bind(&self) -> Result<(), DriverError> {
        // SAFETY: the handle is alive as long as `self`.
        unsafe { self.api().ctx_set_current(self.0.handle) }
    }

    /// Makes current on this thread what it needs to wait for events of the context. A green
    /// context can be current to only one thread at a time (CUDA driver API, `cuGreenCtxCreate`),
    /// and events can be waited for whatever is current (CUDA programming guide, "Stream and
    /// Event Behavior"), so it is the primary context then.
    pub fn bind_to_wait(&self) -> Result<(), DriverError> {
        match &self.0.kind {
            Kind::Green { primary, .. } => primary.bind(),
            Kind::Primary | Kind::Own => self.bind(),
        }
    }

    /// Waits for all work of the context, and reports errors of that work.
    pub fn synchronize(&self) -> Result<(), DriverError> {
        // SAFETY: no arguments.
        unsafe { self.api().ctx_synchronize() }
    }

    /// Destroys a context with the work that runs on it, while other objects of it exist.
    ///
    /// # Safety
    /// The driver frees all objects of the context, so their handles dangle, also after an error:
    /// the caller neither uses nor drops any clone of the context, stream, event, module, memory
    /// or other object of it afterwards. [`std::mem::forget`] discards them.
    ///
    /// ```compile_fail,E0133
    /// # use gpubench_kernels::driver::{Context, DriverError};
    /// fn destroy(context: Context) -> Result<(), DriverError> {
    ///     context.destroy_under_work()
    /// }
    /// ```
    pub unsafe fn destroy_under_work(self) -> Result<(), DriverError> {
        // The count of clones stays above zero, so the context is not destroyed a second time.
        let context = std::mem::ManuallyDrop::new(self);
        // SAFETY: the handle was made by this object and is alive; the caller uses none of the
        // objects that go with it.
        unsafe { context.api().ctx_destroy(context.0.handle) }
    }

    /// Free and total device memory.
    pub fn mem_info(&self) -> Result<MemInfo, DriverError> {
        let (mut free, mut total) = (0_usize, 0_usize);
        // SAFETY: writes two sizes.
        unsafe { self.api().mem_get_info(&raw mut free, &raw mut total) }?;
        Ok(MemInfo { free_bytes: free as u64, total_bytes: total as u64 })
    }

    /// The priorities of streams: least urgent, most urgent (the smaller number).
    pub fn stream_priority_range(&self) -> Result<(i32, i32), DriverError> {
        let (mut least_urgent, mut most_urgent) = (0, 0);
        // SAFETY: writes two ints.
        unsafe {
            self.api().ctx_get_stream_priority_range(&raw mut least_urgent, &raw mut most_urgent)
        }?;
        Ok((least_urgent, most_urgent))
    }

    pub fn limit_bytes(&self, limit: Limit) -> Result<u64, DriverError> {
        let mut value = 0_usize;
        // SAFETY: writes one size.
        unsafe { self.api().ctx_get_limit(&raw mut value, limit as c_int) }?;
        Ok(value as u64)
    }

    /// Sets a limit; the driver may round it up.
    pub fn set_limit_bytes(&self, limit: Limit, bytes: usize) -> Result<(), DriverError> {
        // SAFETY: plain numbers.
        unsafe { self.api().ctx_set_limit(limit as c_int, bytes) }
    }

    pub(super) fn api(&self) -> &'static Api {
        &self.0.device.driver.api
    }

    /// Runs a release with this context current, restores the current context, and counts a
    /// failure.
    pub(super) fn release(&self, free: impl FnOnce(&Api) -> Result<(), DriverError>) {
        let api = self.api();
        // SAFETY: the handle is alive as long as `self`.
        let pushed = unsafe { api.ctx_push_current(self.0.handle) };
        let popped = pushed.is_ok();
        note_drop(pushed);
        note_drop(free(api));
        if popped {
            let mut was: Handle = std::ptr::null_mut();
            // SAFETY: writes one handle; the push above succeeded.
            note_drop(unsafe { api.ctx_pop_current(&raw mut was) });
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let api = &self.device.driver.api;
        note_drop(match self.kind {
            // SAFETY: retained once by this object.
            Kind::Primary => unsafe { api.primary_ctx_release(self.device.handle) },
            // SAFETY: made by this object; every user holds a clone, so no user is left.
            Kind::Own => unsafe { api.ctx_destroy(self.handle) },
            // SAFETY: as above.
            Kind::Green { green, .. } => unsafe { api.green_ctx_destroy(green) },
        });
    }
}
