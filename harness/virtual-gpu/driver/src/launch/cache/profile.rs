//! Profiles of executed launches, whether an identical launch has to be executed, and keys without
//! addresses: equal for identical launches of all contexts and processes of a device.

use std::sync::Arc;

use super::costs::PortableLaunch;
use crate::code::Code;
use crate::entries::FunctionEntry;
use crate::launch::request::{Key, Outcome, kernel_of};
use crate::launch::run::Extent;
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

/// The key of a launch without addresses.
pub fn portable(
    process: &Process,
    function: &FunctionEntry,
    key: &Key,
) -> Result<PortableLaunch, Code> {
    let part = process.part(key.context, &key.placement)?;
    let kernel = kernel_of(function)?;
    let mut hasher = blake3::Hasher::new();
    let mut word = |number: u64| {
        hasher.update(&number.to_le_bytes());
    };
    word(key.hash);
    // A process that reads results must not find the sample of one that reads none.
    word(u64::from(Extent::of(process) == Extent::Full));
    let shape = key.grid.iter().chain(&key.block).chain([&key.shared_bytes]);
    shape.for_each(|&side| word(u64::from(side)));
    word(u64::from(part.sm_first));
    word(u64::from(part.sm_count));
    word(part.l2_bytes);
    word(part.bandwidth.to_bits());
    let mut pointees = Vec::new();
    let mut private = true;
    let tables = process.tables();
    for bytes in key.params.chunks(8) {
        let mut raw = [0; 8];
        raw[..bytes.len()].copy_from_slice(bytes);
        let value = u64::from_le_bytes(raw);
        // A value inside an allocation is taken for an address.
        let pointee = tables.covering(value, 1);
        let Some((start, entry)) = pointee.filter(|(_, entry)| entry.context == key.context) else {
            word(0);
            word(value);
            continue;
        };
        private &= !entry.open;
        let known = pointees.iter().position(|&other| other == start);
        let ordinal = known.unwrap_or_else(|| {
            pointees.push(start);
            pointees.len() - 1
        });
        word(1 + ordinal as u64);
        word(value - start);
        word(entry.bytes);
        word(u64::from(entry.writable));
    }
    drop(tables);
    hasher.update(key.name.as_bytes());
    let independent =
        private && !kernel.properties.data_dependent && !kernel.properties.calls_printf;
    Ok(PortableLaunch {
        pointees,
        key: independent.then(|| hasher.finalize().to_hex()[..32].to_owned()),
    })
}
