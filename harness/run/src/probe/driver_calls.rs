//! `driver-calls`: the time of driver calls that a starting program makes: alone, beside a
//! neighbour that runs kernels without a pause, and beside one that makes the same calls.

use gpubench_record::probe::step::TimeDriverCalls;
use gpubench_record::{CallTimes, CallTrials, Condition, ProbeFound};

use super::arithmetic::FullDeviceBaseline;
use super::{Probe, Run, VICTIM, step, step_both};
use crate::RunError;
use crate::tenant_set::TenantSet;

pub(super) const DRIVER_CALLS: Probe = Probe {
    name: "driver-calls",
    summary: "how long do creating a context and loading a module take, alone and beside a busy \
              neighbour?",
    sub_axis: "compute/driver",
    runs: &[Run::AgainstBaseline(|tenants, baseline| Box::pin(time(tenants, baseline)))],
    ..super::PROBE
};

/// Of six values the smallest and the largest bound the median with 97 %; up to two may lie outside
/// the neighbour's time.
const CONTEXTS: u32 = 8;
const MODULES: u32 = 30;
/// The neighbour's kernels run this many times longer than the calls took alone, because the
/// neighbour may delay the calls.
const LONGER: u64 = 6;

/// Times the calls in the three situations.
async fn time(
    tenants: &mut TenantSet,
    baseline: &FullDeviceBaseline,
) -> Result<ProbeFound, RunError> {
    tenants.arrange(Condition::C).await?;
    let calls = TimeDriverCalls { contexts: CONTEXTS, modules: MODULES };
    let alone = step(tenants, VICTIM, calls).await?;
    let (from_ns, to_ns) = span(&alone);
    let busy = baseline.requests((to_ns - from_ns).saturating_mul(LONGER).max(1_000_000));
    let (beside_kernels, completed) = step_both(tenants, calls, busy).await?;
    let (beside_calls, neighbours) = step_both(tenants, calls, calls).await?;
    Ok(ProbeFound::CallTrials(CallTrials {
        alone,
        beside_kernels,
        kernels_ns: completed.host_ns,
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
