//! From the call to the first instruction of a kernel, alone and beside a neighbour at work.
//!
//! The call is stamped by the host and the first instruction by the device; the victim alone,
//! before and afterwards, gives what relates the two clocks.

use gpubench_record::{Condition, LaunchStamp, LaunchTrials, ProbeAsk, ProbeFound, ProbeTold};

use super::concurrent::probe_both;
use super::share::FullDeviceBaseline;
use super::{NEIGHBOUR, VICTIM, step, unexpected};
use crate::run::RunError;
use crate::run::tenant_set::TenantSet;

/// Launches a second: far enough apart that under turns each finds the device as it is.
const RATE_PER_S: f64 = 250.0;
/// For how long: a hundred launches bound the median and the 90th percentile.
const WATCH_NS: u64 = 400_000_000;
/// The neighbour goes on for longer than the victim, which may be held up.
const LONGER: u64 = 2;

/// Launches alone, beside the neighbour, and alone again.
pub async fn launches(
    tenants: &mut TenantSet,
    baseline: &FullDeviceBaseline,
) -> Result<ProbeFound, RunError> {
    tenants.arrange(Condition::C).await?;
    let seed = tenants.handles().setup.plan.seed;
    let before = alone(tenants, seed).await?;
    let busy = baseline.work(WATCH_NS * LONGER);
    let told = probe_both(tenants, &ask(seed.wrapping_add(1)), &busy).await?;
    let (beside, worked) = match told {
        (ProbeTold::Launched { stamps }, ProbeTold::Worked(worked)) => (stamps, worked),
        (ProbeTold::Launched { .. }, other) => return Err(unexpected(tenants, NEIGHBOUR, other)),
        (other, _) => return Err(unexpected(tenants, VICTIM, other)),
    };
    let after = alone(tenants, seed.wrapping_add(2)).await?;
    let last = worked.ended_ns.last().copied().unwrap_or(0);
    Ok(ProbeFound::Launch(LaunchTrials {
        before,
        beside,
        neighbour_ns: (worked.began_ns, worked.began_ns + last),
        after,
    }))
}

const fn ask(seed: u64) -> ProbeAsk {
    ProbeAsk::Launches {
        rate_per_s: RATE_PER_S,
        watch_ns: WATCH_NS,
        seed,
    }
}

async fn alone(tenants: &mut TenantSet, seed: u64) -> Result<Vec<LaunchStamp>, RunError> {
    match step(tenants, VICTIM, ask(seed)).await? {
        ProbeTold::Launched { stamps } => Ok(stamps),
        other => Err(unexpected(tenants, VICTIM, other)),
    }
}
