//! What launches did to memory, so that an equal one does it again without being executed.
//!
//! Launches are watched while they are executed. Two kinds can be done again from then on, to the
//! byte:
//! - what only adds whole numbers to words adds the same ones, whatever it finds there;
//! - any kernel that finds what an equal launch found leaves behind what that one left.
//!
//! What a launch found is told by the contents of the small allocations that its arguments point
//! to, and by the versions of the large ones. Nothing is kept or done while other threads of the
//! process write to device memory.

use std::sync::Arc;

use crate::entries::{AllocationEntry, Origin};
use crate::launch_memory::effects::{Added, Digest, FINDINGS, Left, Part, Whole};
use crate::launch_memory::key::Key;
use crate::launch_memory::profile::{Known, Memory};
use crate::process::{Process, Tables};
use gpubench_virtual_gpu_ptx::Properties;

/// The contents of allocations up to this length are looked at.
const SMALL_BYTES: u64 = 256 << 10;

/// Additions to more memory than this cost as much as executing them.
const ADDED_BYTES: u64 = 64 << 20;

/// Looking at so many bytes costs about what executing a lane-instruction does.
const BYTES_PER_LANE: u64 = 2;

/// Lane-instructions that a launch is taken to have which was not executed before.
const LANES_UNSEEN: u64 = 64 << 10;

/// A launch while it is executed.
pub(super) struct Watch {
    /// Writes to device memory that had begun.
    begun: u64,
    how: How,
}

enum How {
    /// Once its equal has shown where it adds.
    Adding {
        word: u64,
        seen: Arc<Known>,
        before: Vec<Part>,
    },
    Finding(Digest),
}

/// Begins to watch a launch that is about to be executed, if what it does may be done again later.
/// `pointees` are the allocations that its arguments point to.
pub(super) fn watch(
    process: &Process,
    key: &Key,
    pointees: &[u64],
    properties: &Properties,
) -> Option<Watch> {
    let mut tables = process.tables();
    let tables = &mut *tables;
    let seen = tables.launches.known.get(key).cloned();
    let steady = seen.as_ref().is_none_or(|seen| seen.steady);
    if tables.launches.writing.now > 0 || !steady || properties.reads_globaltimer {
        return None;
    }
    let begun = tables.launches.writing.begun;
    let how = if let Some(word) = properties.adds_bytes {
        let seen = seen?;
        How::Adding {
            word,
            before: extents(process, tables, key, &seen)?,
            seen,
        }
    } else {
        let left = tables.launches.effects.left.get(key);
        if left.is_some_and(Left::is_given_up) {
            return None;
        }
        let lanes = seen.map_or(LANES_UNSEEN, |seen| seen.lanes);
        How::Finding(found(process, tables, key, pointees, lanes)?)
    };
    Some(Watch { begun, how })
}

/// Keeps what a watched launch did, now that it was executed and is `known`.
pub(super) fn keep(process: &Process, key: &Key, watch: Watch, known: &Known) {
    let mut tables = process.tables();
    let tables = &mut *tables;
    let writing = tables.launches.writing;
    let alone = writing.now == 0 && writing.begun == watch.begun + 1;
    if !alone || !known.steady {
        return;
    }
    match watch.how {
        How::Adding { word, seen, before } => {
            let parts = extents(process, tables, key, known);
            let Some(mut parts) = parts.filter(|_| known.touches_as(&seen)) else {
                return;
            };
            for (part, before) in parts.iter_mut().zip(&before) {
                each_word(word, &mut part.bytes, &before.bytes, u64::wrapping_sub);
            }
            let effects = &mut tables.launches.effects;
            effects.make_room(parts.iter().map(|part| part.bytes.len()).sum());
            let added = Arc::new(Added { word, parts });
            effects.added.insert(key.clone(), added);
        }
        How::Finding(found) => {
            let mut touched = known.reads.iter().chain(&known.writes);
            let pointed_to = touched.all(|(start, _)| known.pointees.contains(start));
            let wholes = wholes(process, tables, key, known);
            let Some(wholes) = wholes.filter(|_| pointed_to) else {
                return;
            };
            let effects = &mut tables.launches.effects;
            effects.make_room(wholes.iter().map(|whole| whole.bytes.len()).sum());
            let left = effects.left.entry(key.clone()).or_default();
            if left.by_found.len() >= FINDINGS {
                *left = Left::default();
            }
            left.by_found.insert(found, Arc::new(wholes));
        }
    }
}

/// Does to memory what an equal launch did, if that is known. Gives what is known of it.
pub(super) fn repeat(process: &Process, key: &Key) -> Option<Arc<Known>> {
    let mut tables = process.tables();
    let tables = &mut *tables;
    let known = tables.launches.known.get(key)?.clone();
    if tables.launches.writing.now > 0 {
        return None;
    }
    if let Some(added) = tables.launches.effects.added.get(key).cloned() {
        add(process, tables, key, &added)?;
        tables.wrote_as(&known);
        return Some(known);
    }
    let left = tables.launches.effects.left.get(key);
    if left.is_none_or(Left::is_given_up) {
        return None;
    }
    let found = found(process, tables, key, &known.pointees, known.lanes)?;
    let left = tables.launches.effects.left.get_mut(key)?;
    let wholes = left.by_found.get(&found)?.clone();
    left.came_again = true;
    for whole in wholes.iter() {
        // `found` saw an entry of this length.
        let offset = tables.allocations.get(&whole.start)?.offset;
        process.contents.write(offset, &whole.bytes)?;
    }
    tables.wrote_as(&known);
    for whole in wholes.iter() {
        let version = tables.allocations.get(&whole.start)?.version;
        let digests = &mut tables.launches.effects.digests;
        digests.insert(whole.start, (version, whole.digest));
    }
    Some(known)
}

