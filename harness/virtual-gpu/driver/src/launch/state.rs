//! Launch state of a process: profiles, reruns, and the writes that invalidate them.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::request::{Key, Rerun};
use crate::cost::Cost;

/// Partial writes kept per allocation; if more lie between two identical launches, the second is
/// executed.
pub(crate) const WRITES_MAX: usize = 64;

/// Profile of an executed launch: its cost, and the memory that it reads and writes.
#[derive(Debug, Clone)]
pub(crate) struct LaunchProfile {
    pub(crate) cost: Cost,
    pub(crate) by_clock: bool,
    /// Allocations read, with their versions at the time.
    pub(crate) reads: Vec<(u64, u64)>,
    /// Allocations written, with their versions afterwards.
    pub(crate) writes: Vec<(u64, u64)>,
    /// For each of them, the first byte accessed and the one after the last.
    pub(crate) extents: Vec<(u64, u64)>,
    /// Only some of its blocks were executed.
    pub(crate) sampled: bool,
    /// Its identity in every process.
    pub(crate) identity: u64,
    /// Executing it again on the same memory changes nothing.
    pub(crate) idempotent: bool,
    /// It wrote nothing and accessed no memory of others, so it needs no rerun. A kernel that did
    /// not write with a clock that starts at zero is assumed never to write.
    pub(crate) inert: bool,
}

#[derive(Debug, Clone, Default)]
pub struct LaunchState {
    pub(crate) profiles: HashMap<Key, Arc<LaunchProfile>>,
    pub(crate) reruns: Vec<Rerun>,
    /// By allocation, the last partial writes of launches.
    pub(crate) partial: HashMap<u64, VecDeque<PartialWrite>>,
    /// Launches so far that the machine's planted defects can change.
    pub(crate) planted: u64,
}

/// A write of a launch to an extent of an allocation, with the versions before and after.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PartialWrite {
    pub(crate) before: u64,
    pub(crate) after: u64,
    pub(crate) extent: (u64, u64),
}

impl LaunchState {
    pub fn forget_context(&mut self, context: u32) {
        self.profiles.retain(|key, _| key.context != context);
        self.reruns.retain(|rerun| rerun.context != context);
    }

    pub(super) fn note(&mut self, start: u64, write: PartialWrite) {
        let writes = self.partial.entry(start).or_default();
        if writes.len() == WRITES_MAX {
            writes.pop_front();
        }
        writes.push_back(write);
    }

    /// Whether an extent holds the same contents at version `now` as at version `then`: every write
    /// between the two is kept and lies outside it.
    pub(super) fn is_unchanged(&self, start: u64, extent: (u64, u64), then: u64, now: u64) -> bool {
        let mut version = now;
        let writes = self.partial.get(&start).into_iter().flatten();
        for write in writes.rev() {
            if version == then {
                break;
            }
            let outside = write.extent.1 <= extent.0 || extent.1 <= write.extent.0;
            if write.after != version || !outside {
                return false;
            }
            version = write.before;
        }
        version == then
    }
}

#[cfg(test)]
mod tests {
    use super::{LaunchState, PartialWrite, WRITES_MAX};

    #[test]
    fn an_extent_is_unchanged_if_all_later_writes_are_kept_and_lie_outside_it() {
        let mut state = LaunchState::default();
        let mut write = |before, after, extent| {
            let write = PartialWrite { before, after, extent };
            state.note(7, write);
            state.clone()
        };
        // The launch wrote 0..128 and left version 2; others wrote outside it.
        write(1, 2, (0, 128));
        write(2, 3, (128, 256));
        let state = write(3, 4, (256, 384));
        for (extent, then, now, expected) in [
            ((0, 128), 2, 2, true),
            ((0, 128), 2, 4, true),
            ((128, 256), 3, 4, true),
            // A write overlaps by a byte or in full, or a write in between is unknown.
            ((127, 129), 2, 4, false),
            ((0, 384), 2, 4, false),
            ((0, 128), 2, 5, false),
            ((0, 128), 0, 4, false),
        ] {
            assert_eq!(
                state.is_unchanged(7, extent, then, now),
                expected,
                "{extent:?} from {then} to {now}"
            );
        }
        assert!(!state.is_unchanged(8, (0, 128), 2, 4), "another allocation");
        // Older writes than the kept ones are unknown.
        let mut last = state;
        for number in 0..WRITES_MAX as u64 {
            last = write(4 + number, 5 + number, (512, 640));
        }
        assert!(!last.is_unchanged(7, (0, 128), 2, 4 + WRITES_MAX as u64));
    }
}
