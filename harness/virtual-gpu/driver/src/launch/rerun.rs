//! Reruns: kernels that read the clock, and copies of what they wrote, are repeated once their
//! start time is known; the clock of a launch is `%globaltimer` over the spans in which it ran.

use super::cache::profile::portable;
use super::request::{Rerun, RerunWork};
use super::run::execute;
use crate::bytes::move_bytes;
use crate::code::Code;
use crate::copy_shape::Copy;
use crate::entries::StreamEntry;
use crate::process::Process;
use crate::tables::Piece;
use gpubench_virtual_gpu_model::state::Interval;
use gpubench_virtual_gpu_ptx::Timer;

pub fn rerun_writes(process: &Process, start: u64) -> bool {
    let tables = process.tables();
    tables.launches.reruns.iter().any(|rerun| rerun.writes.contains(&start))
}

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

/// The clock that a launch reads.
#[derive(Debug, Clone)]
pub enum Clocking {
    /// A clock that starts at zero and never stops. Used to compute the cost.
    Ideal,
    /// The spans in which the launch ran, and its slowdown.
    Spans {
        /// The time slices of its context.
        spans: Vec<(u64, u64)>,
        /// Active time divided by the time without other launches.
        stretch: f64,
    },
}

/// The clock of a launch that has completed; `None` before.
pub fn when(
    process: &Process,
    context: u32,
    stream: u32,
    seq: u64,
    alone_ns: Option<f64>,
) -> Result<Option<Clocking>, Code> {
    let clocking = process.device.transact(|state, side| {
        let slot = &state.streams.rows[stream as usize];
        if slot.completed < seq {
            return None;
        }
        let span = side.span(stream as usize, seq - 1);
        let group = state.contexts.rows[context as usize].group;
        let count = state.contexts.rows[group as usize].intervals;
        let spans = clip(&side.intervals(group, count), &span);
        let active: u64 = spans.iter().map(|(start, end)| end - start).sum();
        let stretch = alone_ns.map_or(1.0, |alone| (active as f64 / alone.max(1.0)).max(1e-3));
        Some(Clocking::Spans { spans, stretch })
    })?;
    Ok(clocking)
}

/// The parts of `intervals` that lie within `span`; the span itself if none does.
fn clip(intervals: &[Interval], span: &Interval) -> Vec<(u64, u64)> {
    let mut out: Vec<(u64, u64)> = intervals
        .iter()
        .map(|i| (i.start_ns.max(span.start_ns), i.end_ns.min(span.end_ns)))
        .filter(|(start, end)| start < end)
        .collect();
    match out.last() {
        None => out.push((span.start_ns, span.end_ns.max(span.start_ns + 1))),
        // A wait that ends in another context's time slice returns at the start of its own.
        Some(&(_, end)) if end < span.end_ns => out.push((span.end_ns, span.end_ns + 1)),
        Some(_) => {}
    }
    out
}

impl Timer for Clocking {
    fn globaltimer_ns(&mut self, active_ns: u64) -> u64 {
        match self {
            Self::Ideal => active_ns,
            Self::Spans { spans, stretch } => {
                let mut remaining_ns = (active_ns as f64 * *stretch) as u64;
                for &(start, end) in spans.iter() {
                    if remaining_ns < end - start {
                        return start + remaining_ns;
                    }
                    remaining_ns -= end - start;
                }
                spans.last().map_or(0, |&(_, end)| end) + remaining_ns
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Interval, clip};

    #[test]
    fn no_time_passes_between_two_time_slices() {
        let interval = |start_ns, end_ns| Interval { start_ns, end_ns };
        let slices = [interval(0, 100), interval(200, 300), interval(400, u64::MAX)];
        assert_eq!(clip(&slices, &interval(50, 250)), [(50, 100), (200, 250)]);
        // It ended at the start of the third slice, not in the pause after the second.
        assert_eq!(clip(&slices, &interval(50, 400)), [(50, 100), (200, 300), (400, 401)]);
        assert_eq!(clip(&[], &interval(7, 7)), [(7, 8)]);
    }
}
