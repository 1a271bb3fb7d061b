//! `launch-latency`: from the call to the first instruction of a kernel, alone and beside a
//! neighbour at work.
//!
//! The host stamps the call and the device stamps the first instruction. Series of the victim
//! alone, before and afterwards, relate the two clocks.

use gpubench_record::probe::step::TimeLaunches;
use gpubench_record::{Condition, LaunchTrials, ProbeFound};

use super::baseline::{FullDeviceBaseline, span_of};
use super::steps::{step, step_both};
use super::{Probe, Run, VICTIM};
use crate::run::RunError;
use crate::run::tenant_set::TenantSet;

/// The entry of the catalogue.
pub(super) const PROBE: Probe = Probe {
    name: "launch-latency",
    summary: "how long after the call does a kernel begin, alone and beside a busy neighbour?",
    sub_axis: "compute/launch",
    runs: &[Run::AgainstBaseline(|tenants, baseline| Box::pin(launch_latency(tenants, baseline)))],
    ..super::PROBE
};

/// Launches a second: far enough apart that under time-slicing they are independent.
const RATE_PER_S: f64 = 250.0;
/// For how long: a hundred launches bound the median and the 90th percentile.
const WATCH_NS: u64 = 400_000_000;
/// The neighbour works this many times longer than the victim, which it may delay.
const LONGER: u64 = 2;

/// Launches alone, beside the neighbour, and alone again.
async fn launch_latency(
    tenants: &mut TenantSet,
    baseline: &FullDeviceBaseline,
) -> Result<ProbeFound, RunError> {
    tenants.arrange(Condition::C).await?;
    let seed = tenants.handles().setup.plan.seed;
    let before = step(tenants, VICTIM, launches(seed)).await?;
    let busy = baseline.requests(WATCH_NS * LONGER);
    let (beside, completed) = step_both(tenants, launches(seed.wrapping_add(1)), busy).await?;
    let after = step(tenants, VICTIM, launches(seed.wrapping_add(2))).await?;
    Ok(ProbeFound::LaunchLatency(LaunchTrials {
        before,
        beside,
        neighbour_ns: span_of(&completed),
        after,
    }))
}

const fn launches(seed: u64) -> TimeLaunches {
    TimeLaunches { rate_per_s: RATE_PER_S, watch_ns: WATCH_NS, seed }
}
