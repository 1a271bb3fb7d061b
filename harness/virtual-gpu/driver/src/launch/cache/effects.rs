//! Effects of launches on memory, recorded at execution and replayed for identical launches.
//!
//! Two kinds of launch can be replayed, to the byte:
//! - a kernel that only adds integers to words adds the same amounts every time;
//! - any other kernel leaves the same contents for the same inputs.
//!
//! Inputs are the contents of the small allocations that the arguments point to, and the versions
//! of the large ones. While another thread writes to device memory, nothing is recorded or
//! replayed.

use std::sync::Arc;

use super::contents::{add, each_word, extents, inputs, written_contents};
use super::effect_store::{Additions, Digest, Extent, INPUTS_MAX, KeptEffects};
use crate::launch::request::Key;
use crate::launch::state::LaunchProfile;
use crate::process::Process;
use gpubench_virtual_gpu_ptx::Properties;

/// Assumed lane-instructions of a launch that was never executed.
const LANES_ASSUMED: u64 = 64 << 10;

/// The recording of a launch in execution.
pub(super) struct Recording {
    /// Number of writes to device memory begun before it.
    begun: u64,
    kind: Kind,
}

enum Kind {
    /// Needs the extents of an earlier identical launch.
    Additions { word: u64, earlier: Arc<LaunchProfile>, before: Vec<Extent> },
    /// Digest of its inputs.
    Contents(Digest),
}

/// Starts to record a launch before its execution, if its effect can be replayed. `pointees` are
/// the allocations that its arguments point to.
pub(super) fn record(
    process: &Process,
    key: &Key,
    pointees: &[u64],
    properties: &Properties,
) -> Option<Recording> {
    let mut tables = process.tables();
    let tables = &mut *tables;
    let earlier = tables.launches.profiles.get(key).cloned();
    let deterministic = earlier.as_ref().is_none_or(|earlier| earlier.deterministic);
    if tables.launches.writing.now > 0 || !deterministic || properties.reads_globaltimer {
        return None;
    }
    let begun = tables.launches.writing.begun;
    let kind = if let Some(word) = properties.atomic_add_bytes {
        let earlier = earlier?;
        Kind::Additions { word, before: extents(process, tables, key, &earlier)?, earlier }
    } else {
        let kept = tables.launches.effects.contents.get(key);
        if kept.is_some_and(KeptEffects::is_abandoned) {
            return None;
        }
        let lanes = earlier.map_or(LANES_ASSUMED, |earlier| earlier.lanes);
        Kind::Contents(inputs(process, tables, key, pointees, lanes)?)
    };
    Some(Recording { begun, kind })
}

/// Ends a recording after the execution and keeps the effect.
pub(super) fn keep(process: &Process, key: &Key, recording: Recording, profile: &LaunchProfile) {
    let mut tables = process.tables();
    let tables = &mut *tables;
    let writing = tables.launches.writing;
    let undisturbed = writing.now == 0 && writing.begun == recording.begun + 1;
    if !undisturbed || !profile.deterministic {
        return;
    }
    match recording.kind {
        Kind::Additions { word, earlier, before } => {
            let changed = extents(process, tables, key, profile);
            let Some(mut changed) = changed.filter(|_| profile.has_extents_of(&earlier)) else {
                return;
            };
            for (extent, before) in changed.iter_mut().zip(&before) {
                each_word(word, &mut extent.bytes, &before.bytes, u64::wrapping_sub);
            }
            let effects = &mut tables.launches.effects;
            effects.make_room(changed.iter().map(|extent| extent.bytes.len()).sum());
            let additions = Arc::new(Additions { word, extents: changed });
            effects.additions.insert(key.clone(), additions);
        }
        Kind::Contents(inputs) => {
            let mut touched = profile.reads.iter().chain(&profile.writes);
            let pointed_to = touched.all(|(start, _)| profile.pointees.contains(start));
            let contents = written_contents(process, tables, key, profile);
            let Some(contents) = contents.filter(|_| pointed_to) else {
                return;
            };
            let effects = &mut tables.launches.effects;
            effects.make_room(contents.iter().map(|one| one.bytes.len()).sum());
            let kept = effects.contents.entry(key.clone()).or_default();
            if kept.by_inputs.len() >= INPUTS_MAX {
                *kept = KeptEffects::default();
            }
            kept.by_inputs.insert(inputs, Arc::new(contents));
        }
    }
}

/// Replays the effect of an identical launch, if it is kept. Returns the profile of the launch.
pub(super) fn replay(process: &Process, key: &Key) -> Option<Arc<LaunchProfile>> {
    let mut tables = process.tables();
    let tables = &mut *tables;
    let profile = tables.launches.profiles.get(key)?.clone();
    if tables.launches.writing.now > 0 {
        return None;
    }
    if let Some(additions) = tables.launches.effects.additions.get(key).cloned() {
        add(process, tables, key, &additions)?;
        tables.wrote_again(&profile);
        return Some(profile);
    }
    let kept = tables.launches.effects.contents.get(key);
    if kept.is_none_or(KeptEffects::is_abandoned) {
        return None;
    }
    let inputs = inputs(process, tables, key, &profile.pointees, profile.lanes)?;
    let kept = tables.launches.effects.contents.get_mut(key)?;
    let contents = kept.by_inputs.get(&inputs)?.clone();
    kept.was_replayed = true;
    for one in contents.iter() {
        // `inputs` has read an allocation of this size.
        let offset = tables.allocations.get(&one.start)?.offset;
        process.contents.write(offset, &one.bytes)?;
    }
    tables.wrote_again(&profile);
    for one in contents.iter() {
        let version = tables.allocations.get(&one.start)?.version;
        let digests = &mut tables.launches.effects.digests;
        digests.insert(one.start, (version, one.digest));
    }
    Some(profile)
}
