//! `stream-priority`: tenants are threads of one process with a stream each; the victim's stream
//! has the highest priority, the neighbours' streams have the lowest.
//!
//! A priority is a hint: blocks of higher priority are placed first, and running work is not
//! preempted (CUDA driver API, `cuStreamCreateWithPriority`). It divides nothing: the tenants share
//! SMs, memory, address space and faults, and only their rates are scored.
//!
//! The proof is that NVML lists one process, ours, that the driver has a range of priorities, and
//! that the priorities which the driver reports for the streams are its two ends. A driver without
//! a range gives every stream the same priority without an error.

use gpubench_plan::Availability;
use gpubench_record::Proof;
use gpubench_record::wire::Inside;

use super::green_context::{self, ONE_PROCESS, of_threads};
use super::host::{Guard, HostError};
use super::interface::{About, Requirement};
use super::waivers::whole_device_is_closed;
use super::{
    Configuration, InForce, Mechanism, MechanismContext, MechanismEntry, Observation, TenantEnv,
    TenantObservation, Tenants,
};

#[derive(Debug)]
pub struct StreamPriority;

const ENTRY: MechanismEntry = MechanismEntry {
    name: "stream-priority",
    summary: "threads of one process; the victim's stream has the highest priority, a hint",
    tenants: Tenants::Threads(inside),
    // Threads of one process in both.
    about: About {
        since: "any driver",
        needs: "nothing",
        changes: "nothing",
        proof: "one process, and priorities at both ends of the range of the driver",
        deployed_by: "serving engines, inside one program",
    },
    ..green_context::ENTRY
};

fn inside(slots: usize) -> Vec<Inside> {
    let one = |slot| Inside::StreamPriority { high: slot == 0 };
    (0..slots).map(one).collect()
}

impl Mechanism for StreamPriority {
    fn entry(&self) -> &'static MechanismEntry {
        &ENTRY
    }

    fn availability(&self, cx: &MechanismContext<'_>) -> Availability {
        whole_device_is_closed(cx.facts).unwrap_or(Availability::Available)
    }

    fn configuration(&self, _cx: &MechanismContext<'_>) -> Configuration {
        Configuration::without_setup(&ENTRY, vec![ONE_PROCESS, PRIORITIES])
    }

    fn enter(&self, _cx: &MechanismContext<'_>, _guard: &mut Guard) -> Result<InForce, HostError> {
        Ok(InForce::default())
    }

    fn tenant_env(&self, _: &MechanismContext<'_>, _: &InForce, _slot: usize) -> TenantEnv {
        TenantEnv::new()
    }

    fn prove(&self, _cx: &MechanismContext<'_>, observed: &Observation) -> Vec<Proof> {
        of_threads(observed, priorities)
    }
}

/// The streams have the two ends of the driver's range.
const PRIORITIES: Requirement =
    Requirement::at_open("the victim's stream has the highest priority, the others the lowest");

/// Whether the driver has a range of priorities, and gave the streams its two ends. A lower number
/// is more urgent.
fn priorities(observed: &Observation) -> Proof {
    let figure =
        |t: &TenantObservation, fact: &str| -> Option<i32> { t.facts.get(fact)?.parse().ok() };
    let mut holds = !observed.tenants.is_empty();
    let mut reported = Vec::new();
    for tenant in &observed.tenants {
        let range =
            (figure(tenant, "stream_priority_least"), figure(tenant, "stream_priority_greatest"));
        let has = figure(tenant, "stream_priority");
        let (Some(has), (Some(least), Some(greatest))) = (has, range) else {
            let evidence = format!("{} reported no priority of its stream", tenant.name());
            return PRIORITIES.proof(false, evidence);
        };
        let wanted = if tenant.slot == 0 { greatest } else { least };
        holds &= greatest < least && has == wanted;
        reported.push(format!("{} {has} in {greatest} to {least}", tenant.name()));
    }
    PRIORITIES.proof(holds, reported.join(", "))
}

#[cfg(test)]
mod tests {
    use gpubench_record::Condition;

    use super::priorities;
    use crate::mechanism::{Observation, TenantObservation};

    fn observed(tenants: &[(i32, i32, i32)]) -> Observation {
        let tenant =
            |(slot, &(has, least, greatest)): (usize, &(i32, i32, i32))| TenantObservation {
                slot,
                facts: [
                    ("stream_priority", has),
                    ("stream_priority_least", least),
                    ("stream_priority_greatest", greatest),
                ]
                .map(|(name, value)| (name.to_owned(), value.to_string()))
                .into(),
                ..TenantObservation::default()
            };
        Observation {
            tenants: tenants.iter().enumerate().map(tenant).collect(),
            ..Observation::new(Condition::C, vec![7, 7])
        }
    }

    #[test]
    fn the_streams_must_have_the_ends_of_a_range() {
        for (tenants, expected) in [
            (vec![(-5, 0, -5), (0, 0, -5)], true),
            // The driver clamped both to one priority, or has none.
            (vec![(0, 0, -5), (0, 0, -5)], false),
            (vec![(0, 0, 0), (0, 0, 0)], false),
            (vec![(-5, 0, -5), (-5, 0, -5)], false),
            (vec![(0, 0, -5), (-5, 0, -5)], false),
            (vec![], false),
        ] {
            let proof = priorities(&observed(&tenants));
            assert_eq!(proof.holds, expected, "{proof:?}");
        }
        let mut silent = observed(&[(-5, 0, -5), (0, 0, -5)]);
        silent.tenants[1].facts.clear();
        assert!(!priorities(&silent).holds, "a tenant that reports nothing");
    }
}
