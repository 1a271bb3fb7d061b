//! Carries out fills: the device writes one value repeatedly.

use crate::bytes::write;
use crate::code::{self, Code};
use crate::fill_shape::Fill;
use crate::issue::Issue;
use crate::operation::WaitPolicy;
use crate::process::Process;
use crate::submit::{charge, device_traffic};
use crate::tables::Piece;
use crate::{ipc, launch, pinned};

/// In virtual time a larger fill writes nothing at first: its target counts as unwritten, and
/// reading it fails, except for kernels that can be executed again ([`make_good`]).
const LARGE_FILL_BYTES: u64 = 64 << 20;

pub fn run(Issue { process, stream, policy }: Issue<'_>, fill: &Fill) -> Result<(), Code> {
    if fill.count == 0 {
        return Ok(());
    }
    let bytes = fill.bytes()?;
    ipc::check_opened(process, fill.pointer)?;
    let (pieces, open) = targets(process, fill.pointer, bytes)?;
    for piece in &pieces {
        launch::finish_reruns_into(process, piece.start)?;
    }
    let skipped = process.device.is_virtual_time() && bytes > LARGE_FILL_BYTES && !open;
    if !skipped {
        write(process, fill, bytes)?;
    }
    let mut tables = process.tables();
    for piece in &pieces {
        tables.wrote(piece.start, skipped);
        if skipped {
            tables.stand_in_for_all(piece.start, u64::from(fill.value));
        }
    }
    if let ([piece], true) = (&pieces[..], skipped) {
        tables.skipped(piece, fill);
    }
    drop(tables);
    charge(process, policy, process.device.machine().host.launch_ns)?;
    let seq = device_traffic(process, stream, bytes)?;
    if policy == WaitPolicy::Now {
        process.device.wait_stream(stream.slot, seq)?;
    }
    Ok(())
}

/// The pieces that a fill covers, and whether other processes or the host can read them.
fn targets(process: &Process, pointer: u64, bytes: u64) -> Result<(Vec<Piece>, bool), Code> {
    let tables = process.ready()?;
    if let Some(pieces) = tables.pieces(pointer, bytes, true) {
        let is_open = |piece: &Piece| tables.allocations.get(&piece.start).is_none_or(|a| a.open);
        let open = pieces.iter().any(is_open);
        return Ok((pieces, open));
    }
    // Pinned host memory is the device's, too.
    let pinned = pinned::covering(&tables, pointer as usize, bytes as usize);
    pinned.map(|_| (Vec::new(), true)).ok_or(code::INVALID_VALUE)
}
