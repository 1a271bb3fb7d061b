//! Carrying out a copy: one shape for all of them, from a few bytes to a box.
//!
//! The bytes move when the call is made, the time passes on the model's copy engine. A program
//! that changes a buffer while a copy of it is under way races, here as on hardware.
#![expect(unsafe_code, reason = "device and host memory are raw mappings")]

use super::action::{Action, Pace, charge};
use crate::launch;
use crate::process::Process;
use crate::tables::{Piece, Tables};
use gpubench_virtual_gpu_driver::code::{self, Code};
use gpubench_virtual_gpu_driver::device::DeviceError;
use gpubench_virtual_gpu_driver::entries::StreamEntry;
use gpubench_virtual_gpu_model::noise;
use gpubench_virtual_gpu_model::state::{ONE, Op, OpKind, Resource};

/// In virtual time a copy of this size that repeats the last one to the same place moves no bytes:
/// a load generator would spend its time in memcpy. Its target counts as unwritten from then on,
/// and reading it fails.
const REPEATED_COPY_BYTES: u64 = 1 << 20;

/// Where one side of a copy lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Host memory, by its address.
    Host(u64),
    /// Device memory, by its address.
    Device(u64),
}

/// One side of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Side {
    /// First byte.
    pub place: Place,
    /// Bytes from one row to the next.
    pub pitch: u64,
    /// Rows from one slice to the next.
    pub rows: u64,
}

/// A copy of `depth` slices of `height` rows of `width` bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copy {
    /// Target.
    pub to: Side,
    /// Source.
    pub from: Side,
    /// Bytes of a row.
    pub width: u64,
    /// Rows of a slice.
    pub height: u64,
    /// Slices.
    pub depth: u64,
}

impl Copy {
    /// A copy of bytes that lie in one row.
    #[must_use]
    pub fn plain(to: Place, from: Place, bytes: usize) -> Self {
        let width = bytes as u64;
        let side = |place| Side {
            place,
            pitch: width,
            rows: 1,
        };
        Self {
            to: side(to),
            from: side(from),
            width,
            height: 1,
            depth: 1,
        }
    }

    fn total(&self) -> Option<u64> {
        self.width.checked_mul(self.height)?.checked_mul(self.depth)
    }

    /// The same copy in one row, if it lies in one on both sides.
    fn flat(&self) -> Option<Self> {
        let packed = |side: &Side| {
            (self.height == 1 || side.pitch == self.width)
                && (self.depth == 1 || (side.pitch == self.width && side.rows == self.height))
        };
        let total = self.total()?;
        (packed(&self.to) && packed(&self.from)).then_some(Self {
            to: Side {
                pitch: total,
                rows: 1,
                ..self.to
            },
            from: Side {
                pitch: total,
                rows: 1,
                ..self.from
            },
            width: total,
            height: 1,
            depth: 1,
        })
    }

    /// Bytes from the first to the last of a side, gaps included.
    fn span(&self, side: &Side) -> Option<u64> {
        let rows_before = (self.depth - 1)
            .checked_mul(side.rows)?
            .checked_add(self.height - 1)?;
        rows_before.checked_mul(side.pitch)?.checked_add(self.width)
    }

    fn check(&self) -> Result<Self, Code> {
        for side in [&self.to, &self.from] {
            let (Place::Host(address) | Place::Device(address)) = side.place;
            let rows_fit = self.height == 1 && self.depth == 1 || side.pitch >= self.width;
            let slices_fit = self.depth == 1 || side.rows >= self.height;
            let end = self.span(side).and_then(|span| address.checked_add(span));
            let null = side.place == Place::Host(0);
            if null || !rows_fit || !slices_fit || end.is_none() {
                return Err(code::INVALID_VALUE);
            }
        }
        Ok(self.flat().unwrap_or(*self))
    }
}

