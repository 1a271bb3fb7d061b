//! Fills: the device writes one value over and over, in one row or in several.
#![expect(
    unsafe_code,
    reason = "a C interface is made of raw pointers and exported names"
)]

use std::ffi::c_uint;

use super::action::{Action, Pace, charge, perform};
use super::copy::device_traffic;
use super::global::entries;
use crate::launch;
use crate::process::{Process, process};
use crate::tables::Piece;
use gpubench_virtual_gpu_driver::code::{self, Code};
use gpubench_virtual_gpu_driver::entries::StreamEntry;
use gpubench_virtual_gpu_driver::handles::Handle;

/// In virtual time a larger fill writes nothing at first: its target counts as unwritten, and
/// reading it fails, but for kernels that can have it made good ([`make_good`]).
const LARGE_FILL_BYTES: u64 = 64 << 20;

/// One fill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fill {
    /// First byte.
    pub pointer: u64,
    /// Bytes from one row to the next.
    pub pitch: u64,
    /// The value, in as many low bytes as an element has.
    pub value: u32,
    /// Bytes of an element: 1, 2 or 4.
    pub element: u64,
    /// Elements of a row.
    pub width: u64,
    /// Rows.
    pub height: u64,
}

impl Fill {
    fn row_bytes(&self) -> Option<u64> {
        self.width.checked_mul(self.element)
    }

    /// Bytes from the first to the last, gaps included.
    fn span(&self) -> Option<u64> {
        let before = (self.height - 1).checked_mul(self.pitch)?;
        before.checked_add(self.row_bytes()?)
    }

    fn check(&self) -> Result<(), Code> {
        let row = self.row_bytes().ok_or(code::INVALID_VALUE)?;
        let aligned = self.pointer.is_multiple_of(self.element)
            && (self.height == 1 || self.pitch.is_multiple_of(self.element));
        if !aligned || (self.height > 1 && self.pitch < row) {
            return Err(code::INVALID_VALUE);
        }
        Ok(())
    }
}

entries! {
    fn cuMemsetD8_v2(pointer: u64, value: u8, count: usize) {
        queue(row(pointer, value.into(), 1, count), None)
    }

    fn cuMemsetD8Async(pointer: u64, value: u8, count: usize, stream: Handle) {
        queue(row(pointer, value.into(), 1, count), Some(stream))
    }

    fn cuMemsetD16_v2(pointer: u64, value: u16, count: usize) {
        queue(row(pointer, value.into(), 2, count), None)
    }

    fn cuMemsetD16Async(pointer: u64, value: u16, count: usize, stream: Handle) {
        queue(row(pointer, value.into(), 2, count), Some(stream))
    }

    fn cuMemsetD32_v2(pointer: u64, value: c_uint, count: usize) {
        queue(row(pointer, value, 4, count), None)
    }

    fn cuMemsetD32Async(pointer: u64, value: c_uint, count: usize, stream: Handle) {
        queue(row(pointer, value, 4, count), Some(stream))
    }

    fn cuMemsetD2D8_v2(pointer: u64, pitch: usize, value: u8, width: usize, height: usize) {
        queue(rows((pointer, pitch), (value.into(), 1), (width, height)), None)
    }

    fn cuMemsetD2D8Async(
        pointer: u64,
        pitch: usize,
        value: u8,
        width: usize,
        height: usize,
        stream: Handle,
    ) {
        queue(rows((pointer, pitch), (value.into(), 1), (width, height)), Some(stream))
    }

    fn cuMemsetD2D16_v2(pointer: u64, pitch: usize, value: u16, width: usize, height: usize) {
        queue(rows((pointer, pitch), (value.into(), 2), (width, height)), None)
    }

    fn cuMemsetD2D16Async(
        pointer: u64,
        pitch: usize,
        value: u16,
        width: usize,
        height: usize,
        stream: Handle,
    ) {
        queue(rows((pointer, pitch), (value.into(), 2), (width, height)), Some(stream))
    }

    fn cuMemsetD2D32_v2(pointer: u64, pitch: usize, value: c_uint, width: usize, height: usize) {
        queue(rows((pointer, pitch), (value, 4), (width, height)), None)
    }

    fn cuMemsetD2D32Async(
        pointer: u64,
        pitch: usize,
        value: c_uint,
        width: usize,
        height: usize,
        stream: Handle,
    ) {
        queue(rows((pointer, pitch), (value, 4), (width, height)), Some(stream))
    }
}

fn row(pointer: u64, value: u32, element: u64, count: usize) -> Fill {
    let width = count as u64;
    Fill {
        pointer,
        pitch: 0,
        value,
        element,
        width,
        height: 1,
    }
}

