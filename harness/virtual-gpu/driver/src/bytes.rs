//! Moves bytes of device and host memory: copies, fills, single words.
//!
//! Effects on bytes come when a call is made; the time passes in the model.
#![expect(
    unsafe_code,
    reason = "memory of the device and of the program is reached by raw pointers"
)]

use crate::code::{self, Code};
use crate::copy_shape::{Copy, Place};
use crate::fill_shape::Fill;
use crate::process::Process;
use crate::tables::{Piece, Tables};

/// Unit in which a skipped fill is written later.
const CHUNK_BYTES: u64 = 1 << 20;

/// From this size on, device memory is written through its file: a fault of each page takes longer.
const BY_FILE_BYTES: u64 = 1 << 16;

/// Whether so many bytes are written through the file. On the wall clock tenants would wait for
/// the lock of the file, which no hardware has.
fn is_by_file(process: &Process, bytes: u64) -> bool {
    bytes >= BY_FILE_BYTES && process.device.is_virtual_time()
}

/// Carries out a skipped fill on a part of an allocation. Returns whether any of it was unwritten;
/// `None` if the last write was not a fill of the whole allocation.
pub fn make_good(
    process: &Process,
    start: u64,
    (from, to): (u64, u64),
) -> Result<Option<bool>, Code> {
    let (fill, offset, bytes, due) = {
        let mut tables = process.tables();
        let Some(entry) = tables.allocations.get(&start) else { return Ok(None) };
        let (version, offset, bytes) = (entry.version, entry.offset, entry.bytes);
        let Some(skipped) = tables.fills.get_mut(&start) else { return Ok(None) };
        if skipped.version != version {
            return Ok(None);
        }
        let chunks = from / CHUNK_BYTES..to.min(bytes).div_ceil(CHUNK_BYTES);
        let due: Vec<u64> = chunks.filter(|chunk| skipped.good.insert(*chunk)).collect();
        (skipped.fill, offset, bytes, due)
    };
    for chunk in &due {
        let at = chunk * CHUNK_BYTES;
        let length = CHUNK_BYTES.min(bytes - at);
        fill_device(process, offset + at, length, &fill)?;
    }
    Ok(Some(!due.is_empty()))
}

pub(crate) fn write(process: &Process, fill: &Fill, bytes: u64) -> Result<(), Code> {
    let pieces = process.tables().pieces(fill.pointer, bytes, true);
    let Some(pieces) = pieces else {
        // `targets` found it in pinned memory.
        write_pattern(fill.pointer as *mut u8, bytes, fill);
        return Ok(());
    };
    for piece in pieces {
        fill_device(process, piece.offset, piece.bytes, fill)?;
    }
    Ok(())
}

/// Fills device memory. Pieces begin and end at pages, so that none cuts an element.
fn fill_device(process: &Process, offset: u64, bytes: u64, fill: &Fill) -> Result<(), Code> {
    let to = process.host_address(offset, bytes)?;
    if !is_by_file(process, bytes) {
        write_pattern(to, bytes, fill);
        return Ok(());
    }
    let whole = bytes / fill.element * fill.element;
    let clears = fill.value.to_le_bytes()[..fill.element as usize].iter().all(|&byte| byte == 0);
    // A file system that frees no part of a file refuses.
    if clears && process.contents.scrub(offset, whole).is_ok() {
        return Ok(());
    }
    let mut chunk = vec![0_u8; bytes.min(CHUNK_BYTES) as usize];
    write_pattern(chunk.as_mut_ptr(), chunk.len() as u64, fill);
    for at in (0..whole).step_by(chunk.len()) {
        let length = chunk.len().min((whole - at) as usize);
        let store = &process.contents;
        // SAFETY: a part of the chunk, to a range that `host_address` accepted.
        unsafe { store.write_from(offset + at, chunk.as_ptr(), length) };
    }
    Ok(())
}

fn write_pattern(to: *mut u8, bytes: u64, fill: &Fill) {
    let pattern = fill.value.to_le_bytes();
    let element = fill.element as usize;
    if pattern[..element].iter().all(|byte| *byte == pattern[0]) {
        let whole = bytes as usize / element * element;
        // SAFETY: as below.
        unsafe { to.write_bytes(pattern[0], whole) };
        return;
    }
    for index in 0..bytes as usize / element {
        // SAFETY: `index` elements fit in the range that the table of allocations vouches for.
        unsafe {
            let place = to.add(index * element);
            std::ptr::copy_nonoverlapping(pattern.as_ptr(), place, element);
        }
    }
}

/// Writes bytes to the target of a copy to the host.
pub(crate) fn write_host(to: u64, bytes: &[u8]) {
    // SAFETY: the caller's target has as many bytes, as for every copy; `bytes` is the driver's
    // own.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to as *mut u8, bytes.len()) };
}

pub fn move_bytes(process: &Process, copy: &Copy) -> Result<(), Code> {
    let tables = process.tables();
    let to = segments(process, &tables, copy.to, copy.bytes, true)?;
    let from = segments(process, &tables, copy.from, copy.bytes, false)?;
    join(process, &to, &from);
    Ok(())
}

struct Segment {
    address: *mut u8,
    bytes: usize,
    /// Where it lies in device memory, if it does.
    offset: Option<u64>,
}

fn segments(
    process: &Process,
    tables: &Tables,
    place: Place,
    bytes: u64,
    write: bool,
) -> Result<Vec<Segment>, Code> {
    match place {
        Place::Host(address) => {
            Ok(vec![Segment { address: address as *mut u8, bytes: bytes as usize, offset: None }])
        }
        Place::Device(address) => {
            let pieces = tables.pieces(address, bytes, write).ok_or(code::INVALID_VALUE)?;
            let segment = |piece: Piece| {
                Ok(Segment {
                    address: process.host_address(piece.offset, piece.bytes)?,
                    bytes: piece.bytes as usize,
                    offset: Some(piece.offset),
                })
            };
            pieces.into_iter().map(segment).collect()
        }
    }
}

/// Copies between two lists of segments of the same total length.
fn join(process: &Process, to: &[Segment], from: &[Segment]) {
    let (mut target, mut done_to) = (0, 0);
    for source in from {
        let mut done_from = 0;
        while done_from < source.bytes && target < to.len() {
            let place = &to[target];
            let bytes = (source.bytes - done_from).min(place.bytes - done_to);
            let is_upload = source.offset.is_none() && is_by_file(process, bytes as u64);
            // SAFETY: within both segments, which the caller vouches for (host memory) or the
            // table of allocations does (device memory); `copy` allows overlap.
            unsafe {
                let read = source.address.add(done_from);
                match place.offset.filter(|_| is_upload) {
                    Some(offset) => {
                        let at = offset + done_to as u64;
                        process.contents.write_from(at, read, bytes);
                    }
                    None => std::ptr::copy(read, place.address.add(done_to), bytes),
                }
            }
            done_from += bytes;
            done_to += bytes;
            if done_to == place.bytes {
                (target, done_to) = (target + 1, 0);
            }
        }
    }
}

pub(crate) fn is_pinned(process: &Process, address: u64) -> bool {
    let tables = process.tables();
    let below = tables.pinned.range(..=address as usize).next_back();
    below.is_some_and(|(start, entry)| (address as usize) < start + entry.bytes)
}
