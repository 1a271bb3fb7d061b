//! `exclusive-process`: the compute mode EXCLUSIVE_PROCESS. The device admits one process and
//! refuses every other with CUDA_ERROR_DEVICE_UNAVAILABLE (46, cuda.h).
//!
//! It shares nothing: it promises that there is no neighbour. Its cells are those of a victim
//! without a neighbour, in which every neighbour requests a context and is refused. Their rate is
//! compared with the native rate, which shows the cost of the mode. Cells beside an aggressor
//! cannot run: their rows are waived with the refusal as the reason.
//!
//! The mode is a setting of the device and needs root; under MIG there is only the default mode.
//! The vendor recommends it for MPS, whose server is one process; MPS does not need it. The proof
//! is the refusal, the mode as NVML reports it while samples are taken, and that NVML lists no
//! process but the victim.

use gpubench_plan::Availability;
use gpubench_record::{Proof, Sharing};

use super::exclusive::{NO_OTHER, no_other_process};
use super::facts::EXCLUSIVE_PROCESS;
use super::host::{Change, Guard, HostError};
use super::interface::{About, Requirement, USUAL};
use super::waivers::{device_is_partitioned, held_by_others, settings_locked, waived};
use super::{
    Configuration, HostFacts, HostStage, InForce, Mechanism, MechanismContext, MechanismEntry,
    Observation, OpeningChecks, TenantEnv,
};

#[derive(Debug)]
pub struct ExclusiveProcess;

/// A process beside the tenants gets no context.
pub(super) const REFUSED: Requirement = Requirement::at_open("a second process is refused with 46");
pub(super) const IN_MODE: Requirement = Requirement::during("the compute mode");
/// `CUDA_ERROR_DEVICE_UNAVAILABLE` (cuda.h).
const DEVICE_UNAVAILABLE: i32 = 46;

const ENTRY: MechanismEntry = MechanismEntry {
    name: "exclusive-process",
    summary: "compute mode EXCLUSIVE_PROCESS: one process is admitted, every other is refused",
    about: About {
        since: "any driver",
        needs: "--allow-reconfigure, root",
        changes: "compute mode",
        proof: "a second process is refused with 46",
        deployed_by: "batch queues that set the compute mode",
    },
    group: "exclusive-process",
    reconfigures: true,
    sharing: Sharing::OneTenant,
    ..USUAL
};

impl Mechanism for ExclusiveProcess {
    fn entry(&self) -> &'static MechanismEntry {
        &ENTRY
    }

    fn availability(&self, cx: &MechanismContext<'_>) -> Availability {
        let facts = cx.facts;
        if let Some(waived) = device_is_partitioned(facts) {
            return waived;
        }
        if cx.profile.tenants < 2 {
            let reason = "with one tenant there is no second one to refuse";
            return waived(reason, Some("tenants = 2"));
        }
        not_settable(facts, "no single process can have it").unwrap_or(Availability::Available)
    }

    fn configuration(&self, cx: &MechanismContext<'_>) -> Configuration {
        Configuration {
            variant: ENTRY.name.to_owned(),
            host_changes: change(cx).into_iter().collect(),
            stage: Some(HostStage { key: ENTRY.name.to_owned(), allows_native: false }),
            checks: OpeningChecks::default(),
            refuses_outsiders: false,
            memory_limit_bytes: None,
            compute_limit: None,
            required: vec![REFUSED, IN_MODE, NO_OTHER],
        }
    }

    fn enter(&self, _cx: &MechanismContext<'_>, guard: &mut Guard) -> Result<InForce, HostError> {
        set(guard)?;
        Ok(InForce::default())
    }

    fn tenant_env(&self, _: &MechanismContext<'_>, _: &InForce, _slot: usize) -> TenantEnv {
        TenantEnv::new()
    }

    fn prove(&self, _cx: &MechanismContext<'_>, observed: &Observation) -> Vec<Proof> {
        if observed.condition.is_native() {
            return Vec::new();
        }
        vec![refused(observed), mode(observed), no_other_process(observed)]
    }
}

/// The waiver where the mode cannot be set. `consequence` is for processes that use the device.
pub(super) fn not_settable(facts: &HostFacts, consequence: &str) -> Option<Availability> {
    if facts.uuid.starts_with("MIG-") {
        return Some(waived("a MIG instance has no compute mode of its own", None));
    }
    let is_set = facts.compute_mode.as_deref() == Some(EXCLUSIVE_PROCESS);
    let locked = if is_set { None } else { settings_locked(facts, "compute mode") };
    locked.or_else(|| held_by_others(facts, consequence))
}

/// The change to the host; `None` if the mode is in force already.
pub(super) fn change(cx: &MechanismContext<'_>) -> Option<String> {
    let is_set = cx.facts.compute_mode.as_deref() == Some(EXCLUSIVE_PROCESS);
    (!is_set).then(|| format!("compute mode of the GPU to {EXCLUSIVE_PROCESS}"))
}

