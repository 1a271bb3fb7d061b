//! `out-of-memory`: a tenant runs out of memory beside a neighbour that keeps launching.

use gpubench_record::probe::step::{ExhaustMemory, TimeLaunches};
use gpubench_record::{Condition, ExhaustTrial, ProbeFound};

use super::memory_limit::device_bytes;
use super::steps::step_both;
use super::{Probe, Run};
use crate::run::RunError;
use crate::run::tenant_set::TenantSet;

/// The entry of the catalogue.
pub(super) const PROBE: Probe = Probe {
    name: "out-of-memory",
    summary: "when a tenant runs out of memory, which refusal does it get, does its context still \
              work, and do its neighbours?",
    sub_axis: "memory/capacity",
    runs: &[Run::Tenants(|tenants| Box::pin(out_of_memory(tenants)))],
    ..super::PROBE
};

/// Of six values the smallest and the largest bound the median with 97 %.
const TRIALS: u32 = 6;
/// The neighbour's launches a second, and for how long.
const RATE_PER_S: f64 = 500.0;
const WATCH_NS: u64 = 50_000_000;

/// Exhausts the victim's memory once in each trial.
async fn out_of_memory(tenants: &mut TenantSet) -> Result<ProbeFound, RunError> {
    tenants.arrange(Condition::C).await?;
    let exhaust = ExhaustMemory { max_bytes: device_bytes(tenants) };
    let seed = tenants.handles().setup.plan.seed;
    let mut trials = Vec::new();
    for number in 0..TRIALS {
        let launches = TimeLaunches {
            rate_per_s: RATE_PER_S,
            watch_ns: WATCH_NS,
            seed: seed.wrapping_add(number.into()),
        };
        match step_both(tenants, exhaust, launches).await {
            Ok((tenant, stamps)) => trials.push(ExhaustTrial {
                tenant: Some(tenant),
                neighbour_served: Some(stamps.len() as u32),
            }),
            // A dead tenant is a finding; the next trial needs new tenants.
            Err(RunError::Tenant(_)) => {
                trials.push(ExhaustTrial::default());
                tenants.arrange(Condition::C).await?;
            }
            Err(other) => return Err(other),
        }
    }
    Ok(ProbeFound::OutOfMemory { trials })
}
