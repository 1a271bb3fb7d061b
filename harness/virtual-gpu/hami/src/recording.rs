//! Blocks of launches that a thread captures into a graph.

use std::cell::Cell;

thread_local! {
    /// Blocks captured by this thread during a capture.
    pub static RECORDING: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Adds blocks to the capture; returns whether one is active.
pub fn recorded(blocks: u64) -> bool {
    let Some(known) = RECORDING.get() else { return false };
    RECORDING.set(Some(known + blocks));
    true
}