/// The pieces of device memory that a side touches, gaps between rows included.
fn touched(process: &Process, copy: &Copy, write: bool) -> Result<Vec<Piece>, Code> {
    let side = if write { &copy.to } else { &copy.from };
    let Place::Device(address) = side.place else {
        return Ok(Vec::new());
    };
    let span = copy.span(side).ok_or(code::INVALID_VALUE)?;
    super::ipc::check_opened(process, address)?;
    let tables = process.ready()?;
    tables
        .pieces(address, span, write)
        .ok_or(code::INVALID_VALUE)
}

/// Carries out a copy.
///
/// # Errors
/// For ranges that are not the program's, and for reading what was never written.
pub fn run(process: &Process, stream: &StreamEntry, copy: &Copy, pace: Pace) -> Result<(), Code> {
    if copy.total() == Some(0) {
        return Ok(());
    }
    let copy = copy.check()?;
    match (copy.to.place, copy.from.place) {
        (Place::Device(_), Place::Host(_)) => to_device(process, stream, &copy, pace),
        (Place::Host(_), Place::Device(_)) => to_host(process, stream, &copy, pace),
        (Place::Device(_), Place::Device(_)) => within_device(process, stream, &copy, pace),
        (Place::Host(_), Place::Host(_)) => within_host(process, stream, &copy, pace),
    }
}

fn to_device(process: &Process, stream: &StreamEntry, copy: &Copy, pace: Pace) -> Result<(), Code> {
    let targets = touched(process, copy, true)?;
    for piece in &targets {
        launch::finish_deferred_writes(process, piece.start)?;
    }
    let repeated = is_repeated(process, copy, &targets);
    let under_way = launch::UnderWay::begin(process);
    if !repeated {
        move_bytes(process, copy)?;
    }
    let mut tables = process.tables();
    for piece in &targets {
        tables.wrote(piece.start, repeated);
    }
    drop(tables);
    drop(under_way);
    let rate = process.device.machine().pcie.to_device_gb_per_s;
    let (seq, _) = transfer(process, stream, (OpKind::ToDevice, rate), copy, pace)?;
    process.wrote_pieces(&targets, (stream.slot, seq))
}

/// Whether a large copy has just been made, so that making it again can be left out.
fn is_repeated(process: &Process, copy: &Copy, targets: &[Piece]) -> bool {
    let (Place::Device(to), Place::Host(from)) = (copy.to.place, copy.from.place) else {
        return false;
    };
    let mut tables = process.tables();
    if copy.height * copy.depth != 1 {
        tables.copies.remove(&to);
        return false;
    }
    let last = tables.copies.insert(to, (from, copy.width));
    process.device.is_virtual_time()
        && copy.width >= REPEATED_COPY_BYTES
        && last == Some((from, copy.width))
        && targets.iter().all(|piece| !is_open(&tables, piece.start))
}

fn is_open(tables: &Tables, start: u64) -> bool {
    tables
        .allocations
        .get(&start)
        .is_none_or(|entry| entry.open)
}

fn to_host(process: &Process, stream: &StreamEntry, copy: &Copy, pace: Pace) -> Result<(), Code> {
    let sources = touched(process, copy, false)?;
    let rate = process.device.machine().pcie.to_host_gb_per_s;
    let (seq, waited) = transfer(process, stream, (OpKind::ToHost, rate), copy, pace)?;
    launch::finish_deferred(process, stream.context)?;
    if let Some(address) = unwritten_among(process, &sources) {
        return Err(refuse_unwritten(address));
    }
    move_bytes(process, copy)?;
    if let (Place::Host(address), false) = (copy.to.place, waited) {
        let span = copy.span(&copy.to).ok_or(code::INVALID_VALUE)?;
        let part = address as usize..(address + span) as usize;
        process.wrote_pinned(part.clone(), (stream.slot, seq));
        launch::repeat_later(process, stream, seq, copy, &sources, &[], Some(part));
    }
    Ok(())
}

