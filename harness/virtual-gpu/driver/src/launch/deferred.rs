//! What has to be done once more when it is known when it ran: kernels that stamp the time, and
//! copies of what they wrote.

use std::ops::Range;

use super::clocking::when;
use super::execute::execute;
use super::known::UnderWay;
use super::ledger::nameless;
use crate::bytes::move_bytes;
use crate::code::Code;
use crate::copy_shape::Copy;
use crate::launch_memory::deferred::{Deferred, Work};
use crate::process::{Process, StreamEntry};
use crate::stored_word::Store;
use crate::tables::Piece;
use gpubench_virtual_gpu_model::state::stream_wait::Owed;

/// Has a word written once more behind a launch that will write to its allocation once more.
pub fn store_later(process: &Process, stream: &StreamEntry, seq: u64, start: u64, store: Store) {
    if owes(process, start) {
        process.tables().launches.deferred.push(Deferred {
            stream: stream.slot,
            context: stream.context,
            seq,
            writes: vec![start],
            pinned: Vec::new(),
            work: Work::Store(store),
        });
    }
}

/// Whether something that will be done once more writes to an allocation.
#[must_use]
pub fn owes(process: &Process, start: u64) -> bool {
    let tables = process.tables();
    tables
        .launches
        .deferred
        .iter()
        .any(|deferred| deferred.writes.contains(&start))
}

/// What will be stored once more.
#[must_use]
pub fn owed(process: &Process) -> Vec<Owed> {
    let tables = process.tables();
    let mut out = Vec::new();
    for deferred in &tables.launches.deferred {
        let by = (deferred.stream, deferred.seq);
        let entries = deferred.writes.iter();
        let entries = entries.filter_map(|start| tables.allocations.get(start));
        let parts = entries.filter_map(|entry| {
            let base = process.host_address(entry.offset, entry.bytes).ok()? as usize;
            Some(base..base + entry.bytes as usize)
        });
        let parts = parts.chain(deferred.pinned.iter().cloned());
        out.extend(parts.map(|part| Owed { part, by }));
    }
    out
}

/// Whether anything of a context will be done once more.
#[must_use]
pub fn is_owed(process: &Process, context: u32) -> bool {
    let tables = process.tables();
    tables
        .launches
        .deferred
        .iter()
        .any(|deferred| deferred.context == context)
}

/// Has a copy made once more, if what it copied is not final yet. `pinned` is where it goes to in
/// the host's memory.
pub fn repeat_later(
    process: &Process,
    stream: &StreamEntry,
    seq: u64,
    copy: &Copy,
    sources: &[Piece],
    targets: &[Piece],
    pinned: Option<Range<usize>>,
) {
    if sources.iter().any(|piece| owes(process, piece.start)) {
        process.tables().launches.deferred.push(Deferred {
            stream: stream.slot,
            context: stream.context,
            seq,
            writes: targets.iter().map(|piece| piece.start).collect(),
            pinned: pinned.into_iter().collect(),
            work: Work::Copy(*copy),
        });
    }
}

/// Does again what ran at a time that is known by now, so that its stamps are true.
///
/// # Errors
/// When the device cannot be asked.
pub fn finish_deferred(process: &Process, context: u32) -> Result<(), Code> {
    if process.tables().launches.deferred.is_empty() {
        return Ok(());
    }
    // From here on they are no longer owed, and not made yet.
    let _under_way = UnderWay::begin(process);
    let taken: Vec<Deferred> = {
        let mut tables = process.tables();
        let all = std::mem::take(&mut tables.launches.deferred);
        let (mine, others) = all.into_iter().partition(|d| d.context == context);
        tables.launches.deferred = others;
        mine
    };
    let mut waiting = Vec::new();
    for deferred in taken {
        let Deferred { stream, seq, .. } = deferred;
        let alone_ns = match &deferred.work {
            Work::Launch { alone_ns, .. } => *alone_ns,
            Work::Copy(_) | Work::Store(_) => None,
        };
        match (
            when(process, deferred.context, stream, seq, alone_ns)?,
            &deferred.work,
        ) {
            (Some(clocking), Work::Launch { key, function, .. }) => {
                let launch = nameless(process, function, key)?;
                execute(process, function, key, &launch.pointees, &clocking)?;
            }
            (Some(_), Work::Copy(copy)) => move_bytes(process, copy)?,
            (Some(_), Work::Store(store)) => store.make(),
            (None, _) => waiting.push(deferred),
        }
    }
    process.tables().launches.deferred.extend(waiting);
    Ok(())
}

/// Before an allocation is overwritten from outside, launches that still owe it their results are
/// forgotten: the newer contents win.
///
/// # Errors
/// When the device cannot be asked.
pub fn finish_deferred_writes(process: &Process, start: u64) -> Result<(), Code> {
    let contexts: Vec<u32> = {
        let tables = process.tables();
        let owed = tables
            .launches
            .deferred
            .iter()
            .filter(|d| d.writes.contains(&start));
        owed.map(|d| d.context).collect()
    };
    for context in contexts {
        finish_deferred(process, context)?;
    }
    process
        .tables()
        .launches
        .deferred
        .retain(|d| !d.writes.contains(&start));
    Ok(())
}
