//! What has to be done once more when it is known when it ran, as data.

use std::ops::Range;

use super::key::Key;
use crate::copy_shape::Copy;
use crate::entries::FunctionEntry;
use crate::stored_word::Store;

/// Something whose results depend on when it ran.
#[derive(Debug, Clone)]
pub(crate) struct Deferred {
    pub stream: u32,
    pub context: u32,
    pub seq: u64,
    /// Allocations that it will write.
    pub writes: Vec<u64>,
    /// Parts of pinned host memory that it will write.
    pub pinned: Vec<Range<usize>>,
    pub work: Work,
}

#[derive(Debug, Clone)]
pub(crate) enum Work {
    Launch {
        key: Box<Key>,
        function: FunctionEntry,
        /// Time alone, for what is measured in work; none for what ends by the clock.
        alone_ns: Option<f64>,
    },
    Copy(Copy),
    Store(Store),
}
