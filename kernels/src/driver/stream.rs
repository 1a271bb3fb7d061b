//! Streams: queues of work in order.
#![expect(unsafe_code, reason = "calls libcuda")]

use super::api::{Api, Handle};
use super::context::Context;
use super::error;
use super::error::{DriverError, note_drop};
use super::layout::{AllocNode, Location, PoolProperties};

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

    pub fn context(&self) -> &Context {
        &self.context
    }

    pub fn synchronize(&self) -> Result<(), DriverError> {
        // SAFETY: the handle is alive as long as `self`.
        unsafe { self.context.api().stream_synchronize(self.handle) }
    }

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
        Err(error) if error.code() == Some(error::NOT_READY) => Ok(false),
        Err(error) => Err(error),
    }
}

// Events: marks in a stream, with the device's time where requested.

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

// Graphs: launches captured once and submitted together, which a hook of single launches misses.

/// Calls of this thread only are checked while it records (`CU_STREAM_CAPTURE_MODE_THREAD_LOCAL`).
const THREAD_LOCAL: i32 = 1;

#[derive(Debug)]
pub struct Graph {
    context: Context,
    graph: Handle,
    executable: Handle,
}

// SAFETY: the handles are used through `&self` for launches only, one stream at a time each; the
// driver requires no particular thread (CUDA driver API, "Graph object thread safety").
unsafe impl Send for Graph {}

impl Graph {
    /// Captures what `submit` puts into the stream; nothing runs yet.
    pub fn capture(
        stream: &Stream,
        submit: impl FnOnce(&Stream) -> Result<(), DriverError>,
    ) -> Result<Self, DriverError> {
        let context = stream.context().clone();
        let api = context.api();
        // SAFETY: the handle is alive as long as `stream`.
        unsafe { api.stream_begin_capture(stream.handle(), THREAD_LOCAL) }?;
        let submitted = submit(stream);
        let mut graph: Handle = std::ptr::null_mut();
        // SAFETY: writes one handle; capturing ends whether the submission worked or not.
        let ended = unsafe { api.stream_end_capture(stream.handle(), &raw mut graph) };
        let mut this = Self { context, graph, executable: std::ptr::null_mut() };
        submitted.and(ended)?;
        // SAFETY: writes one handle; the graph was just recorded.
        unsafe { api.graph_instantiate(&raw mut this.executable, this.graph, 0) }?;
        Ok(this)
    }

    pub fn launch(&self, stream: &Stream) -> Result<(), DriverError> {
        // SAFETY: both handles are alive during the call.
        unsafe { self.context.api().graph_launch(self.executable, stream.handle()) }
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        self.context.release(|api| {
            if !self.executable.is_null() {
                // SAFETY: made by this object, released once.
                note_drop(unsafe { api.graph_exec_destroy(self.executable) });
            }
            if self.graph.is_null() {
                return Ok(());
            }
            // SAFETY: made by this object, released once.
            unsafe { api.graph_destroy(self.graph) }
        });
    }
}

// Memory that a graph node allocates when the graph is launched, without a call that allocates.

/// Numbers of cuda.h: `CU_MEM_ALLOCATION_TYPE_PINNED` and `CU_MEM_LOCATION_TYPE_DEVICE`.
const PINNED: i32 = 1;
const DEVICE: i32 = 1;

/// A graph that allocated memory; it has no node that frees it.
#[derive(Debug)]
pub(super) struct GraphMemory {
    pub(super) address: u64,
    /// Whether the graph was launched, so that the memory exists.
    taken: bool,
    graph: Handle,
    executable: Handle,
    device: i32,
}

impl GraphMemory {
    /// Makes a graph of one node that allocates that many bytes, and launches it.
    pub(super) fn alloc(context: &Context, bytes: usize) -> Result<Self, DriverError> {
        let mut memory = Self {
            address: 0,
            taken: false,
            graph: std::ptr::null_mut(),
            executable: std::ptr::null_mut(),
            device: context.device().handle,
        };
        match memory.build(context.api(), bytes) {
            Ok(()) => Ok(memory),
            Err(error) => {
                note_drop(memory.free(context.api()));
                Err(error)
            }
        }
    }

    fn build(&mut self, api: &Api, bytes: usize) -> Result<(), DriverError> {
        let location = Location { kind: DEVICE, id: self.device };
        let mut params = AllocNode {
            pool: PoolProperties {
                kind: PINNED,
                handle_types: 0,
                location,
                win32_attributes: std::ptr::null_mut(),
                max_bytes: 0,
                reserved: [0; 56],
            },
            access: std::ptr::null(),
            access_count: 0,
            bytes,
            pointer: 0,
        };
        let mut node: Handle = std::ptr::null_mut();
        let (none, default) = (std::ptr::null(), std::ptr::null_mut());
        // SAFETY: writes one handle.
        unsafe { api.graph_create(&raw mut self.graph, 0) }?;
        // SAFETY: writes one handle and the structure, which lives; there are no dependencies.
        unsafe {
            api.graph_add_mem_alloc_node(&raw mut node, self.graph, none, 0, &raw mut params)
        }?;
        self.address = params.pointer;
        // SAFETY: writes one handle; the graph was just made.
        unsafe { api.graph_instantiate(&raw mut self.executable, self.graph, 0) }?;
        // SAFETY: the handle is alive; null is the default stream.
        unsafe { api.graph_launch(self.executable, default) }?;
        self.taken = true;
        // SAFETY: null is the default stream of the current context.
        unsafe { api.stream_synchronize(default) }
    }

    /// Frees what exists, in the order of creation; returns the first error.
    pub(super) fn free(&mut self, api: &Api) -> Result<(), DriverError> {
        let mut freed = Ok(());
        if self.taken {
            let default = std::ptr::null_mut();
            // SAFETY: taken by this object's graph, released once; null is the default stream.
            freed = unsafe { api.mem_free_async(self.address, default) };
            // SAFETY: null is the default stream of the current context.
            freed = freed.and(unsafe { api.stream_synchronize(default) });
        }
        if !self.executable.is_null() {
            // SAFETY: made by this object, released once.
            freed = freed.and(unsafe { api.graph_exec_destroy(self.executable) });
        }
        if !self.graph.is_null() {
            // SAFETY: made by this object, released once.
            freed = freed.and(unsafe { api.graph_destroy(self.graph) });
        }
        // The driver keeps the pages of graphs for later graphs until they are trimmed.
        // SAFETY: takes a plain number.
        freed.and(unsafe { api.device_graph_mem_trim(self.device) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pending_is_no_error_and_errors_are_not_pending() {
        let answer = |code| done_or_pending(Err(DriverError::from_code("cuStreamQuery", code)));
        assert_eq!(done_or_pending(Ok(())), Ok(true));
        assert_eq!(answer(error::NOT_READY), Ok(false));
        assert_eq!(answer(700).map_err(|e| e.code()), Err(Some(700)));
        assert_eq!(answer(601).map_err(|e| e.code()), Err(Some(601)));
    }
}
