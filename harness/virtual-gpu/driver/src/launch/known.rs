//! What is remembered of launches that were executed, and whether an equal one would do anything
//! new.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use super::Key;
use super::again::Effects;
use super::deferred::Deferred;
use super::execute::Outcome;
use crate::code::Code;
use crate::cost::Cost;
use crate::process::{Process, Tables};
use crate::tables::Piece;

/// Writes to one allocation that are remembered; where more lie between a launch and its equal, it
/// is executed again.
const WRITES_MAX: usize = 64;

/// What is known of a launch that was executed before.
#[derive(Debug, Clone)]
pub(super) struct Known {
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
    repeatable: bool,
    /// Executed in full, in memory of this process's calls alone and nowhere else: what it leaves
    /// there follows from what it finds there.
    pub steady: bool,
    /// It wrote nothing, and touched nothing that others read: there are no stamps to be made
    /// true. A kernel that did not write under a clock that began at zero is taken not to write.
    pub mute: bool,
}

impl Known {
    /// Notes what an operation writes that is such a launch.
    pub(super) fn note(&self, process: &Process, by: (u32, u64)) -> Result<(), Code> {
        let pieces: Vec<Piece> = {
            let tables = process.tables();
            let parts = self.writes.iter().zip(&self.extents);
            let piece = |(&(start, _), &(first, last)): (&(u64, u64), &(u64, u64))| {
                let offset = tables.allocations.get(&start)?.offset + first;
                let bytes = last - first;
                Some(Piece {
                    start,
                    offset,
                    bytes,
                })
            };
            parts.filter_map(piece).collect()
        };
        process.wrote_pieces(&pieces, by)?;
        for part in &self.pinned {
            process.wrote_pinned(part.clone(), by);
        }
        Ok(())
    }

    /// Whether both touched the same memory, whatever was in it.
    pub(super) fn touches_as(&self, other: &Self) -> bool {
        let same = |mine: &[(u64, u64)], theirs: &[(u64, u64)]| {
            let starts = |all: &[(u64, u64)]| all.iter().map(|(start, _)| *start).collect();
            let (mine, theirs): (Vec<u64>, Vec<u64>) = (starts(mine), starts(theirs));
            mine == theirs
        };
        let alike = same(&self.reads, &other.reads) && same(&self.writes, &other.writes);
        alike && self.extents == other.extents
    }
}

/// Writes to device memory under way in a process.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Writing {
    /// How many have not ended.
    pub now: u64,
    /// How many ever began.
    pub begun: u64,
}

/// What a process remembers of its launches.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    pub(super) known: HashMap<Key, Arc<Known>>,
    pub(super) deferred: Vec<Deferred>,
    pub(super) effects: Effects,
    pub(super) writing: Writing,
    /// By allocation, the last writes of launches to a part of it.
    partial: HashMap<u64, VecDeque<PartialWrite>>,
}

/// A launch wrote a part of an allocation and nothing beside it.
#[derive(Debug, Clone, Copy)]
struct PartialWrite {
    before: u64,
    after: u64,
    extent: (u64, u64),
}

impl Memory {
    /// Forgets a context that is gone.
    pub fn forget_context(&mut self, context: u32) {
        self.known.retain(|key, _| key.context != context);
        self.deferred.retain(|deferred| deferred.context != context);
        self.effects.forget_context(context);
    }

    fn note(&mut self, start: u64, write: PartialWrite) {
        let writes = self.partial.entry(start).or_default();
        if writes.len() == WRITES_MAX {
            writes.pop_front();
        }
        writes.push_back(write);
    }

