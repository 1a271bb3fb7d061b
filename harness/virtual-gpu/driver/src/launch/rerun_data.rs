//! Work that is repeated once its start time is known: plain data.

use super::request::Key;
use crate::copy_shape::Copy;
use crate::entries::FunctionEntry;

/// An operation with results that depend on its start time.
#[derive(Debug, Clone)]
pub(crate) struct Rerun {
    pub(crate) stream: u32,
    pub(crate) context: u32,
    pub(crate) seq: u64,
    /// Allocations that it will write.
    pub(crate) writes: Vec<u64>,
    pub(crate) work: RerunWork,
}

#[derive(Debug, Clone)]
pub(crate) enum RerunWork {
    Launch {
        key: Box<Key>,
        function: FunctionEntry,
        /// Time without other launches; `None` for a kernel that ends by the clock.
        alone_ns: Option<f64>,
    },
    Copy(Copy),
}