fn within_device(
    process: &Process,
    stream: &StreamEntry,
    copy: &Copy,
    pace: Pace,
) -> Result<(), Code> {
    let targets = touched(process, copy, true)?;
    let sources = touched(process, copy, false)?;
    let unwritten = unwritten_among(process, &sources);
    let under_way = launch::UnderWay::begin(process);
    if let Some(address) = unwritten {
        let tables = process.tables();
        if targets.iter().any(|piece| is_open(&tables, piece.start)) {
            return Err(refuse_unwritten(address));
        }
    } else {
        move_bytes(process, copy)?;
    }
    let mut tables = process.tables();
    for piece in &targets {
        tables.wrote(piece.start, unwritten.is_some());
    }
    drop(tables);
    drop(under_way);
    charge(process, pace, process.device.machine().host.copy_ns)?;
    // Each byte is read and written.
    let bytes = 2 * copy.total().ok_or(code::INVALID_VALUE)?;
    let seq = device_traffic(process, stream, bytes)?;
    launch::repeat_later(process, stream, seq, copy, &sources, &targets, None);
    process.wrote_pieces(&targets, (stream.slot, seq))
}

/// Host memory to host memory: the driver does it itself, when the stream gets there.
fn within_host(
    process: &Process,
    stream: &StreamEntry,
    copy: &Copy,
    pace: Pace,
) -> Result<(), Code> {
    charge(process, pace, process.device.machine().host.copy_ns)?;
    super::stream::wait_for_all(process, stream)?;
    move_bytes(process, copy)
}

/// The first piece whose contents a sampled launch or a skipped copy only pretended to write.
fn unwritten_among(process: &Process, pieces: &[Piece]) -> Option<u64> {
    let tables = process.tables();
    let unwritten = |piece: &&Piece| {
        tables
            .allocations
            .get(&piece.start)
            .is_some_and(|entry| entry.unwritten)
    };
    pieces.iter().find(unwritten).map(|piece| piece.start)
}

/// Says which read found nothing to read, and refuses it.
fn refuse_unwritten(address: u64) -> Code {
    gpubench_virtual_gpu_driver::diagnostics::say(&format!(
        "read of {address:#x}: the last launch or copy into that allocation was only sampled, \
         so there is nothing to read (see the README of the virtual GPU)"
    ));
    code::NOT_SUPPORTED
}

/// Moves the bytes of a copy, row by row.
///
/// # Errors
/// When a range is gone.
pub fn move_bytes(process: &Process, copy: &Copy) -> Result<(), Code> {
    let tables = process.tables();
    for slice in 0..copy.depth {
        for row in 0..copy.height {
            let at = |side: &Side| (slice * side.rows + row) * side.pitch;
            let to = segments(
                process,
                &tables,
                copy.to.place,
                at(&copy.to),
                copy.width,
                true,
            )?;
            let from = segments(
                process,
                &tables,
                copy.from.place,
                at(&copy.from),
                copy.width,
                false,
            )?;
            join(&to, &from);
        }
    }
    Ok(())
}

/// Host addresses and lengths of a row.
fn segments(
    process: &Process,
    tables: &Tables,
    place: Place,
    at: u64,
    bytes: u64,
    write: bool,
) -> Result<Vec<(*mut u8, usize)>, Code> {
    match place {
        Place::Host(address) => Ok(vec![((address + at) as *mut u8, bytes as usize)]),
        Place::Device(address) => {
            let pieces = tables
                .pieces(address + at, bytes, write)
                .ok_or(code::INVALID_VALUE)?;
            let host = |piece: Piece| {
                let pointer = process.host_address(piece.offset, piece.bytes)?;
                Ok((pointer, piece.bytes as usize))
            };
            pieces.into_iter().map(host).collect()
        }
    }
}

/// Copies between two lists of segments of the same total length.
fn join(to: &[(*mut u8, usize)], from: &[(*mut u8, usize)]) {
    let (mut target, mut done_to, mut done_from) = (0, 0, 0);
    for &(source, length) in from {
        while done_from < length && target < to.len() {
            let (place, room) = to[target];
            let bytes = (length - done_from).min(room - done_to);
            // SAFETY: within both segments, which the caller vouches for (host memory) or the
            // table of allocations does (device memory); `copy` allows overlap.
            unsafe { std::ptr::copy(source.add(done_from), place.add(done_to), bytes) };
            done_from += bytes;
            done_to += bytes;
            if done_to == room {
                (target, done_to) = (target + 1, 0);
            }
        }
        done_from = 0;
    }
}

