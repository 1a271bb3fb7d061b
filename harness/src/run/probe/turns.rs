//! Who runs when: kernels of two tenants watch the device's clock at the same time.

use gpubench_record::{
    Condition, FromTenant, ProbeAsk, ProbeFound, ProbeTold, ToTenant, TracePair,
};

use super::{NEIGHBOUR, STEP, VICTIM};
use crate::run::crew::{Crew, note_end};
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
        let mut pair = both(run, crew, &ToTenant::Probe { ask: ask.clone() }).await?;
        let mut take = |spans: &mut Vec<(u64, u64)>, place| match pair.remove(0) {
            FromTenant::Probed {
                told:
                    ProbeTold::Traced {
                        spans_ns,
                        gaps_seen,
                    },
            } => {
                gaps_lost += (gaps_seen + 1).saturating_sub(spans_ns.len() as u64);
                *spans = spans_ns;
                Ok(())
            }
            other => Err(crew.unexpected(place, &other)),
        };
        let mut trace = TracePair::default();
        take(&mut trace.victim_ns, VICTIM)?;
        take(&mut trace.neighbour_ns, NEIGHBOUR)?;
        traces.push(trace);
    }
    Ok(ProbeFound::Turns {
        threshold_ns: THRESHOLD_NS,
        gaps_lost,
        traces,
    })
}

/// Asks victim and neighbour the same at the same time; their answers in this order.
async fn both(
    run: &mut Run,
    crew: &mut Crew,
    message: &ToTenant,
) -> Result<Vec<FromTenant>, RunError> {
    let mut tenants = crew.take(&[VICTIM, NEIGHBOUR]);
    // In virtual time nobody begins before both have been heard of.
    for (_, tenant) in &tenants {
        run.setup.clock.expect(tenant.participants().issuer)?;
    }
    let mut sent = Vec::new();
    for (_, tenant) in &mut tenants {
        sent.push(tenant.send(message).await);
    }
    let (mut answers, mut failure) = (Vec::new(), None);
    for ((place, mut tenant), sent) in tenants.into_iter().zip(sent) {
        let answer = match sent {
            Ok(()) => tenant.receive("tracing its turns", STEP).await,
            Err(error) => Err(error),
        };
        // One that answered without touching the device never joined.
        run.setup.clock.abandon(tenant.participants())?;
        match answer {
            Ok(answer) => {
                answers.push(answer);
                crew.put_back(place, tenant);
            }
            Err(error) => {
                note_end(run, tenant, &error).await?;
                failure.get_or_insert(error);
            }
        }
    }
    match failure {
        Some(error) => Err(error.into()),
        None => Ok(answers),
    }
}
