//! Profiles of executed launches, and whether an identical launch has to be executed.

use std::sync::Arc;

use crate::launch::outcome::Outcome;
use crate::launch::request::Key;
use crate::launch::state::{LaunchProfile, PartialWrite};
use crate::process::Process;
use crate::stand_in;
use crate::tables::Tables;

/// The profile of an identical launch that is idempotent on unchanged memory, or sampled. Marks the
/// outputs of a sampled launch as unwritten.
pub(in crate::launch) fn unchanged(process: &Process, key: &Key) -> Option<Arc<LaunchProfile>> {
    let profile = process.tables().launches.profiles.get(key)?.clone();
    let wrong = if profile.sampled { stand_in::planted(process, key) } else { 0 };
    let mut tables = process.tables();
    if profile.sampled {
        for &(start, _) in &profile.writes {
            let already = tables.allocations.get(&start).is_some_and(|a| a.unwritten);
            if !already {
                tables.wrote(start, true);
            }
        }
        tables.stand_in_for_launch(profile.identity, &profile.reads, &profile.writes, wrong);
        return Some(profile);
    }
    let same = |&(start, version): &(u64, u64)| {
        tables.allocations.get(&start).is_some_and(|a| a.version == version)
    };
    let kept = |(&(start, version), &extent): (&(u64, u64), &(u64, u64))| {
        tables
            .allocations
            .get(&start)
            .is_some_and(|a| tables.launches.is_unchanged(start, extent, version, a.version))
    };
    let unchanged =
        profile.reads.iter().all(same) && profile.writes.iter().zip(&profile.extents).all(kept);
    (profile.idempotent && unchanged).then_some(profile)
}

/// Keeps the profile of an executed launch and notes its writes.
pub(super) fn keep(process: &Process, key: &Key, outcome: Outcome) -> Arc<LaunchProfile> {
    let wrong = if outcome.sampled { stand_in::planted(process, key) } else { 0 };
    let mut tables = process.tables();
    for (&start, &extent) in outcome.writes.iter().zip(&outcome.extents) {
        // The writes of a sampled launch are not all known: later launches are executed.
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
    let disjoint = outcome.reads.iter().all(|start| !outcome.writes.contains(start));
    let profile = LaunchProfile {
        cost: outcome.cost,
        by_clock: outcome.by_clock,
        reads: versions(&outcome.reads),
        writes: versions(&outcome.writes),
        extents: outcome.extents.clone(),
        inert: outcome.writes.is_empty() && !outcome.open && !outcome.printed,
        sampled: outcome.sampled,
        identity: stand_in::identity(&tables, key),
        idempotent: disjoint && outcome.fault.is_none() && !outcome.uses_atomics && !outcome.open,
    };
    if profile.sampled {
        tables.stand_in_for_launch(profile.identity, &profile.reads, &profile.writes, wrong);
    }
    // A program without identical launches must not fill the host's memory.
    const PROFILES_MAX: usize = 4096;
    if tables.launches.profiles.len() >= PROFILES_MAX {
        tables.launches.profiles.clear();
    }
    let profile = Arc::new(profile);
    if outcome.fault.is_none() {
        tables.launches.profiles.insert(key.clone(), Arc::clone(&profile));
    }
    profile
}

/// Notes that a launch wrote to one extent of an allocation.
fn wrote_part(tables: &mut Tables, start: u64, extent: (u64, u64)) {
    let version = |tables: &Tables| tables.allocations.get(&start).map_or(0, |a| a.version);
    let before = version(tables);
    tables.wrote(start, false);
    let write = PartialWrite { before, after: version(tables), extent };
    tables.launches.note(start, write);
}
