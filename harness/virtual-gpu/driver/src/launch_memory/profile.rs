//! What a process remembers of launches that were executed, as data.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use super::deferred::Deferred;
use super::effects::Effects;
use super::key::Key;
use crate::cost::Cost;

/// Writes to one allocation that are remembered; where more lie between a launch and its equal, it
/// is executed again.
const WRITES_MAX: usize = 64;

/// What is known of a launch that was executed before.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    pub cost: Cost,
    pub by_clock: bool,
    /// Allocations read, with their versions at the time.
    pub reads: Vec<(u64, u64)>,
    /// Allocations written, with their versions afterwards.
    pub writes: Vec<(u64, u64)>,
    /// For each of them, the first byte touched and the one after the last.
    pub extents: Vec<(u64, u64)>,
    /// Parts of pinned host memory that were written.
    pub pinned: Vec<Range<usize>>,
    /// Allocations that its arguments point to.
    pub pointees: Vec<u64>,
    /// Lane-instructions that were executed.
    pub lanes: u64,
    /// Only some of its blocks were executed.
    pub sampled: bool,
    /// Executing it again on the same memory would change nothing.
    pub(crate) repeatable: bool,
    /// Executed in full, in memory of this process's calls alone and nowhere else: what it leaves
    /// there follows from what it finds there.
    pub steady: bool,
    /// It wrote nothing, and touched nothing that others read: there are no stamps to be made
    /// true. A kernel that did not write under a clock that began at zero is taken not to write.
    pub mute: bool,
}

/// Writes to device memory under way in a process.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Writing {
    /// How many have not ended.
    pub now: u64,
    /// How many ever began.
    pub begun: u64,
}

/// What a process remembers of its launches.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    pub(crate) known: HashMap<Key, Arc<Known>>,
    pub(crate) deferred: Vec<Deferred>,
    pub(crate) effects: Effects,
    pub(crate) writing: Writing,
    /// By allocation, the last writes of launches to a part of it.
    partial: HashMap<u64, VecDeque<PartialWrite>>,
}

/// A launch wrote a part of an allocation and nothing beside it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PartialWrite {
    pub(crate) before: u64,
    pub(crate) after: u64,
    pub(crate) extent: (u64, u64),
}

impl Memory {
    /// Forgets a context that is gone.
    pub fn forget_context(&mut self, context: u32) {
        self.known.retain(|key, _| key.context != context);
        self.deferred.retain(|deferred| deferred.context != context);
        self.effects.forget_context(context);
    }

    pub(crate) fn note(&mut self, start: u64, write: PartialWrite) {
        let writes = self.partial.entry(start).or_default();
        if writes.len() == WRITES_MAX {
            writes.pop_front();
        }
        writes.push_back(write);
    }

    /// Whether an extent still holds what it held at version `then`, now that the allocation has
    /// version `now`: every write between the two is known and lies beside it.
    pub(crate) fn untouched(&self, start: u64, extent: (u64, u64), then: u64, now: u64) -> bool {
        let mut version = now;
        let known = self.partial.get(&start).into_iter().flatten();
        for write in known.rev() {
            if version == then {
                break;
            }
            let beside = write.extent.1 <= extent.0 || extent.1 <= write.extent.0;
            if write.after != version || !beside {
                return false;
            }
            version = write.before;
        }
        version == then
    }
}

impl Known {
    /// Whether both touched the same memory, whatever was in it.
    pub(crate) fn touches_as(&self, other: &Self) -> bool {
        let same = |mine: &[(u64, u64)], theirs: &[(u64, u64)]| {
            let starts = |all: &[(u64, u64)]| all.iter().map(|(start, _)| *start).collect();
            let (mine, theirs): (Vec<u64>, Vec<u64>) = (starts(mine), starts(theirs));
            mine == theirs
        };
        let alike = same(&self.reads, &other.reads) && same(&self.writes, &other.writes);
        alike && self.extents == other.extents
    }
}

#[cfg(test)]
mod tests {
    use super::{Memory, PartialWrite, WRITES_MAX};

    #[test]
    fn an_extent_is_untouched_while_every_write_since_is_known_and_lies_beside_it() {
        let mut memory = Memory::default();
        let mut write = |before, after, extent| {
            let write = PartialWrite {
                before,
                after,
                extent,
            };
            memory.note(7, write);
            memory.clone()
        };
        // The launch in question wrote 0..128 and left version 2; others wrote beside it.
        write(1, 2, (0, 128));
        write(2, 3, (128, 256));
        let known = write(3, 4, (256, 384));
        for (extent, then, now, expected) in [
            ((0, 128), 2, 2, true),
            ((0, 128), 2, 4, true),
            ((128, 256), 3, 4, true),
            // Overlapping by a byte, by the whole, or written by something unknown since.
            ((127, 129), 2, 4, false),
            ((0, 384), 2, 4, false),
            ((0, 128), 2, 5, false),
            ((0, 128), 0, 4, false),
        ] {
            assert_eq!(
                known.untouched(7, extent, then, now),
                expected,
                "{extent:?} from {then} to {now}"
            );
        }
        assert!(!known.untouched(8, (0, 128), 2, 4), "another allocation");
        // What is no longer remembered is not vouched for.
        let mut last = known;
        for number in 0..WRITES_MAX as u64 {
            last = write(4 + number, 5 + number, (512, 640));
        }
        assert!(!last.untouched(7, (0, 128), 2, 4 + WRITES_MAX as u64));
    }
}
