//! The loops that a warp is executing, with snapshots of the warp at the end of iterations.

use crate::code::Loop;
use crate::counts::Counts;
use crate::program::{Row32, Row64};

/// State of a warp at the end of an iteration.
#[derive(Debug, Clone)]
pub(super) struct Snapshot {
    pub(super) cycle: u64,
    pub(super) counts: Counts,
    pub(super) touched_bytes: u64,
    pub(super) r32: Vec<Row32>,
    pub(super) r64: Vec<Row64>,
    pub(super) preds: Vec<u32>,
    pub(super) ready: Vec<u64>,
}

impl Snapshot {
    pub(super) fn lane(&self, row: usize, lane: usize) -> u64 {
        let wide = row.wrapping_sub(self.r32.len());
        match (self.r32.get(row), self.r64.get(wide)) {
            (Some(row), _) => row[lane].into(),
            (None, Some(row)) => row[lane],
            (None, None) => (self.preds[wide - self.r64.len()] >> lane & 1).into(),
        }
    }
}

/// A loop that a warp is executing, with its snapshots.
#[derive(Debug, Clone)]
pub(super) struct WatchedLoop {
    pub(super) frame: usize,
    pub(super) candidate: Loop,
    pub(super) iterations: u64,
    pub(super) snapshot_at: u64,
    pub(super) snapshots: Vec<Snapshot>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct WatchedLoops {
    pub(super) all: Vec<WatchedLoop>,
    /// The block's counts and touched bytes when this warp last yielded.
    left: Option<(Counts, u64)>,
}

impl WatchedLoops {
    pub(crate) fn clear(&mut self) {
        self.all.clear();
        self.left = None;
    }

    /// Called when the warp yields: other warps add to the same counts.
    pub(crate) fn pause(&mut self, counts: &Counts, touched_bytes: u64) {
        let has_snapshots = self.all.iter().any(|watch| !watch.snapshots.is_empty());
        self.left = has_snapshots.then(|| (counts.clone(), touched_bytes));
    }

    /// Called when the warp resumes: takes the counts of the other warps out of the comparison.
    pub(crate) fn resume(&mut self, counts: &Counts, touched_bytes: u64) {
        let Some((then, bytes)) = self.left.take() else { return };
        let others = counts.since(&then);
        for snapshot in self.all.iter_mut().flat_map(|watch| &mut watch.snapshots) {
            snapshot.counts.add(&others);
            snapshot.touched_bytes += touched_bytes - bytes;
        }
    }

    pub(super) fn forget(&mut self, frame: usize, back: u32) {
        self.all.retain(|watch| watch.frame != frame || watch.candidate.back != back);
    }
}
