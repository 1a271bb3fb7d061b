//! Reruns: kernels that read the clock, and copies of what they wrote, are repeated once their
//! start time is known.

use super::cache::portable::portable;
use super::clocking::when;
use super::execute::execute;
use super::rerun_data::{Rerun, RerunWork};
use crate::bytes::move_bytes;
use crate::code::Code;
use crate::copy_shape::Copy;
use crate::entries::StreamEntry;
use crate::process::Process;
use crate::tables::Piece;

/// Whether a rerun will write to an allocation.
pub fn rerun_writes(process: &Process, start: u64) -> bool {
    let tables = process.tables();
    tables.launches.reruns.iter().any(|rerun| rerun.writes.contains(&start))
}

/// Whether a context has reruns.
pub fn has_reruns(process: &Process, context: u32) -> bool {
    let tables = process.tables();
    tables.launches.reruns.iter().any(|rerun| rerun.context == context)
}

/// Repeats a copy after the rerun of a launch that writes its source.
pub fn rerun_copy(
    process: &Process,
    stream: &StreamEntry,
    seq: u64,
    copy: &Copy,
    sources: &[Piece],
    targets: &[Piece],
) {
    if sources.iter().any(|piece| rerun_writes(process, piece.start)) {
        process.tables().launches.reruns.push(Rerun {
            stream: stream.slot,
            context: stream.context,
            seq,
            writes: targets.iter().map(|piece| piece.start).collect(),
            work: RerunWork::Copy(*copy),
        });
    }
}

/// Carries out the reruns of a context that have a known start time: their time stamps are exact.
pub fn finish_reruns(process: &Process, context: u32) -> Result<(), Code> {
    if process.tables().launches.reruns.is_empty() {
        return Ok(());
    }
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
            RerunWork::Copy(_) => None,
        };
        match (when(process, rerun.context, stream, seq, alone_ns)?, &rerun.work) {
            (Some(clocking), RerunWork::Launch { key, function, .. }) => {
                let launch = portable(process, function, key)?;
                execute(process, function, key, &launch.pointees, &clocking)?;
            }
            (Some(_), RerunWork::Copy(copy)) => move_bytes(process, copy)?,
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
        let rerun_targets = tables.launches.reruns.iter().filter(|d| d.writes.contains(&start));
        rerun_targets.map(|d| d.context).collect()
    };
    for context in contexts {
        finish_reruns(process, context)?;
    }
    process.tables().launches.reruns.retain(|d| !d.writes.contains(&start));
    Ok(())
}