fn rows(
    (pointer, pitch): (u64, usize),
    (value, element): (u32, u64),
    (width, height): (usize, usize),
) -> Fill {
    let (pitch, width, height) = (pitch as u64, width as u64, height as u64);
    Fill {
        pointer,
        pitch,
        value,
        element,
        width,
        height,
    }
}

fn queue(fill: Fill, stream: Option<Handle>) -> Result<(), Code> {
    let process = process()?;
    let pace = if stream.is_some() {
        Pace::Later
    } else {
        Pace::Now
    };
    let stream = process.stream(stream.unwrap_or(std::ptr::null_mut()))?;
    perform(process, &stream, Action::Fill(fill), pace)
}

/// Carries out a fill.
///
/// # Errors
/// For ranges that are not the program's, or not aligned to the element.
pub(super) fn run(
    process: &Process,
    stream: &StreamEntry,
    fill: &Fill,
    pace: Pace,
) -> Result<(), Code> {
    if fill.width == 0 || fill.height == 0 {
        return Ok(());
    }
    fill.check()?;
    let row_bytes = fill.row_bytes().ok_or(code::INVALID_VALUE)?;
    let total = row_bytes
        .checked_mul(fill.height)
        .ok_or(code::INVALID_VALUE)?;
    super::ipc::check_opened(process, fill.pointer)?;
    let (pieces, open) = targets(process, fill)?;
    for piece in &pieces {
        launch::finish_deferred_writes(process, piece.start)?;
    }
    let skipped = process.device.is_virtual_time() && total > LARGE_FILL_BYTES && !open;
    let under_way = launch::UnderWay::begin(process);
    if !skipped {
        for index in 0..fill.height {
            write_row(process, fill, fill.pointer + index * fill.pitch, row_bytes)?;
        }
    }
    let mut tables = process.tables();
    for piece in &pieces {
        tables.wrote(piece.start, skipped);
    }
    if let ([piece], true) = (&pieces[..], skipped) {
        tables.skipped(piece, fill);
    }
    drop(tables);
    drop(under_way);
    charge(process, pace, process.device.machine().host.launch_ns)?;
    let seq = device_traffic(process, stream, total)?;
    let by = (stream.slot, seq);
    process.wrote_pieces(&pieces, by)?;
    if pieces.is_empty() {
        let span = fill.span().ok_or(code::INVALID_VALUE)?;
        process.wrote_pinned(fill.pointer as usize..(fill.pointer + span) as usize, by);
    }
    if pace == Pace::Now {
        process.device.wait_stream(stream.slot, seq)?;
    }
    Ok(())
}

/// What is made good at a time.
const CHUNK_BYTES: u64 = 1 << 20;

/// Writes what a skipped fill should have written to a part of an allocation. Gives whether
/// anything was left to write; none where the last write to it was no fill of all of it.
///
/// # Errors
/// When the tables contradict each other, which is a bug.
pub fn make_good(
    process: &Process,
    start: u64,
    (from, to): (u64, u64),
) -> Result<Option<bool>, Code> {
    let (fill, offset, bytes, due) = {
        let mut tables = process.tables();
        let Some(entry) = tables.allocations.get(&start) else {
            return Ok(None);
        };
        let (version, offset, bytes) = (entry.version, entry.offset, entry.bytes);
        let Some(skipped) = tables.fills.get_mut(&start) else {
            return Ok(None);
        };
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
        write(process.host_address(offset + at, length)?, length, &fill);
    }
    Ok(Some(!due.is_empty()))
}

/// The pieces that a fill touches, and whether others see what it writes.
fn targets(process: &Process, fill: &Fill) -> Result<(Vec<Piece>, bool), Code> {
    let span = fill.span().ok_or(code::INVALID_VALUE)?;
    let tables = process.ready()?;
    if let Some(pieces) = tables.pieces(fill.pointer, span, true) {
        let is_open = |piece: &Piece| tables.allocations.get(&piece.start).is_none_or(|a| a.open);
        let open = pieces.iter().any(is_open);
        return Ok((pieces, open));
    }
    // Pinned host memory is the device's, too.
    let pinned = super::pinned::covering(&tables, fill.pointer as usize, span as usize);
    pinned
        .map(|_| (Vec::new(), true))
        .ok_or(code::INVALID_VALUE)
}

fn write_row(process: &Process, fill: &Fill, at: u64, bytes: u64) -> Result<(), Code> {
    let pieces = process.tables().pieces(at, bytes, true);
    let Some(pieces) = pieces else {
        // `targets` found it in pinned memory.
        write(at as *mut u8, bytes, fill);
        return Ok(());
    };
    for piece in pieces {
        write(
            process.host_address(piece.offset, piece.bytes)?,
            piece.bytes,
            fill,
        );
    }
    Ok(())
}

/// Writes the pattern. Pieces begin and end at pages, so that none cuts an element.
fn write(to: *mut u8, bytes: u64, fill: &Fill) {
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
