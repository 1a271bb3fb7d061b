//! `time-slicing-capped`: contexts take turns as under `time-slicing`, and the memory of each
//! tenant is limited by memory accounting of an MPS daemon (driver 615, CUDA 13.4).
//!
//! The daemon applies a configuration file with the feature `memacct` on and `context-share` off,
//! so that its clients keep contexts of their own (MPS documentation, release 615, "MPS v3
//! Configuration File"). kai-gpu-fractioning, the node component of the KAI scheduler, deploys this
//! form by default. The option `by` selects what sets a tenant's limit, as for `mps-memory`.
//!
//! The proof is that NVML lists each tenant as a compute process of its own, that the kernels of
//! victim and neighbour, launched at the same time, never ran at the same time, and that an
//! allocation beyond the limit is refused.

use gpubench_plan::Availability;
use gpubench_record::{Proof, Sharing};

use super::host::{Guard, HostError};
use super::interface::{About, MEMORY_PCT, Requirement, USUAL};
use super::mps_memory::{BY, LimitedMemory};
use super::waivers::sharing_is_off;
use super::{
    Configuration, HostStage, InForce, Mechanism, MechanismContext, MechanismEntry, Observation,
    OpeningChecks, TenantEnv, mps, time_slicing,
};

#[derive(Debug)]
pub struct TimeSlicingCapped;

const ENTRY: MechanismEntry = MechanismEntry {
    name: "time-slicing-capped",
    summary: "time slices, with the memory of each process limited by the MPS daemon's accounting",
    about: About {
        since: "driver 615, CUDA 13.4",
        needs: "compute capability 8.0; root for by = \"cgroup\"",
        changes: "an MPS daemon, control groups",
        proof: "kernels of two tenants never run at once; an allocation beyond the cap is refused",
        deployed_by: "kai-gpu-fractioning of the KAI scheduler, its default mode",
    },
    group: "time-slicing-capped",
    options: &[MEMORY_PCT, BY],
    sharing: Sharing::InTime,
    // The daemon accounts for memory and serves no context, so its faults end no tenant.
    ..USUAL
};

impl Mechanism for TimeSlicingCapped {
    fn entry(&self) -> &'static MechanismEntry {
        &ENTRY
    }

    fn availability(&self, cx: &MechanismContext<'_>) -> Availability {
        let waiver = limited(cx).waiver(cx).or_else(|| sharing_is_off(cx.facts));
        waiver.or_else(|| mps::daemon_available(cx)).unwrap_or(Availability::Available)
    }

    fn configuration(&self, cx: &MechanismContext<'_>) -> Configuration {
        let limited = limited(cx);
        let variant = format!("{}[{}]", ENTRY.name, limited.parts().join(","));
        let daemon = [mps::DAEMON.to_owned()];
        Configuration {
            variant: variant.clone(),
            host_changes: daemon.into_iter().chain(limited.change(cx)).collect(),
            stage: Some(HostStage { key: variant, allows_native: true }),
            checks: OpeningChecks {
                over_limit_bytes: limited.over_limit_bytes(cx),
                time_slices: traces(cx),
                ..OpeningChecks::default()
            },
            refuses_outsiders: false,
            memory_limit_bytes: limited.mib(cx).map(|mib| mib << 20),
            compute_limit: None,
            required: required(cx),
        }
    }

    fn enter(&self, cx: &MechanismContext<'_>, guard: &mut Guard) -> Result<InForce, HostError> {
        limited(cx).enter(cx, guard)
    }

    fn tenant_env(&self, cx: &MechanismContext<'_>, set_up: &InForce, slot: usize) -> TenantEnv {
        limited(cx).tenant_env(set_up, slot)
    }

    fn prove(&self, cx: &MechanismContext<'_>, observed: &Observation) -> Vec<Proof> {
        let Some(own) = time_slicing::prove(observed) else {
            return Vec::new();
        };
        let turns = take_turns(observed).filter(|_| traces(cx));
        let proofs = [own].into_iter().chain(turns);
        proofs.chain(limited(cx).proofs(cx, observed)).collect()
    }
}

fn limited<'a>(cx: &MechanismContext<'a>) -> LimitedMemory<'a> {
    LimitedMemory { options: &cx.profile.time_slicing_capped, entry: &ENTRY, shares: false }
}

/// Whether two tenants can trace their time slices: a user's program does not.
fn traces(cx: &MechanismContext<'_>) -> bool {
    cx.profile.tenants > 1 && cx.profile.user_victim.victim().is_none()
}

const TURNS: Requirement =
    Requirement::once("kernels of victim and neighbour never run at the same time");

fn required(cx: &MechanismContext<'_>) -> Vec<Requirement> {
    let turns = traces(cx).then_some(TURNS);
    let contexts = [time_slicing::OWN_CONTEXTS].into_iter().chain(turns);
    contexts.chain(limited(cx).required(cx)).collect()
}

/// The largest share of their common time that both kernels may seem to have run: a block that is
/// preempted has read the clock before.
const OVERLAP_MAX: f64 = 0.01;

/// Whether the traced kernels of two tenants took turns.
fn take_turns(observed: &Observation) -> Option<Proof> {
    let mut traced = observed.tenants.iter().filter_map(|tenant| tenant.spans_ns.as_deref());
    let (victim, neighbour) = (traced.next()?, traced.next()?);
    let window = |spans: &[(u64, u64)]| Some((spans.first()?.0, spans.last()?.1));
    let both = |a: (u64, u64), b: (u64, u64)| a.1.min(b.1).saturating_sub(a.0.max(b.0));
    let common = window(victim).zip(window(neighbour)).map_or(0, |(a, b)| both(a, b));
    let pairs = victim.iter().flat_map(|a| neighbour.iter().map(|b| both(*a, *b)));
    let overlap: u64 = pairs.sum();
    let holds = common > 0 && overlap as f64 <= OVERLAP_MAX * common as f64;
    let us = |ns: u64| ns / 1_000;
    let slices = victim.len() + neighbour.len();
    let evidence = format!(
        "both ran in {} us of the {} us that both kernels took, in {slices} slices",
        us(overlap),
        us(common)
    );
    Some(TURNS.proof(holds, evidence))
}

#[cfg(test)]
mod tests {
    use gpubench_record::Condition;

    use super::take_turns;
    use crate::mechanism::{Observation, TenantObservation};

    #[test]
    fn kernels_that_run_at_the_same_time_take_no_turns() {
        let turns = vec![(0, 2_000), (4_000, 6_000)];
        for (spans, expected) in [
            (Some(vec![(2_010, 3_990), (6_010, 8_000)]), Some(true)),
            (Some(vec![(1_990, 4_000), (6_000, 8_000)]), Some(true)),
            (Some(vec![(1_000, 4_000)]), Some(false)),
            (Some(vec![(0, 8_000)]), Some(false)),
            // One ran when the other had ended: that shows no turns.
            (Some(vec![(6_000, 9_000)]), Some(false)),
            (Some(vec![]), Some(false)),
            (None, None),
        ] {
            let tenant = |spans_ns| TenantObservation { spans_ns, ..TenantObservation::default() };
            let observed = Observation {
                tenants: vec![tenant(Some(turns.clone())), tenant(spans)],
                ..Observation::new(Condition::C, vec![7, 8])
            };
            let holds = take_turns(&observed).map(|proof| proof.holds);
            assert_eq!(holds, expected, "{observed:?}");
        }
    }
}
