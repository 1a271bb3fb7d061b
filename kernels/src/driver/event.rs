//! Events: marks in a stream, with the device's time where requested.
#![expect(unsafe_code, reason = "calls libcuda")]

use super::api::Handle;
use super::context::Context;
use super::error::DriverError;
use super::stream::{Stream, done_or_pending};

/// The purpose of an event (`CUevent_flags` of cuda.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum EventKind {
    /// Keeps the device's time; waiting follows the context's `WaitMode`.
    Timing = 0,
    /// Keeps the device's time; waiting sleeps.
    TimingBlocking = 1,
    /// Marks completion only, the cheapest.
    Mark = 2,
    /// Marks completion only; waiting sleeps.
    MarkBlocking = 3,
}

/// A mark in a stream.
#[derive(Debug)]
pub struct Event {
    context: Context,
    handle: Handle,
}

// SAFETY: event handles may be used from any thread (CUDA driver API, "Thread safety").
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

impl Event {
    /// A new event, not recorded yet.
    pub fn new(context: &Context, kind: EventKind) -> Result<Self, DriverError> {
        let mut handle: Handle = std::ptr::null_mut();
        // SAFETY: writes one handle.
        unsafe { context.api().event_create(&raw mut handle, kind as u32) }?;
        Ok(Self { context: context.clone(), handle })
    }

    /// Records the event at the present end of the stream.
    pub fn record(&self, stream: &Stream) -> Result<(), DriverError> {
        // SAFETY: both handles are alive during the call.
        unsafe { self.context.api().event_record(self.handle, stream.handle()) }
    }

    /// Whether the work before the mark is done.
    pub fn is_done(&self) -> Result<bool, DriverError> {
        // SAFETY: the handle is alive as long as `self`.
        done_or_pending(unsafe { self.context.api().event_query(self.handle) })
    }

    /// Waits for the work before the mark.
    pub fn synchronize(&self) -> Result<(), DriverError> {
        // SAFETY: the handle is alive as long as `self`.
        unsafe { self.context.api().event_synchronize(self.handle) }
    }

    /// Device milliseconds from `start` to this event; both completed, both of a timing kind.
    pub fn elapsed_ms_since(&self, start: &Self) -> Result<f32, DriverError> {
        let mut milliseconds = 0.0_f32;
        let api = self.context.api();
        // SAFETY: writes one float; both handles are alive during the call.
        unsafe { api.event_elapsed_time(&raw mut milliseconds, start.handle, self.handle) }?;
        Ok(milliseconds)
    }

    pub(super) fn handle(&self) -> Handle {
        self.handle
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: made by this object, released once.
        self.context.release(|api| unsafe { api.event_destroy(self.handle) });
    }
}