/// Sets the mode, if it is not in force already.
pub(super) fn set(guard: &mut Guard) -> Result<(), HostError> {
    let found = guard.host().compute_mode()?;
    if found != EXCLUSIVE_PROCESS {
        let set = EXCLUSIVE_PROCESS.to_owned();
        guard.make(Change::ComputeMode { found, set })?;
    }
    Ok(())
}

/// Whether every other process was refused, and with the code of this mode.
pub(super) fn refused(observed: &Observation) -> Proof {
    let is_refused = |code: &Option<i32>| *code == Some(DEVICE_UNAVAILABLE);
    let holds = !observed.access_attempts.is_empty()
        && observed.access_attempts.iter().all(|(_, code)| is_refused(code));
    let reported: Vec<String> = observed
        .access_attempts
        .iter()
        .map(|(name, code)| match code {
            Some(code) => format!("{name} was refused with {code}"),
            None => format!("{name} opened a context"),
        })
        .collect();
    let evidence = if reported.is_empty() {
        "no process requested a context".to_owned()
    } else {
        format!("while tenants have the device, {}", reported.join(", "))
    };
    REFUSED.proof(holds, evidence)
}

/// Whether the mode is in force while samples are taken.
pub(super) fn mode(observed: &Observation) -> Proof {
    let reported = observed.compute_mode.as_deref();
    let evidence = format!("NVML reports {}", reported.unwrap_or("none"));
    IN_MODE.proof(reported == Some(EXCLUSIVE_PROCESS), evidence)
}

#[cfg(test)]
mod tests {
    use gpubench_plan::Availability;
    use gpubench_plan::profile::{Overrides, built_in};
    use gpubench_record::Condition;

    use super::{ExclusiveProcess, mode, refused};
    use crate::mechanism::{HostFacts, Mechanism, MechanismContext, Observation};

    fn observed(codes: &[Option<i32>], mode: Option<&str>) -> Observation {
        let named = |(at, code): (usize, &Option<i32>)| (format!("neighbour-{at}"), *code);
        Observation {
            access_attempts: codes.iter().enumerate().map(named).collect(),
            compute_mode: mode.map(str::to_owned),
            ..Observation::new(Condition::S, vec![7])
        }
    }

    #[test]
    fn only_the_refusal_of_every_other_process_is_proof() {
        for (codes, expected) in [
            (vec![Some(46)], true),
            (vec![Some(46), Some(46)], true),
            (vec![Some(46), None], false),
            (vec![Some(2)], false),
            (vec![], false),
        ] {
            let proof = refused(&observed(&codes, None));
            assert_eq!(proof.holds, expected, "{codes:?}");
        }
        for (reported, expected) in
            [(Some("EXCLUSIVE_PROCESS"), true), (Some("DEFAULT"), false), (None, false)]
        {
            assert_eq!(mode(&observed(&[], reported)).holds, expected, "{reported:?}");
        }
    }

    #[test]
    fn every_waiver_has_a_reason_and_a_remedy() -> Result<(), Box<dyn std::error::Error>> {
        let free = HostFacts {
            compute_mode: Some("DEFAULT".to_owned()),
            allow_reconfigure: true,
            may_change_settings: true,
            ..HostFacts::default()
        };
        let of = |facts: &HostFacts| -> Result<Option<(String, String)>, String> {
            let profile = built_in("smoke", &Overrides::default()).map_err(|e| e.to_string())?;
            let profile = &profile;
            Ok(match ExclusiveProcess.availability(&MechanismContext { profile, facts }) {
                Availability::Available => None,
                Availability::Waived { reason, remedy } => {
                    Some((reason, remedy.unwrap_or_default()))
                }
            })
        };
        assert_eq!(of(&free)?, None);
        let set = HostFacts {
            compute_mode: Some("EXCLUSIVE_PROCESS".to_owned()),
            allow_reconfigure: false,
            may_change_settings: false,
            ..free.clone()
        };
        assert_eq!(of(&set)?, None, "it is in force already");
        for (change, reason, remedy) in [
            (
                HostFacts { allow_reconfigure: false, ..free.clone() },
                "device settings (compute mode)",
                "--allow-reconfigure",
            ),
            (HostFacts { may_change_settings: false, ..free.clone() }, "CAP_SYS_ADMIN", "root"),
            (HostFacts { holders: vec![123], ..free.clone() }, "[123]", "end"),
            (HostFacts { mig: Some(true), ..free.clone() }, "MIG mode is on", "nvidia-smi -mig 0"),
        ] {
            let (found, help) = of(&change)?.ok_or(reason)?;
            assert!(found.contains(reason) && help.contains(remedy), "{found}: {help}");
        }
        Ok(())
    }
}