/// Whether an action copies between the device and memory that the device cannot use itself: such a
/// copy is over when its call returns.
pub(super) fn is_pageable(process: &Process, action: &Action) -> bool {
    let Action::Copy(copy) = action else {
        return false;
    };
    let mut places = [copy.to.place, copy.from.place].into_iter();
    places.any(|place| matches!(place, Place::Host(address) if !is_pinned(process, address)))
}

fn is_pinned(process: &Process, address: u64) -> bool {
    let tables = process.tables();
    let below = tables.pinned.range(..=address as usize).next_back();
    below.is_some_and(|(start, entry)| (address as usize) < start + entry.bytes)
}

/// Puts a copy on its engine. Gives its sequence number, and whether it has been waited for.
fn transfer(
    process: &Process,
    stream: &StreamEntry,
    (kind, gb_per_s): (OpKind, f64),
    copy: &Copy,
    pace: Pace,
) -> Result<(u64, bool), Code> {
    let device = &process.device;
    let bytes = copy.total().ok_or(code::INVALID_VALUE)?;
    let pinned = [copy.to.place, copy.from.place]
        .iter()
        .any(|place| matches!(place, Place::Host(address) if is_pinned(process, *address)));
    let factor = if pinned {
        1.0
    } else {
        device.machine().pcie.pageable_factor
    };
    charge(process, pace, device.machine().host.copy_ns)?;
    let seq = link_traffic(process, stream, (kind, gb_per_s * factor), bytes)?;
    // A copy of pageable memory returns only when its staging buffer is free again.
    let waits = pace == Pace::Now || (pace == Pace::Later && !pinned);
    if waits {
        device.wait_stream(stream.slot, seq)?;
        device.charge(device.machine().host.sync_ns)?;
        process.check_sticky(stream.context)?;
    }
    Ok((seq, waits))
}

/// Work that moves bytes over the host link, one way at a rate.
///
/// # Errors
/// When it cannot be queued.
pub fn link_traffic(
    process: &Process,
    stream: &StreamEntry,
    (kind, gb_per_s): (OpKind, f64),
    bytes: u64,
) -> Result<u64, Code> {
    let latency_ns = process.device.machine().pcie.copy_latency_us * 1e3;
    let alone_ns = latency_ns + bytes as f64 / gb_per_s;
    let op = Op {
        kind,
        alone_ns: noisy(process, stream.slot, alone_ns)?,
        bytes,
        ..Op::default()
    };
    Ok(process.device.submit(stream.slot, op)?)
}

/// Work that moves bytes within device memory at full bandwidth.
///
/// # Errors
/// When it cannot be queued.
pub fn device_traffic(process: &Process, stream: &StreamEntry, bytes: u64) -> Result<u64, Code> {
    let machine = process.device.machine();
    let alone_ns = 1_000.0 + bytes as f64 / machine.memory.dram_gb_per_s;
    let mut op = Op {
        kind: OpKind::Kernel,
        alone_ns: noisy(process, stream.slot, alone_ns)?,
        power_mw: ((machine.power.max_w - machine.power.idle_w) * 500.0) as u32,
        ..Op::default()
    };
    op.demand[Resource::Dram as usize] = ONE as u32;
    op.demand[Resource::L2 as usize] = ONE as u32 / 2;
    Ok(process.device.submit(stream.slot, op)?)
}

/// A duration with the planted noise.
///
/// # Errors
/// When the device cannot be asked.
pub fn noisy(process: &Process, stream: u32, alone_ns: f64) -> Result<u64, Code> {
    let device = &process.device;
    let at = device.present_ns()?;
    let seq = super::stream::submitted(stream)?;
    let key = (u64::from(stream) << 40) ^ seq;
    let seed = device.shared().read(|state| state.seed);
    let seed = seed.map_err(|error| Code::from(DeviceError::State(error)))?;
    let factor = noise::factor(&device.machine().noise, seed, at, key);
    Ok((alone_ns * factor).round().max(1.0) as u64)
}
