//! Streams: queues of work in order.
#![expect(unsafe_code, reason = "calls libcuda")]

use super::api::Handle;
use super::codes;
use super::context::Context;
use super::error::DriverError;
use super::event::Event;

/// Does not wait for the legacy default stream (`CU_STREAM_NON_BLOCKING`).
const NON_BLOCKING: u32 = 1;

/// A stream. Dropping it does not wait; pending work runs to its end.
#[derive(Debug)]
pub struct Stream {
    context: Context,
    handle: Handle,
}

// SAFETY: stream handles may be used from any thread (CUDA driver API, "Thread safety").
unsafe impl Send for Stream {}
// SAFETY: as above.
unsafe impl Sync for Stream {}

impl Stream {
    /// A stream of the default priority.
    pub fn new(context: &Context) -> Result<Self, DriverError> {
        Self::with_priority(context, 0)
    }

    /// A stream of that priority; the driver clamps it to `Context::stream_priority_range`.
    pub fn with_priority(context: &Context, priority: i32) -> Result<Self, DriverError> {
        let mut handle: Handle = std::ptr::null_mut();
        // SAFETY: writes one handle.
        unsafe { context.api().stream_create(&raw mut handle, NON_BLOCKING, priority) }?;
        Ok(Self { context: context.clone(), handle })
    }

    /// The priority that the driver gave it; a lower number is more urgent.
    pub fn priority(&self) -> Result<i32, DriverError> {
        let mut priority = 0;
        // SAFETY: the handle is alive as long as `self`; writes one number.
        unsafe { self.context.api().stream_get_priority(self.handle, &raw mut priority) }?;
        Ok(priority)
    }

    /// The context it belongs to.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Waits for all work of the stream.
    pub fn synchronize(&self) -> Result<(), DriverError> {
        // SAFETY: the handle is alive as long as `self`.
        unsafe { self.context.api().stream_synchronize(self.handle) }
    }

    /// Whether all work of the stream is done.
    pub fn is_done(&self) -> Result<bool, DriverError> {
        // SAFETY: the handle is alive as long as `self`.
        done_or_pending(unsafe { self.context.api().stream_query(self.handle) })
    }

    /// Makes later work of this stream wait for an event.
    pub fn wait_event(&self, event: &Event) -> Result<(), DriverError> {
        // SAFETY: both handles are alive during the call; the driver retains what it uses.
        unsafe { self.context.api().stream_wait_event(self.handle, event.handle(), 0) }
    }

    pub(super) fn handle(&self) -> Handle {
        self.handle
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: made by this object, released once.
        self.context.release(|api| unsafe { api.stream_destroy(self.handle) });
    }
}

/// Maps NOT_READY to false; every other code is an error.
pub(super) fn done_or_pending(answer: Result<(), DriverError>) -> Result<bool, DriverError> {
    match answer {
        Ok(()) => Ok(true),
        Err(error) if error.code() == Some(codes::NOT_READY) => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pending_is_no_error_and_errors_are_not_pending() {
        let answer = |code| done_or_pending(Err(DriverError::from_code("cuStreamQuery", code)));
        assert_eq!(done_or_pending(Ok(())), Ok(true));
        assert_eq!(answer(codes::NOT_READY), Ok(false));
        assert_eq!(answer(700).map_err(|e| e.code()), Err(Some(700)));
        assert_eq!(answer(601).map_err(|e| e.code()), Err(Some(601)));
    }
}
