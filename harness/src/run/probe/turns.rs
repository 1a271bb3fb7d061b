//! Who runs when: kernels of two tenants watch the device's clock at the same time.

use gpubench_record::{Condition, ProbeAsk, ProbeFound, ProbeTold, TracePair};

use super::pair::together;
use super::{NEIGHBOUR, VICTIM, unexpected};
use crate::run::crew::Crew;
use crate::run::{Run, RunError};

/// Traces: of six values the least and the greatest bound the median with 97 %.
const TRACES: u32 = 6;
/// How long each kernel watches. In virtual time every look costs an interpreter's work.
const WATCH_NS: u64 = 100_000_000;
const WATCH_VIRTUAL_NS: u64 = 24_000_000;
/// Looks further apart than this are a gap: more than ten ticks of a clock that ticks every
/// microsecond, and less than any pause between two turns that was heard of.
const THRESHOLD_NS: u64 = 10_000;

/// Lets two kernels watch the clock, again and again.
pub async fn turns(run: &mut Run, crew: &mut Crew) -> Result<ProbeFound, RunError> {
    crew.arrange(run, Condition::C).await?;
    let watch_ns = if run.setup.clock.is_virtual() {
        WATCH_VIRTUAL_NS
    } else {
        WATCH_NS
    };
    let ask = ProbeAsk::Trace {
        watch_ns,
        threshold_ns: THRESHOLD_NS,
    };
    let (mut traces, mut gaps_lost) = (Vec::new(), 0);
    for _ in 0..TRACES {
        let (victim, neighbour) = together(run, crew, &ask, &ask).await?;
        let mut take = |told: ProbeTold, place| match told {
            ProbeTold::Traced {
                spans_ns,
                gaps_seen,
            } => {
                gaps_lost += (gaps_seen + 1).saturating_sub(spans_ns.len() as u64);
                Ok(spans_ns)
            }
            other => Err(unexpected(crew, place, other)),
        };
        traces.push(TracePair {
            victim_ns: take(victim, VICTIM)?,
            neighbour_ns: take(neighbour, NEIGHBOUR)?,
        });
    }
    Ok(ProbeFound::Turns {
        threshold_ns: THRESHOLD_NS,
        gaps_lost,
        traces,
    })
}
