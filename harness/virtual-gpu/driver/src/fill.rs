//! Carries out fills: the device writes one value repeatedly.

use crate::bytes::write_row;
use crate::code::{self, Code};
use crate::entries::StreamEntry;
use crate::fill_shape::Fill;
use crate::operation::WaitPolicy;
use crate::process::Process;
use crate::submit::{charge, device_traffic};
use crate::tables::Piece;
use crate::{ipc, launch, pinned};

/// In virtual time a larger fill writes nothing at first: its target counts as unwritten, and
/// reading it fails, except for kernels that can be executed again ([`make_good`]).
const LARGE_FILL_BYTES: u64 = 64 << 20;

/// Carries out a fill.
pub fn run(
    process: &Process,
    stream: &StreamEntry,
    fill: &Fill,
    policy: WaitPolicy,
) -> Result<(), Code> {
    if fill.width == 0 || fill.height == 0 {
        return Ok(());
    }
    fill.check()?;
    let row_bytes = fill.row_bytes().ok_or(code::INVALID_VALUE)?;
    let total = row_bytes
        .checked_mul(fill.height)
        .ok_or(code::INVALID_VALUE)?;
    ipc::check_opened(process, fill.pointer)?;
    let (pieces, open) = targets(process, fill)?;
    for piece in &pieces {
        launch::finish_reruns_into(process, piece.start)?;
    }
    let skipped = process.device.is_virtual_time() && total > LARGE_FILL_BYTES && !open;
    let writing = launch::WriteGuard::begin(process);
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
    drop(writing);
    charge(process, policy, process.device.machine().host.launch_ns)?;
    let seq = device_traffic(process, stream, total)?;
    if policy == WaitPolicy::Now {
        process.device.wait_stream(stream.slot, seq)?;
    }
    Ok(())
}

/// The pieces that a fill covers, and whether other processes or the host can read them.
fn targets(process: &Process, fill: &Fill) -> Result<(Vec<Piece>, bool), Code> {
    let span = fill.span().ok_or(code::INVALID_VALUE)?;
    let tables = process.ready()?;
    if let Some(pieces) = tables.pieces(fill.pointer, span, true) {
        let is_open = |piece: &Piece| tables.allocations.get(&piece.start).is_none_or(|a| a.open);
        let open = pieces.iter().any(is_open);
        return Ok((pieces, open));
    }
    // Pinned host memory is the device's, too.
    let pinned = pinned::covering(&tables, fill.pointer as usize, span as usize);
    pinned
        .map(|_| (Vec::new(), true))
        .ok_or(code::INVALID_VALUE)
}