/// Adds to memory what a launch adds. Nothing is added if it cannot all be.
fn add(process: &Process, tables: &Tables, key: &Key, added: &Added) -> Option<()> {
    let place = |part: &Part| {
        let entry = entry(tables, key.context, part.start)?;
        let bytes = part.bytes.len() as u64;
        let fits = part.first + bytes <= entry.bytes && !entry.unwritten;
        let offset = entry.offset + part.first;
        let now = fits.then(|| process.contents.read(offset, bytes))??;
        Some((offset, now))
    };
    let places: Vec<_> = added.parts.iter().map(place).collect::<Option<_>>()?;
    for ((offset, mut now), part) in places.into_iter().zip(&added.parts) {
        each_word(added.word, &mut now, &part.bytes, u64::wrapping_add);
        process.contents.write(offset, &now)?;
    }
    Some(())
}

/// Applies `with` to each pair of words.
fn each_word(word: u64, to: &mut [u8], from: &[u8], with: impl Fn(u64, u64) -> u64) {
    let length = word as usize;
    for (to, from) in to.chunks_exact_mut(length).zip(from.chunks_exact(length)) {
        let number = |bytes: &[u8]| {
            let mut raw = [0; 8];
            raw[..length].copy_from_slice(bytes);
            u64::from_le_bytes(raw)
        };
        let new = with(number(to), number(from));
        to.copy_from_slice(&new.to_le_bytes()[..length]);
    }
}

/// The allocation of a context at an address, if only this process's calls write to it and
/// nothing is left to be written.
fn entry(tables: &Tables, context: u32, start: u64) -> Option<&AllocationEntry> {
    let entry = tables.allocations.get(&start)?;
    let own = entry.context == context && entry.origin != Origin::Array;
    let usable = own && entry.readable && entry.writable && !entry.open && entry.owner.is_none();
    let owed = |launches: &Memory| {
        let mut deferred = launches.deferred.iter();
        deferred.any(|deferred| deferred.writes.contains(&start))
    };
    (usable && !owed(&tables.launches)).then_some(entry)
}

/// The parts of memory that a launch writes, gaps included, as they are now.
fn extents(process: &Process, tables: &Tables, key: &Key, known: &Known) -> Option<Vec<Part>> {
    let mut all = 0;
    let part = |(&(start, _), &(first, last)): (&(u64, u64), &(u64, u64))| {
        let entry = entry(tables, key.context, start)?;
        let bytes = last.min(entry.bytes).checked_sub(first)?;
        all += bytes;
        let fits = all <= ADDED_BYTES && !entry.unwritten;
        let bytes = fits.then(|| process.contents.read(entry.offset + first, bytes))??;
        Some(Part {
            start,
            first,
            bytes,
        })
    };
    known.writes.iter().zip(&known.extents).map(part).collect()
}

/// The small allocations that a launch writes, as they are now; `None` if any is large.
fn wholes(process: &Process, tables: &Tables, key: &Key, known: &Known) -> Option<Vec<Whole>> {
    let whole = |&(start, _): &(u64, u64)| {
        let entry = entry(tables, key.context, start)?;
        let small = entry.bytes <= SMALL_BYTES;
        let bytes = small.then(|| process.contents.read(entry.offset, entry.bytes))??;
        let digest = *blake3::hash(&bytes).as_bytes();
        Some(Whole {
            start,
            bytes,
            digest,
        })
    };
    known.writes.iter().map(whole).collect()
}

/// What a launch of so many lane-instructions finds in memory now. `None` where that cannot be
/// told, or telling it is not worth it.
fn found(
    process: &Process,
    tables: &mut Tables,
    key: &Key,
    pointees: &[u64],
    lanes: u64,
) -> Option<Digest> {
    let mut hasher = blake3::Hasher::new();
    let mut looked_at = 0;
    for &start in pointees {
        let entry = entry(tables, key.context, start)?;
        let (bytes, offset, version) = (entry.bytes, entry.offset, entry.version);
        if bytes > SMALL_BYTES {
            hasher.update(&version.to_le_bytes());
            continue;
        }
        looked_at += bytes;
        if entry.unwritten || looked_at > lanes.saturating_mul(BYTES_PER_LANE) {
            return None;
        }
        let digests = &mut tables.launches.effects.digests;
        let digest = match digests.get(&start) {
            Some(&(at, digest)) if at == version => digest,
            _ => {
                let contents = process.contents.read(offset, bytes)?;
                let digest = *blake3::hash(&contents).as_bytes();
                digests.insert(start, (version, digest));
                digest
            }
        };
        hasher.update(&digest);
    }
    Some(*hasher.finalize().as_bytes())
}
