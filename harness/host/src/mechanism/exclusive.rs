//! `exclusive`: one tenant has the whole GPU. The reference, not a mechanism under test.
//!
//! Nothing is set up. The proof is that NVML lists no other process on the device. While MIG mode
//! is on, no process has the whole device, so there is no reference.

use gpubench_plan::Availability;
use gpubench_record::{Proof, Sharing, counted};

use super::host::{Guard, HostError};
use super::interface::{About, Requirement, USUAL};
use super::waivers::whole_device_is_closed;
use super::{
    Configuration, InForce, Mechanism, MechanismContext, MechanismEntry, Observation, TenantEnv,
};

#[derive(Debug)]
pub struct Exclusive;

const ENTRY: MechanismEntry = MechanismEntry {
    name: "exclusive",
    summary: "one tenant has the whole GPU: the reference that every mechanism is compared with",
    about: About {
        since: "any driver",
        needs: "nothing",
        changes: "nothing",
        proof: "NVML lists no other process",
        deployed_by: "a pod with a whole nvidia.com/gpu",
    },
    group: "plain",
    sharing: Sharing::Reference,
    ..USUAL
};

impl Mechanism for Exclusive {
    fn entry(&self) -> &'static MechanismEntry {
        &ENTRY
    }

    fn availability(&self, cx: &MechanismContext<'_>) -> Availability {
        whole_device_is_closed(cx.facts).unwrap_or(Availability::Available)
    }

    fn configuration(&self, cx: &MechanismContext<'_>) -> Configuration {
        // `plan` says that others cannot be seen.
        let lists = cx.facts.holders_problem.is_none();
        Configuration::without_setup(&ENTRY, vec![if lists { NO_OTHER } else { NONE_OF_OURS }])
    }

    fn enter(&self, _cx: &MechanismContext<'_>, _guard: &mut Guard) -> Result<InForce, HostError> {
        Ok(InForce::default())
    }

    fn tenant_env(&self, _: &MechanismContext<'_>, _: &InForce, _slot: usize) -> TenantEnv {
        TenantEnv::new()
    }

    fn prove(&self, cx: &MechanismContext<'_>, observed: &Observation) -> Vec<Proof> {
        if observed.condition.is_native() && cx.facts.holders_problem.is_some() {
            return vec![none_of_ours(observed)];
        }
        prove(observed).into_iter().collect()
    }
}

fn prove(observed: &Observation) -> Option<Proof> {
    observed.condition.is_native().then(|| no_other_process(observed))
}

/// What is known where NVML lists no processes.
const NONE_OF_OURS: Requirement =
    Requirement::during("no tenant of ours but the victim has a context");

fn none_of_ours(observed: &Observation) -> Proof {
    let mut own = observed.ours.clone();
    own.dedup();
    let evidence = format!(
        "ours with a context: {own:?}; NVML lists no processes, so of others nothing is known"
    );
    NONE_OF_OURS.proof(own.len() == 1, evidence)
}

/// NVML lists no process but the victim.
pub(super) const NO_OTHER: Requirement = Requirement::during("processes on the device");

/// Whether NVML lists no process but the victim.
pub(super) fn no_other_process(observed: &Observation) -> Proof {
    let (holds, evidence) = match (&observed.listed, observed.other_processes()) {
        (None, _) => (false, "NVML does not list the device's processes".to_owned()),
        (Some(listed), _) if listed.is_empty() => (
            false,
            "NVML lists no process at all: the victim has no context on the device".to_owned(),
        ),
        (Some(listed), None) => {
            let mut own = [observed.ours.as_slice(), &observed.services].concat();
            own.sort_unstable();
            own.dedup();
            (
                listed.len() == own.len(),
                format!(
                    "NVML lists {} with ids of another PID namespace, which do not show \
                     which are ours; we have {}",
                    counted(listed.len(), "process"),
                    own.len()
                ),
            )
        }
        (Some(_), Some(other_processes)) if other_processes.is_empty() => {
            let idle = if observed.services.is_empty() {
                String::new()
            } else {
                format!(" and our idle MPS server {:?}", observed.services)
            };
            let evidence =
                format!("NVML lists no process but the victim {:?}{idle}", observed.ours);
            (true, evidence)
        }
        (Some(_), Some(other_processes)) => {
            (false, format!("NVML lists other processes: {other_processes:?}"))
        }
    };
    NO_OTHER.proof(holds, evidence)
}

#[cfg(test)]
mod tests {
    use gpubench_record::Condition;

    use super::prove;
    use crate::mechanism::Observation;

    #[test]
    fn only_a_list_with_no_process_but_the_victim_is_proof() {
        for (condition, listed, expected) in [
            (Condition::N, Some(vec![7]), Some(true)),
            (Condition::N, Some(vec![7, 8]), Some(false)),
            (Condition::NAgain, Some(vec![31_000]), Some(true)),
            (Condition::N, Some(vec![]), Some(false)),
            (Condition::N, None, Some(false)),
            (Condition::C, Some(vec![7]), None),
        ] {
            let observed = Observation { listed, ..Observation::new(condition, vec![7]) };
            assert_eq!(prove(&observed).map(|proof| proof.holds), expected, "{observed:?}");
        }
    }
}
