//! Graphs: launches captured once and submitted together, which a hook of single launches misses.
#![expect(unsafe_code, reason = "calls libcuda")]

use super::api::Handle;
use super::context::Context;
use super::error::{DriverError, note_drop};
use super::stream::Stream;

/// Calls of this thread only are checked while it records (`CU_STREAM_CAPTURE_MODE_THREAD_LOCAL`).
const THREAD_LOCAL: i32 = 1;

/// A graph that can be launched.
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

    /// Queues all captured work.
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
