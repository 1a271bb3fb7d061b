//! Reruns: kernels that read the clock, and copies of what they wrote, are repeated once their
//! start time is known.

use std::ops::Range;

use super::cache::portable::portable;
use super::clocking::when;
use super::execute::execute;
use super::rerun_data::{Rerun, RerunWork};
use super::write_guard::WriteGuard;
use crate::bytes::move_bytes;
use crate::code::Code;
use crate::copy_shape::Copy;
use crate::entries::StreamEntry;
use crate::process::Process;
use crate::stored_word::Store;
use crate::tables::Piece;
use gpubench_virtual_gpu_model::state::stream_wait::PendingStore;

/// Repeats the write of a word after the rerun of a launch that writes to its allocation.
pub fn rerun_store(process: &Process, stream: &StreamEntry, seq: u64, start: u64, store: Store) {
    if rerun_writes(process, start) {
        process.tables().launches.reruns.push(Rerun {
            stream: stream.slot,
            context: stream.context,
            seq,
            writes: vec![start],
            pinned: Vec::new(),
            work: RerunWork::Store(store),
        });
    }
}

/// Whether a rerun will write to an allocation.
pub fn rerun_writes(process: &Process, start: u64) -> bool {
    let tables = process.tables();
    tables
        .launches
        .reruns
        .iter()
        .any(|rerun| rerun.writes.contains(&start))
}

/// Host memory that reruns will write.
pub fn rerun_targets(process: &Process) -> Vec<PendingStore> {
    let tables = process.tables();
    let mut out = Vec::new();
    for rerun in &tables.launches.reruns {
        let by = (rerun.stream, rerun.seq);
        let entries = rerun.writes.iter();
        let entries = entries.filter_map(|start| tables.allocations.get(start));
        let parts = entries.filter_map(|entry| {
            let base = process.host_address(entry.offset, entry.bytes).ok()? as usize;
            Some(base..base + entry.bytes as usize)
        });
        let parts = parts.chain(rerun.pinned.iter().cloned());
        out.extend(parts.map(|part| PendingStore { part, by }));
    }
    out
}

/// Whether a context has reruns.
pub fn has_reruns(process: &Process, context: u32) -> bool {
    let tables = process.tables();
    tables
        .launches
        .reruns
        .iter()
        .any(|rerun| rerun.context == context)
}

/// Repeats a copy after the rerun of a launch that writes its source. `pinned` is the target in
/// host memory.
pub fn rerun_copy(
    process: &Process,
    stream: &StreamEntry,
    seq: u64,
    copy: &Copy,
    sources: &[Piece],
    targets: &[Piece],
    pinned: Option<Range<usize>>,
) {
    if sources
        .iter()
        .any(|piece| rerun_writes(process, piece.start))
    {
        process.tables().launches.reruns.push(Rerun {
            stream: stream.slot,
            context: stream.context,
            seq,
            writes: targets.iter().map(|piece| piece.start).collect(),
            pinned: pinned.into_iter().collect(),
            work: RerunWork::Copy(*copy),
        });
    }
}

/// Carries out the reruns of a context that have a known start time: their time stamps are exact.
pub fn finish_reruns(process: &Process, context: u32) -> Result<(), Code> {
    if process.tables().launches.reruns.is_empty() {
        return Ok(());
    }
    // From here on they are not among `rerun_targets`, and not carried out yet.
    let _under_way = WriteGuard::begin(process);
    let taken: Vec<Rerun> = {
        let mut tables = process.tables();
        let all = std::mem::take(&mut tables.launches.reruns);
        let (mine, others) = all.into_iter().partition(|d| d.context == context);
        tables.launches.reruns = others;
        mine
    };
    let mut waiting = Vec::new();
    for rerun in taken {
        let Rerun { stream, seq, .. } = rerun;
        let alone_ns = match &rerun.work {
            RerunWork::Launch { alone_ns, .. } => *alone_ns,
            RerunWork::Copy(_) | RerunWork::Store(_) => None,
        };
        match (
            when(process, rerun.context, stream, seq, alone_ns)?,
            &rerun.work,
        ) {
            (Some(clocking), RerunWork::Launch { key, function, .. }) => {
                let launch = portable(process, function, key)?;
                execute(process, function, key, &launch.pointees, &clocking)?;
            }
            (Some(_), RerunWork::Copy(copy)) => move_bytes(process, copy)?,
            (Some(_), RerunWork::Store(store)) => store.make(),
            (None, _) => waiting.push(rerun),
        }
    }
    process.tables().launches.reruns.extend(waiting);
    Ok(())
}

/// Called before an allocation is overwritten: finishes the reruns that write to it and can run,
/// and drops the others.
pub fn finish_reruns_into(process: &Process, start: u64) -> Result<(), Code> {
    let contexts: Vec<u32> = {
        let tables = process.tables();
        let rerun_targets = tables
            .launches
            .reruns
            .iter()
            .filter(|d| d.writes.contains(&start));
        rerun_targets.map(|d| d.context).collect()
    };
    for context in contexts {
        finish_reruns(process, context)?;
    }
    process
        .tables()
        .launches
        .reruns
        .retain(|d| !d.writes.contains(&start));
    Ok(())
}
