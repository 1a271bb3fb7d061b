//! What spin detection knows of a warp between two changes of memory.

use super::warp::Frame;
use crate::counts::Counts;

/// Passages of backward branches without a change of memory before the first comparison. Its double
/// comes before the second one, and so on, so that comparing costs a long computation nothing.
const FIRST_COMPARISON: u64 = 256;

/// What a warp does between two changes of memory.
#[derive(Debug, Clone, Default)]
pub(crate) struct Spin {
    pub(super) changes: u64,
    /// Passages of backward branches since then.
    pub(super) passages: u64,
    /// Step of the last one, and how often it was passed without another in between.
    pub(super) back: u32,
    pub(super) in_a_row: u64,
    pub(super) compare_at: u64,
    pub(super) snapshot: Option<Box<Snapshot>>,
    /// Address that the repeated loop reads, where it has one.
    pub(super) polled: Option<u64>,
    pub(super) line: u32,
}

/// A warp at a backward branch.
#[derive(Debug, Clone)]
pub(super) struct Snapshot {
    pub(super) passage: u64,
    pub(super) back: u32,
    pub(super) mask: u32,
    pub(super) frame: usize,
    pub(super) frames: Vec<Frame>,
    pub(super) cycle: u64,
    pub(super) counts: Counts,
    pub(super) turn: u64,
}

impl Spin {
    /// Forgets what was before the current count of changes.
    pub(super) fn restart(&mut self, changes: u64) {
        *self = Self { changes, compare_at: FIRST_COMPARISON, ..Self::default() };
    }
}
