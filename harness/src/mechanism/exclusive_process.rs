//! `exclusive-process`: the compute mode EXCLUSIVE_PROCESS, in which the device lets one process in
//! and refuses every other with CUDA_ERROR_DEVICE_UNAVAILABLE (46, cuda.h).
//!
//! It shares nothing: what it promises is that there is no neighbour. Its cells are therefore those
//! of a victim alone, in which every neighbour asks for a context and is turned away, and the rate
//! of these cells is held against the native one, so that a cost of the mode itself would show.
//! Cells beside an aggressor cannot be: their rows are waived with the refusal as the reason.
//!
//! The mode is the device's and takes the rights of the system's administrator; under MIG there is
//! only the default one. It is recommended for MPS, whose server is one process, and MPS does not
//! need it. The proof is the refusal itself, the mode as NVML tells it while samples are taken, and
//! that NVML lists nobody but the victim.

use gpubench_record::Proof;

use super::exclusive::alone;
use super::host::{Change, Guard, HostError};
use super::{Asked, HostFacts, InForce, Mechanism, Seen, Stage, observed};
use super::{device_is_cut, held_by_others, settings_locked, waived};
use crate::plan::Availability;

/// See the module.
#[derive(Debug)]
pub struct ExclusiveProcess;

/// The mode, by the vendor's word.
pub(super) const MODE: &str = "EXCLUSIVE_PROCESS";
/// `CUDA_ERROR_DEVICE_UNAVAILABLE` (cuda.h).
const DEVICE_UNAVAILABLE: i32 = 46;

impl Mechanism for ExclusiveProcess {
    fn name(&self) -> &'static str {
        "exclusive-process"
    }

    fn availability(&self, asked: &Asked<'_>) -> Availability {
        let facts = asked.facts;
        if let Some(waived) = device_is_cut(facts) {
            return waived;
        }
        if asked.profile.tenants < 2 {
            let reason = "nobody is there to be refused: tenants is 1";
            return waived(reason, Some("tenants = 2"));
        }
        not_settable(facts, "nobody can have it alone").unwrap_or(Availability::Available)
    }

    fn host_changes(&self, asked: &Asked<'_>) -> Vec<String> {
        change(asked).into_iter().collect()
    }

    fn stage(&self, _asked: &Asked<'_>) -> Option<Stage> {
        Some(Stage {
            key: self.name().to_owned(),
            plain_too: false,
        })
    }

    fn enter(&self, _asked: &Asked<'_>, guard: &mut Guard) -> Result<InForce, HostError> {
        set(guard)?;
        Ok(InForce::default())
    }

    fn turns_away(&self) -> bool {
        true
    }

    fn prove(&self, _asked: &Asked<'_>, seen: &Seen) -> Vec<Proof> {
        if seen.condition.is_native() {
            return Vec::new();
        }
        vec![refused(seen), mode(seen), alone(seen)]
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
pub(super) fn change(asked: &Asked<'_>) -> Option<String> {
    let is_set = asked.facts.compute_mode.as_deref() == Some(MODE);
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

/// Whether everybody else was turned away, and with the code that stands for it.
pub(super) fn refused(seen: &Seen) -> Proof {
    let turned_away = |code: &Option<i32>| *code == Some(DEVICE_UNAVAILABLE);
    let holds = !seen.knocks.is_empty() && seen.knocks.iter().all(|(_, code)| turned_away(code));
    let told: Vec<String> = seen
        .knocks
        .iter()
        .map(|(name, code)| match code {
            Some(code) => format!("{name} was refused with {code}"),
            None => format!("{name} got a context"),
        })
        .collect();
    let evidence = if told.is_empty() {
        "nobody asked for a context".to_owned()
    } else {
        format!("while tenants have the device, {}", told.join(", "))
    };
    observed("a second process is refused with 46", holds, evidence)
}

/// Whether the mode is in force while samples are taken.
pub(super) fn mode(seen: &Seen) -> Proof {
    let told = seen.compute_mode.as_deref();
    let evidence = format!("NVML tells {}", told.unwrap_or("nothing"));
    observed("the compute mode", told == Some(MODE), evidence)
}

#[cfg(test)]
mod tests {
    use super::{ExclusiveProcess, mode, refused};
    use crate::mechanism::{Asked, HostFacts, Mechanism, Seen};
    use crate::plan::Availability;
    use crate::profile::{Overrides, load};
    use gpubench_record::Condition;

    fn seen(codes: &[Option<i32>], mode: Option<&str>) -> Seen {
        let named = |(at, code): (usize, &Option<i32>)| (format!("neighbour-{at}"), *code);
        Seen {
            knocks: codes.iter().enumerate().map(named).collect(),
            compute_mode: mode.map(str::to_owned),
            ..Seen::new(Condition::S, vec![7])
        }
    }

    #[test]
    fn only_the_refusal_of_everybody_else_is_proof() {
        for (codes, expected) in [
            (vec![Some(46)], true),
            (vec![Some(46), Some(46)], true),
            (vec![Some(46), None], false),
            (vec![Some(2)], false),
            (vec![], false),
        ] {
            let proof = refused(&seen(&codes, None));
            assert_eq!(proof.holds, expected, "{codes:?}");
        }
        for (told, expected) in [
            (Some("EXCLUSIVE_PROCESS"), true),
            (Some("DEFAULT"), false),
            (None, false),
        ] {
            assert_eq!(mode(&seen(&[], told)).holds, expected, "{told:?}");
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
                match ExclusiveProcess.availability(&Asked { profile, facts }) {
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
            let (said, way) = of(&change)?.ok_or(reason)?;
            assert!(
                said.contains(reason) && way.contains(remedy),
                "{said}: {way}"
            );
        }
        Ok(())
    }
}
