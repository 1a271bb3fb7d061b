//! The time of driver calls that a starting program makes: alone, beside a neighbour with kernels
//! that run without a pause, and beside one that makes the same calls.

use gpubench_record::{CallTimes, CallTrials, Condition, ProbeAsk, ProbeFound, ProbeTold};

use super::concurrent::probe_both;
use super::share::FullDeviceBaseline;
use super::{NEIGHBOUR, VICTIM, step, unexpected};
use crate::run::RunError;
use crate::run::tenant_set::TenantSet;

/// Of six values the least and the greatest bound the median with 97 %; up to two may lie outside
/// of the neighbour's time.
const CONTEXTS: u32 = 8;
/// Modules load fast.
const MODULES: u32 = 30;
/// The neighbour's kernels go on for longer than the calls took alone, which may be held up.
const LONGER: u64 = 6;

/// Times the calls in the three situations.
pub async fn calls(
    tenants: &mut TenantSet,
    baseline: &FullDeviceBaseline,
) -> Result<ProbeFound, RunError> {
    tenants.arrange(Condition::C).await?;
    let ask = ProbeAsk::Calls {
        contexts: CONTEXTS,
        modules: MODULES,
    };
    let alone = match step(tenants, VICTIM, ask.clone()).await? {
        ProbeTold::Called(times) => times,
        other => return Err(unexpected(tenants, VICTIM, other)),
    };
    let (from_ns, to_ns) = span(&alone);
    let busy = baseline.work((to_ns - from_ns).saturating_mul(LONGER).max(1_000_000));
    let (beside_kernels, kernels_ns) = match probe_both(tenants, &ask, &busy).await? {
        (ProbeTold::Called(times), ProbeTold::Worked(worked)) => (times, worked.host_ns),
        (ProbeTold::Called(_), other) => return Err(unexpected(tenants, NEIGHBOUR, other)),
        (other, _) => return Err(unexpected(tenants, VICTIM, other)),
    };
    let (beside_calls, neighbours) = match probe_both(tenants, &ask, &ask).await? {
        (ProbeTold::Called(times), ProbeTold::Called(neighbours)) => (times, neighbours),
        (ProbeTold::Called(_), other) => return Err(unexpected(tenants, NEIGHBOUR, other)),
        (other, _) => return Err(unexpected(tenants, VICTIM, other)),
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