    /// Whether an extent still holds what it held at version `then`, now that the allocation has
    /// version `now`: every write between the two is known and lies beside it.
    fn untouched(&self, start: u64, extent: (u64, u64), then: u64, now: u64) -> bool {
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

/// What is known of an equal launch, if executing it again would tell nothing new. Marks what a
/// sampled launch would have written.
pub(super) fn recall(process: &Process, key: &Key) -> Option<Arc<Known>> {
    let mut tables = process.tables();
    let known = tables.launches.known.get(key)?.clone();
    if known.sampled {
        for &(start, _) in &known.writes {
            let already = tables.allocations.get(&start).is_some_and(|a| a.unwritten);
            if !already {
                tables.wrote(start, true);
            }
        }
        return Some(known);
    }
    let same = |&(start, version): &(u64, u64)| {
        tables
            .allocations
            .get(&start)
            .is_some_and(|a| a.version == version)
    };
    let kept = |(&(start, version), &extent): (&(u64, u64), &(u64, u64))| {
        tables
            .allocations
            .get(&start)
            .is_some_and(|a| tables.launches.untouched(start, extent, version, a.version))
    };
    let unchanged =
        known.reads.iter().all(same) && known.writes.iter().zip(&known.extents).all(kept);
    (known.repeatable && unchanged).then_some(known)
}

/// Notes what a launch did that was executed.
pub(super) fn remember(
    process: &Process,
    key: &Key,
    pointees: Vec<u64>,
    outcome: Outcome,
) -> Arc<Known> {
    let mut tables = process.tables();
    for (&start, &extent) in outcome.writes.iter().zip(&outcome.extents) {
        // Of a sampled launch not all is known that it writes: what follows it starts anew.
        if outcome.sampled {
            tables.wrote(start, true);
        } else {
            wrote_part(&mut tables, start, extent);
        }
    }
    let versions = |starts: &[u64]| -> Vec<(u64, u64)> {
        starts
            .iter()
            .filter_map(|&start| Some((start, tables.allocations.get(&start)?.version)))
            .collect()
    };
    let disjoint = outcome
        .reads
        .iter()
        .all(|start| !outcome.writes.contains(start));
    let known = Known {
        cost: outcome.cost,
        by_clock: outcome.by_clock,
        reads: versions(&outcome.reads),
        writes: versions(&outcome.writes),
        extents: outcome.extents.clone(),
        pinned: outcome.pinned.clone(),
        pointees,
        lanes: outcome.lanes,
        steady: !outcome.sampled
            && outcome.fault.is_none()
            && !outcome.open
            && !outcome.printed
            && outcome.pinned.is_empty(),
        mute: outcome.writes.is_empty() && !outcome.open && !outcome.printed,
        sampled: outcome.sampled,
        repeatable: disjoint && outcome.fault.is_none() && !outcome.uses_atomics && !outcome.open,
    };
    // A program that never repeats itself must not fill the host's memory.
    const REMEMBERED: usize = 4096;
    if tables.launches.known.len() >= REMEMBERED {
        tables.launches.known.clear();
    }
    let known = Arc::new(known);
    if outcome.fault.is_none() {
        tables
            .launches
            .known
            .insert(key.clone(), Arc::clone(&known));
    }
    known
}

/// Notes that a launch wrote a part of an allocation and nothing beside it.
fn wrote_part(tables: &mut Tables, start: u64, extent: (u64, u64)) {
    let version = |tables: &Tables| tables.allocations.get(&start).map_or(0, |a| a.version);
    let before = version(tables);
    tables.wrote(start, false);
    let write = PartialWrite {
        before,
        after: version(tables),
        extent,
    };
    tables.launches.note(start, write);
}

impl Tables {
    /// Notes that a launch wrote once more what it is known to write.
    pub(super) fn wrote_as(&mut self, known: &Known) {
        for (&(start, _), &extent) in known.writes.iter().zip(&known.extents) {
            wrote_part(self, start, extent);
        }
    }
}

/// A write to device memory, from before its first byte until after its last.
pub struct UnderWay<'a>(&'a Process);

impl<'a> UnderWay<'a> {
    /// Begins one. Neither here nor at its end may the caller hold the tables.
    #[must_use]
    pub fn begin(process: &'a Process) -> Self {
        let mut tables = process.tables();
        let writing = &mut tables.launches.writing;
        (writing.now, writing.begun) = (writing.now + 1, writing.begun + 1);
        Self(process)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.tables().launches.writing.now -= 1;
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
