//! Contents of the allocations of a launch: its inputs, and what it writes.

use super::effect_store::{Additions, Contents, Digest, Extent};
use crate::entries::{AllocationEntry, Origin};
use crate::launch::request::Key;
use crate::launch::state::{LaunchProfile, LaunchState};
use crate::process::Process;
use crate::tables::Tables;

/// Allocations up to this size are compared by contents, larger ones by version.
pub(crate) const SMALL_BYTES: u64 = 256 << 10;

/// Replaying additions to more bytes than this costs as much as executing the launch.
pub(crate) const ADDED_BYTES: u64 = 64 << 20;

/// Bytes that are hashed in about the time of one lane-instruction.
pub(crate) const BYTES_PER_LANE: u64 = 2;

/// Adds kept amounts to memory: all of them or none.
pub(crate) fn add(process: &Process, tables: &Tables, key: &Key, added: &Additions) -> Option<()> {
    let target = |part: &Extent| {
        let entry = entry(tables, key.context, part.start)?;
        let bytes = part.bytes.len() as u64;
        let fits = part.first + bytes <= entry.bytes && !entry.unwritten;
        let offset = entry.offset + part.first;
        let now = fits.then(|| process.contents.read(offset, bytes))??;
        Some((offset, now))
    };
    let targets: Vec<_> = added.extents.iter().map(target).collect::<Option<_>>()?;
    for ((offset, mut now), part) in targets.into_iter().zip(&added.extents) {
        each_word(added.word, &mut now, &part.bytes, u64::wrapping_add);
        process.contents.write(offset, &now)?;
    }
    Some(())
}

/// Applies `with` to each pair of words and stores the result in `to`.
pub(crate) fn each_word(word: u64, to: &mut [u8], from: &[u8], with: impl Fn(u64, u64) -> u64) {
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

/// The allocation at an address, if only calls of this process write to it and no rerun will.
pub(crate) fn entry(tables: &Tables, context: u32, start: u64) -> Option<&AllocationEntry> {
    let entry = tables.allocations.get(&start)?;
    let own = entry.context == context && entry.origin != Origin::Array;
    let usable = own && entry.readable && entry.writable && !entry.open && entry.owner.is_none();
    let rerun = |launches: &LaunchState| {
        let mut reruns = launches.reruns.iter();
        reruns.any(|rerun| rerun.writes.contains(&start))
    };
    (usable && !rerun(&tables.launches)).then_some(entry)
}

/// Current contents of the extents that a launch writes, gaps included.
pub(crate) fn extents(
    process: &Process,
    tables: &Tables,
    key: &Key,
    profile: &LaunchProfile,
) -> Option<Vec<Extent>> {
    let mut all = 0;
    let extent = |(&(start, _), &(first, last)): (&(u64, u64), &(u64, u64))| {
        let entry = entry(tables, key.context, start)?;
        let bytes = last.min(entry.bytes).checked_sub(first)?;
        all += bytes;
        let fits = all <= ADDED_BYTES && !entry.unwritten;
        let bytes = fits.then(|| process.contents.read(entry.offset + first, bytes))??;
        Some(Extent { start, first, bytes })
    };
    profile.writes.iter().zip(&profile.extents).map(extent).collect()
}

/// Current contents of the allocations that a launch writes; `None` if any is large.
pub(crate) fn written_contents(
    process: &Process,
    tables: &Tables,
    key: &Key,
    profile: &LaunchProfile,
) -> Option<Vec<Contents>> {
    let contents = |&(start, _): &(u64, u64)| {
        let entry = entry(tables, key.context, start)?;
        let small = entry.bytes <= SMALL_BYTES;
        let bytes = small.then(|| process.contents.read(entry.offset, entry.bytes))??;
        let digest = *blake3::hash(&bytes).as_bytes();
        Some(Contents { start, bytes, digest })
    };
    profile.writes.iter().map(contents).collect()
}

/// Digest of the memory that a launch may read. `None` if it is not known, or if hashing costs
/// more than executing `lanes` lane-instructions.
pub(crate) fn inputs(
    process: &Process,
    tables: &mut Tables,
    key: &Key,
    pointees: &[u64],
    lanes: u64,
) -> Option<Digest> {
    let mut hasher = blake3::Hasher::new();
    let mut hashed_bytes = 0;
    for &start in pointees {
        let entry = entry(tables, key.context, start)?;
        let (bytes, offset, version) = (entry.bytes, entry.offset, entry.version);
        if bytes > SMALL_BYTES {
            hasher.update(&version.to_le_bytes());
            continue;
        }
        hashed_bytes += bytes;
        if entry.unwritten || hashed_bytes > lanes.saturating_mul(BYTES_PER_LANE) {
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
