//! What is remembered of launches that were executed, and whether an equal one would do anything
//! new.

use std::sync::Arc;

use crate::launch_memory::costs::Outcome;
use crate::launch_memory::key::Key;
use crate::launch_memory::profile::{Known, PartialWrite};

use crate::code::Code;
use crate::process::{Process, Tables};
use crate::tables::Piece;

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

/// Notes what an operation writes that is such a launch.
pub(super) fn note(known: &Known, process: &Process, by: (u32, u64)) -> Result<(), Code> {
    let pieces: Vec<Piece> = {
        let tables = process.tables();
        let parts = known.writes.iter().zip(&known.extents);
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
    for part in &known.pinned {
        process.wrote_pinned(part.clone(), by);
    }
    Ok(())
}
