//! `exclusive-process`: the compute mode EXCLUSIVE_PROCESS, in which the device lets one process in
//! and refuses every other with CUDA_ERROR_DEVICE_UNAVAILABLE (46, cuda.h).
//!
//! It shares nothing: what it promises is that there is no neighbour. Its cells are therefore those
//! of a victim alone, in which every neighbour asks for a context and is refused. Their rate is
//! compared with the native one, so that a cost of the mode itself would show.
//! Cells beside an aggressor cannot be: their rows are waived with the refusal as the reason.
//!
//! The mode is the device's and takes the rights of the system's administrator; under MIG there is
//! only the default one. It is recommended for MPS, whose server is one process, and MPS does not
//! need it. The proof is the refusal itself, the mode as NVML reports it while samples are taken,
//! and that NVML lists no process but the victim.

use gpubench_record::{Proof, Sharing, SmNumbers};

use super::exclusive::alone;
use super::host::{Change, Guard, HostError};
use super::observation::proof_of;
use super::waivers::{device_is_cut, held_by_others, settings_locked, waived};
use super::{
    Configuration, HostFacts, HostStage, InForce, Mechanism, MechanismContext, MechanismEntry,
    Observation, OpeningChecks, TenantEnv, Tenants,
};
use crate::plan::Availability;

/// See the module.
#[derive(Debug)]
pub struct ExclusiveProcess;

/// The mode, by the vendor's word.
pub(super) const MODE: &str = "EXCLUSIVE_PROCESS";
/// `CUDA_ERROR_DEVICE_UNAVAILABLE` (cuda.h).
const DEVICE_UNAVAILABLE: i32 = 46;

/// What is known of it without a host.
const ENTRY: MechanismEntry = MechanismEntry {
    name: "exclusive-process",
    summary: "compute mode EXCLUSIVE_PROCESS: the first process in keeps every other out",
    group: "exclusive-process",
    reconfigures: true,
    options: &[],
    sharing: Sharing::OneTenant,
    tenants: Tenants::Processes,
    mps_daemon: false,
    accounting_library: false,
    sm_numbers: SmNumbers::OfDevice,
    settles_ns: 0,
    unprotected: None,
};

impl Mechanism for ExclusiveProcess {
    fn entry(&self) -> &'static MechanismEntry {
        &ENTRY
    }

    fn availability(&self, cx: &MechanismContext<'_>) -> Availability {
        let facts = cx.facts;
        if let Some(waived) = device_is_cut(facts) {
            return waived;
        }
        if cx.profile.tenants < 2 {
            let reason = "no second tenant could be refused: tenants is 1";
            return waived(reason, Some("tenants = 2"));
        }
        not_settable(facts, "one process cannot have it alone").unwrap_or(Availability::Available)
    }

    fn configuration(&self, cx: &MechanismContext<'_>) -> Configuration {
        Configuration {
            variant: ENTRY.name.to_owned(),
            host_changes: change(cx).into_iter().collect(),
            stage: Some(HostStage {
                key: ENTRY.name.to_owned(),
                allows_native: false,
            }),
            checks: OpeningChecks::default(),
            refuses_outsiders: false,
            memory_limit_bytes: None,
            compute_limit: None,
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
        vec![refused(observed), mode(observed), alone(observed)]
    }
}

/// Why the mode cannot be in force, and what comes of those who are there; nothing if it can.
pub(super) fn not_settable(facts: &HostFacts, consequence: &str) -> Option<Availability> {
    let is_set = facts.compute_mode.as_deref() == Some(MODE);
    let locked = if is_set {
        None
    } else {
        settings_locked(facts, "compute mode")
    };
    locked.or_else(|| held_by_others(facts, consequence))
}

/// What setting the mode changes on the host; nothing where it is in force already.
pub(super) fn change(cx: &MechanismContext<'_>) -> Option<String> {
    let is_set = cx.facts.compute_mode.as_deref() == Some(MODE);
    (!is_set).then(|| format!("compute mode of the GPU to {MODE}"))
}

/// Sets the mode, if it is not in force already.
pub(super) fn set(guard: &mut Guard) -> Result<(), HostError> {
    let found = guard.host().compute_mode()?;
    if found != MODE {
        let set = MODE.to_owned();
        guard.make(Change::ComputeMode { found, set })?;
    }
    Ok(())
}

/// Whether every other process was refused, and with the code of this mode.
pub(super) fn refused(observed: &Observation) -> Proof {
    let turned_away = |code: &Option<i32>| *code == Some(DEVICE_UNAVAILABLE);
    let holds = !observed.access_attempts.is_empty()
        && observed
            .access_attempts
            .iter()
            .all(|(_, code)| turned_away(code));
    let reported: Vec<String> = observed
        .access_attempts
        .iter()
        .map(|(name, code)| match code {
            Some(code) => format!("{name} was refused with {code}"),
            None => format!("{name} got a context"),
        })
        .collect();
    let evidence = if reported.is_empty() {
        "no process asked for a context".to_owned()
    } else {
        format!("while tenants have the device, {}", reported.join(", "))
    };
    proof_of("a second process is refused with 46", holds, evidence)
}

/// Whether the mode is in force while samples are taken.
pub(super) fn mode(observed: &Observation) -> Proof {
    let reported = observed.compute_mode.as_deref();
    let evidence = format!("NVML tells {}", reported.unwrap_or("nothing"));
    proof_of("the compute mode", reported == Some(MODE), evidence)
}

#[cfg(test)]
mod tests {
    use super::{ExclusiveProcess, mode, refused};
    use crate::mechanism::{HostFacts, Mechanism, MechanismContext, Observation};
    use crate::plan::Availability;
    use crate::profile::{Overrides, load};
    use gpubench_record::Condition;

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
        for (reported, expected) in [
            (Some("EXCLUSIVE_PROCESS"), true),
            (Some("DEFAULT"), false),
            (None, false),
        ] {
            assert_eq!(
                mode(&observed(&[], reported)).holds,
                expected,
                "{reported:?}"
            );
        }
    }

    #[test]
    fn each_thing_in_its_way_is_named_with_its_remedy() -> Result<(), Box<dyn std::error::Error>> {
        let free = HostFacts {
            compute_mode: Some("DEFAULT".to_owned()),
            allow_reconfigure: true,
            may_change_settings: true,
            ..HostFacts::default()
        };
        let of = |facts: &HostFacts| -> Result<Option<(String, String)>, String> {
            let profile = load("smoke", &Overrides::default()).map_err(|e| e.to_string())?;
            let profile = &profile;
            Ok(
                match ExclusiveProcess.availability(&MechanismContext { profile, facts }) {
                    Availability::Available => None,
                    Availability::Waived { reason, remedy } => {
                        Some((reason, remedy.unwrap_or_default()))
                    }
                },
            )
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
                HostFacts {
                    allow_reconfigure: false,
                    ..free.clone()
                },
                "device settings (compute mode)",
                "--allow-reconfigure",
            ),
            (
                HostFacts {
                    may_change_settings: false,
                    ..free.clone()
                },
                "CAP_SYS_ADMIN",
                "root",
            ),
            (
                HostFacts {
                    holders: vec![123],
                    ..free.clone()
                },
                "[123]",
                "end",
            ),
            (
                HostFacts {
                    mig: Some(true),
                    ..free.clone()
                },
                "MIG mode is on",
                "nvidia-smi -mig 0",
            ),
        ] {
            let (found, way) = of(&change)?.ok_or(reason)?;
            assert!(
                found.contains(reason) && way.contains(remedy),
                "{found}: {way}"
            );
        }
        Ok(())
    }
}
