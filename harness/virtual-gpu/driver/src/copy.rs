//! Carries out copies.
//!
//! The bytes move when the call is made; the time passes on the model's copy engine. A program that
//! changes a buffer during a copy of it has a race, as on hardware.

use crate::bytes::{is_pinned, make_good, move_bytes, write_host};
use crate::code::{self, Code};
use crate::copy_shape::{Copy, Place};
use crate::issue::Issue;
use crate::operation::WaitPolicy;
use crate::process::Process;
use crate::submit::{charge, device_traffic, link_traffic};
use crate::tables::{HostCopy, Piece, Tables};
use crate::{ipc, launch, stand_in, stream};
use gpubench_virtual_gpu_model::state::OpKind;

/// In virtual time a copy of at least this size from pinned memory that repeats the last one to the
/// same memory moves no bytes: a load generator would spend its time in memcpy. Its target then
/// counts as unwritten, and reading it fails.
const REPEATED_COPY_BYTES: u64 = 1 << 20;

/// The pieces of device memory that one side of a copy covers.
fn touched(process: &Process, copy: &Copy, write: bool) -> Result<Vec<Piece>, Code> {
    let place = if write { copy.to } else { copy.from };
    let Place::Device(address) = place else { return Ok(Vec::new()) };
    ipc::check_opened(process, address)?;
    let tables = process.ready()?;
    tables.pieces(address, copy.bytes, write).ok_or(code::INVALID_VALUE)
}

pub fn run(issue: Issue<'_>, copy: &Copy) -> Result<(), Code> {
    if copy.bytes == 0 {
        return Ok(());
    }
    copy.check()?;
    match (copy.to, copy.from) {
        (Place::Device(_), Place::Host(_)) => to_device(issue, copy),
        (Place::Host(_), Place::Device(_)) => to_host(issue, copy),
        (Place::Device(_), Place::Device(_)) => within_device(issue, copy),
        (Place::Host(_), Place::Host(_)) => within_host(issue, copy),
    }
}

fn to_device(issue: Issue<'_>, copy: &Copy) -> Result<(), Code> {
    let process = issue.process;
    let targets = touched(process, copy, true)?;
    for piece in &targets {
        launch::finish_reruns_into(process, piece.start)?;
    }
    let repeated = is_repeated(process, copy, &targets);
    if !repeated {
        move_bytes(process, copy)?;
    }
    let mut tables = process.tables();
    for piece in &targets {
        tables.wrote(piece.start, repeated);
    }
    if let (Place::Device(to), Place::Host(from)) = (copy.to, copy.from) {
        let versions = versions(&tables, &targets);
        tables.copies.insert(to, HostCopy { from, bytes: copy.bytes, versions });
    }
    drop(tables);
    let rate = process.device.machine().pcie.to_device_gb_per_s;
    transfer(issue, (OpKind::ToDevice, rate), copy).map(|_| ())
}

/// Whether a large copy repeats the last one to its target, so that it can be skipped: nothing else
/// wrote there since, and it is the same memory.
fn is_repeated(process: &Process, copy: &Copy, targets: &[Piece]) -> bool {
    let (Place::Device(to), Place::Host(from)) = (copy.to, copy.from) else { return false };
    let is_large = process.device.is_virtual_time() && copy.bytes >= REPEATED_COPY_BYTES;
    // What a program does with other memory is not seen.
    if !is_large || !is_pinned(process, from) {
        return false;
    }
    let tables = process.tables();
    let same = HostCopy { from, bytes: copy.bytes, versions: versions(&tables, targets) };
    tables.copies.get(&to) == Some(&same)
        && targets
            .iter()
            .all(|piece| tables.stand_in(piece.start) == 0 && !is_open(&tables, piece.start))
}

fn versions(tables: &Tables, pieces: &[Piece]) -> Vec<u64> {
    let of = |piece: &Piece| tables.allocations.get(&piece.start).map(|entry| entry.version);
    pieces.iter().filter_map(of).collect()
}

fn is_open(tables: &Tables, start: u64) -> bool {
    tables.allocations.get(&start).is_none_or(|entry| entry.open)
}

