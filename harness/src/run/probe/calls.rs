//! What calls of the driver take that a starting program makes: alone, beside a neighbour whose
//! kernels run without a pause, and beside one that makes the same calls.

use gpubench_record::{CallTimes, CallTrials, Condition, ProbeAsk, ProbeFound, ProbeTold};

use super::pair::together;
use super::share::Yardstick;
use super::{NEIGHBOUR, VICTIM, step, unexpected};
use crate::run::crew::Crew;
use crate::run::{Run, RunError};

/// Of six values the least and the greatest bound the median with 97 %; up to two may lie outside
/// of the neighbour's time.
const CONTEXTS: u32 = 8;
/// Modules load fast.
const MODULES: u32 = 30;
/// The neighbour's kernels go on for longer than the calls took alone, which may be held up.
const LONGER: u64 = 6;

/// Times the calls in the three situations.
pub async fn calls(
    run: &mut Run,
    crew: &mut Crew,
    yardstick: &Yardstick,
) -> Result<ProbeFound, RunError> {
    crew.arrange(run, Condition::C).await?;
    let ask = ProbeAsk::Calls {
        contexts: CONTEXTS,
        modules: MODULES,
    };
    let alone = match step(run, crew, VICTIM, ask.clone()).await? {
        ProbeTold::Called(times) => times,
        other => return Err(unexpected(crew, VICTIM, other)),
    };
    let (from_ns, to_ns) = span(&alone);
    let busy = yardstick.work((to_ns - from_ns).saturating_mul(LONGER).max(1_000_000));
    let (beside_kernels, kernels_ns) = match together(run, crew, &ask, &busy).await? {
        (ProbeTold::Called(times), ProbeTold::Worked(worked)) => (times, worked.host_ns),
        (ProbeTold::Called(_), other) => return Err(unexpected(crew, NEIGHBOUR, other)),
        (other, _) => return Err(unexpected(crew, VICTIM, other)),
    };
    let (beside_calls, neighbours) = match together(run, crew, &ask, &ask).await? {
        (ProbeTold::Called(times), ProbeTold::Called(neighbours)) => (times, neighbours),
        (ProbeTold::Called(_), other) => return Err(unexpected(crew, NEIGHBOUR, other)),
        (other, _) => return Err(unexpected(crew, VICTIM, other)),
    };
    Ok(ProbeFound::Calls(CallTrials {
        alone,
        beside_kernels,
        kernels_ns,
        beside_calls,
        calls_ns: span(&neighbours),
    }))
}

/// From the first call to the last.
fn span(times: &CallTimes) -> (u64, u64) {
    let all = || times.contexts_ns.iter().chain(&times.modules_ns);
    let from = all().map(|call| call.0).min().unwrap_or(0);
    (from, all().map(|call| call.1).max().unwrap_or(from))
}
