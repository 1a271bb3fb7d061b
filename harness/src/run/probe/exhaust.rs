//! A tenant runs out of memory beside a neighbour that goes on launching.

use gpubench_record::{Condition, ExhaustTrial, ProbeAsk, ProbeFound, ProbeTold};

use super::concurrent::probe_both;
use super::memory_limit::device_bytes;
use super::{NEIGHBOUR, VICTIM, unexpected};
use crate::run::RunError;
use crate::run::tenant_set::TenantSet;

/// Times that memory runs out: of six values the least and the greatest bound the median with 97 %.
const TRIALS: u32 = 6;
/// Launches of the neighbour's a second, and for how long.
const RATE_PER_S: f64 = 500.0;
const WATCH_NS: u64 = 50_000_000;

/// Has the victim run out of memory, again and again.
pub async fn exhaust(tenants: &mut TenantSet) -> Result<ProbeFound, RunError> {
    tenants.arrange(Condition::C).await?;
    let take = ProbeAsk::Exhaust {
        most_bytes: device_bytes(tenants),
    };
    let mut trials = Vec::new();
    for number in 0..TRIALS {
        let launch = ProbeAsk::Launches {
            rate_per_s: RATE_PER_S,
            watch_ns: WATCH_NS,
            seed: tenants
                .handles()
                .setup
                .plan
                .seed
                .wrapping_add(number.into()),
        };
        let told = match probe_both(tenants, &take, &launch).await {
            Ok(told) => told,
            // A tenant that died is a finding; the next trial needs fresh ones.
            Err(RunError::Tenant(_)) => {
                trials.push(ExhaustTrial::default());
                tenants.arrange(Condition::C).await?;
                continue;
            }
            Err(other) => return Err(other),
        };
        let (tenant, served) = match told {
            (ProbeTold::Exhausted(tenant), ProbeTold::Launched { stamps }) => {
                (tenant, stamps.len() as u32)
            }
            (ProbeTold::Exhausted(_), other) => return Err(unexpected(tenants, NEIGHBOUR, other)),
            (other, _) => return Err(unexpected(tenants, VICTIM, other)),
        };
        trials.push(ExhaustTrial {
            tenant: Some(tenant),
            neighbour_served: Some(served),
        });
    }
    Ok(ProbeFound::Exhaust { trials })
}