fn to_host(issue: Issue<'_>, copy: &Copy) -> Result<(), Code> {
    let Issue { process, stream, .. } = issue;
    let sources = touched(process, copy, false)?;
    let rate = process.device.machine().pcie.to_host_gb_per_s;
    let (seq, waited) = transfer(issue, (OpKind::ToHost, rate), copy)?;
    launch::finish_reruns(process, stream.context)?;
    if let Some(address) = unwritten_among(process, &sources) {
        if launch::Extent::of(process) == launch::Extent::Full {
            return Err(refuse_unwritten(address));
        }
        move_with_stand_ins(process, copy, &sources)?;
    } else {
        move_bytes(process, copy)?;
    }
    if !waited {
        launch::rerun_copy(process, stream, seq, copy, &sources, &[]);
    }
    Ok(())
}

fn within_device(Issue { process, stream, policy }: Issue<'_>, copy: &Copy) -> Result<(), Code> {
    let targets = touched(process, copy, true)?;
    let sources = touched(process, copy, false)?;
    let unwritten = unwritten_among(process, &sources);
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
        if let Some(source) = unwritten {
            let contents = tables.stand_in(source);
            tables.stand_in_for_all(piece.start, contents);
        }
    }
    drop(tables);
    charge(process, policy, process.device.machine().host.copy_ns)?;
    // Each byte is read and written.
    let seq = device_traffic(process, stream, 2 * copy.bytes)?;
    launch::rerun_copy(process, stream, seq, copy, &sources, &targets);
    Ok(())
}

/// Copies host memory to host memory on the CPU, once the earlier work of the stream is done.
fn within_host(Issue { process, stream, policy }: Issue<'_>, copy: &Copy) -> Result<(), Code> {
    charge(process, policy, process.device.machine().host.copy_ns)?;
    stream::wait_for_all(process, stream)?;
    move_bytes(process, copy)
}

/// The first piece that a sampled launch or a skipped copy left unwritten.
fn unwritten_among(process: &Process, pieces: &[Piece]) -> Option<u64> {
    let tables = process.tables();
    let unwritten =
        |piece: &&Piece| tables.allocations.get(&piece.start).is_some_and(|entry| entry.unwritten);
    pieces.iter().find(unwritten).map(|piece| piece.start)
}

/// Copies to the host what pieces hold of which one is unwritten: the value of a skipped fill, or
/// what stands for the output of sampled launches. The target of a repeated copy has its bytes.
fn move_with_stand_ins(process: &Process, copy: &Copy, pieces: &[Piece]) -> Result<(), Code> {
    let (Place::Host(mut to), Place::Device(mut from)) = (copy.to, copy.from) else {
        return move_bytes(process, copy);
    };
    for piece in pieces {
        let (contents, offset) = {
            let tables = process.tables();
            let entry = tables.allocations.get(&piece.start).ok_or(code::INVALID_VALUE)?;
            (tables.stand_in(piece.start), entry.offset)
        };
        let at = piece.offset - offset;
        let is_filled =
            contents != 0 && make_good(process, piece.start, (at, at + piece.bytes))?.is_some();
        if contents == 0 || is_filled {
            let (to, from) = (Place::Host(to), Place::Device(from));
            move_bytes(process, &Copy { to, from, bytes: piece.bytes })?;
        } else {
            write_host(to, &stand_in::bytes(contents, at, piece.bytes));
        }
        to += piece.bytes;
        from += piece.bytes;
    }
    Ok(())
}

/// Reports the read of an unwritten allocation, and refuses it.
fn refuse_unwritten(address: u64) -> Code {
    crate::diagnostics::say(&format!(
        "read of {address:#x}: the last launch or copy into that allocation was only sampled, \
         so there is nothing to read (see the README of the virtual GPU)"
    ));
    code::NOT_SUPPORTED
}

/// Queues a copy on its engine. Returns its sequence number, and whether it has been waited for.
fn transfer(
    issue: Issue<'_>,
    (kind, gb_per_s): (OpKind, f64),
    copy: &Copy,
) -> Result<(u64, bool), Code> {
    let Issue { process, stream, policy } = issue;
    let device = &process.device;
    let pinned = [copy.to, copy.from]
        .iter()
        .any(|place| matches!(place, Place::Host(address) if is_pinned(process, *address)));
    let factor = if pinned { 1.0 } else { device.machine().pcie.pageable_factor };
    charge(process, policy, device.machine().host.copy_ns)?;
    let seq = link_traffic(process, stream, (kind, gb_per_s * factor), copy.bytes)?;
    // A copy of pageable memory returns when its staging buffer is free again.
    let waits = policy == WaitPolicy::Now || (policy == WaitPolicy::Later && !pinned);
    if waits {
        device.wait_stream(stream.slot, seq)?;
        device.charge(device.machine().host.sync_ns)?;
        process.check_sticky(stream.context)?;
    }
    Ok((seq, waits))
}
