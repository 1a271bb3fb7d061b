//! Blocks of launches that a thread records into a graph.

use std::cell::Cell;

thread_local! {
    /// Blocks that this thread has recorded, while it records.
    pub static RECORDING: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Adds blocks to what is being recorded; whether anything is.
pub fn recorded(blocks: u64) -> bool {
    let Some(known) = RECORDING.get() else {
        return false;
    };
    RECORDING.set(Some(known + blocks));
    true
}
