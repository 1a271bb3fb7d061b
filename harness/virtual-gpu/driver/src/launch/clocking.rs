//! The clock of a launch: `%globaltimer` over the spans in which it ran.

use crate::code::Code;
use crate::process::Process;
use gpubench_virtual_gpu_model::state::Interval;
use gpubench_virtual_gpu_ptx::Timer;

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
