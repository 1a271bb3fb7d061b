//! `mps-quota`: as `mps`, with a limit on the SMs and on the memory of each client.
//!
//! The limit on SMs is `CUDA_MPS_ACTIVE_THREAD_PERCENTAGE` in the client's environment, which can
//! lower the daemon's default and not raise it. It reserves nothing: kernels of different clients
//! may run on one SM. It reduces the number of SMs that a client sees, which is the proof. The
//! memory limit applies by device index, not by UUID (NVIDIA/k8s-device-plugin, notes of
//! 0.15.0-rc.2), which is 0. Source: CUDA MPS documentation, "Environment variables".
//!
//! The priority of the neighbours, `CUDA_MPS_CLIENT_PRIORITY`, is a hint from the same section. The
//! daemon reports only its clients' default priority, so the proof is the environment with which
//! each process was started. The figures show whether the driver follows.
//!
//! `echo get_active_thread_percentage PID | nvidia-cuda-mps-control` prints the setting of a server
//! with that process id; there is no `-server -get`.

use gpubench_plan::Availability;
use gpubench_plan::profile::options::Priority;
use gpubench_record::{Proof, Sharing};

use super::host::{Guard, HostError};
use super::interface::{About, MEMORY_PCT, Requirement, USUAL};
use super::waivers::too_little_for_share;
use super::{
    Compute, ComputeLimit, Configuration, InForce, Mechanism, MechanismContext, MechanismEntry,
    Observation, OpeningChecks, OptionEntry, TenantEnv, TenantObservation, memory_cap, mps,
    user_program,
};

#[derive(Debug)]
pub struct MpsQuota;

pub const PRIORITY: &str = "CUDA_MPS_CLIENT_PRIORITY";
const NORMAL: &str = "0";
const BELOW_NORMAL: &str = "1";

const ENTRY: MechanismEntry = MechanismEntry {
    name: "mps-quota",
    summary: "as mps, with a limit on the SMs of each process; one on its memory where asked",
    about: About {
        since: "any driver",
        needs: "compute capability 7.0",
        changes: "an MPS daemon",
        proof: "the SMs that each tenant sees; an allocation beyond a limit on memory is refused",
        deployed_by: "the Kubernetes device plugin (sharing.mps), Amazon ECS (nvidiaMps)",
    },
    group: "mps",
    options: &[
        OptionEntry {
            key: "pct",
            summary: "maximum SMs of each process, in percent of the device",
            accepted: &["1 to 100"],
        },
        MEMORY_PCT,
        OptionEntry {
            key: "neighbours",
            summary: "priority of the neighbours' work, which is a hint",
            accepted: &["normal", "below-normal"],
        },
    ],
    sharing: Sharing::InSpace,
    mps_daemon: true,
    ..USUAL
};

impl Mechanism for MpsQuota {
    fn entry(&self) -> &'static MechanismEntry {
        &ENTRY
    }

    fn availability(&self, cx: &MechanismContext<'_>) -> Availability {
        let options = &cx.profile.mps_quota;
        let asked = cx.profile.asked.is_some();
        let too_little = (!asked).then(|| too_little_for_share(cx, "SMs", options.pct)).flatten();
        too_little
            .or_else(|| too_little_for_share(cx, "device memory", options.memory_pct))
            .unwrap_or_else(|| mps::availability(cx))
    }

    fn configuration(&self, cx: &MechanismContext<'_>) -> Configuration {
        let options = &cx.profile.mps_quota;
        let mut parts = vec![format!("pct={}", cx.profile.limits_as_text(options.pct))];
        if options.memory_pct < 100 {
            parts.push(format!("memory={}", options.memory_pct));
        }
        if options.neighbours == Priority::BelowNormal {
            parts.push("neighbours=below-normal".to_owned());
        }
        let limit_mib = memory_limit_mib(cx);
        Configuration {
            variant: mps::variant(cx, ENTRY.name, parts),
            host_changes: mps::changes(cx),
            stage: Some(mps::stage(cx)),
            checks: OpeningChecks {
                sm_placement: true,
                over_limit_bytes: limit_mib.map(|mib| memory_cap::beyond_bytes(cx.facts, mib)),
                ..OpeningChecks::default()
            },
            refuses_outsiders: mps::is_exclusive(cx),
            memory_limit_bytes: limit_mib.map(|mib| mib << 20),
            compute_limit: Some(cx.profile.limit_of(options.pct, 0))
                .filter(|&pct| pct < 100)
                .map(|pct| ComputeLimit { share: f64::from(pct) / 100.0, of: Compute::Arithmetic }),
            required: required(cx),
        }
    }

    fn enter(&self, cx: &MechanismContext<'_>, guard: &mut Guard) -> Result<InForce, HostError> {
        mps::Mps.enter(cx, guard)
    }

    fn tenant_env(&self, cx: &MechanismContext<'_>, set_up: &InForce, slot: usize) -> TenantEnv {
        let options = &cx.profile.mps_quota;
        let mut env = mps::client_env(set_up);
        let mut put = |name: &str, value: String| env.insert(name.into(), value.into());
        let pct = cx.profile.limit_of(options.pct, slot);
        put("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", pct.to_string());
        if let Some(mib) = memory_limit_mib(cx) {
            put("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", format!("0={mib}MB"));
        }
        if slot > 0 && options.neighbours == Priority::BelowNormal {
            put(PRIORITY, BELOW_NORMAL.to_owned());
        }
        env
    }

    fn prove(&self, cx: &MechanismContext<'_>, observed: &Observation) -> Vec<Proof> {
        let mut proofs = mps::proofs(cx, observed);
        if proofs.is_empty() {
            return proofs;
        }
        let pct = cx.profile.mps_quota.pct;
        proofs.push(sms(|slot| cx.profile.limit_of(pct, slot), observed));
        if memory_limit_mib(cx).is_some() {
            proofs.extend(memory_cap::over_limit(observed));
        }
        if cx.profile.mps_quota.neighbours == Priority::BelowNormal {
            proofs.push(below_normal(observed));
        }
        proofs.extend(user_program::has_variables(observed));
        proofs
    }
}

/// The memory limit of each client; `None` if there is none.
fn memory_limit_mib(cx: &MechanismContext<'_>) -> Option<u64> {
    memory_cap::limit_mib(cx.facts, cx.profile.mps_quota.memory_pct)
}

const PERCENTAGE: Requirement =
    Requirement::at_open("the SMs that each tenant sees are its percentage");
const BELOW: Requirement =
    Requirement::once("the neighbours alone were started with a priority below normal");

fn required(cx: &MechanismContext<'_>) -> Vec<Requirement> {
    let mut required = mps::required(cx);
    required.push(PERCENTAGE);
    required.extend(memory_limit_mib(cx).map(|_| memory_cap::OVER_LIMIT));
    if cx.profile.mps_quota.neighbours == Priority::BelowNormal {
        required.push(BELOW);
    }
    required.extend(user_program::required(cx));
    required
}

/// SMs that a client has at least, however small its percentage (an H200, driver 580.159.04, at 1
/// and 5 %: `reports/facts/h200_580.159.04/mps-percentages.txt`).
const LEAST_SMS: u64 = 8;

/// Whether every tenant sees at most its percentage of SMs, which MPS rounds down.
fn sms(pct: impl Fn(usize) -> u32, observed: &Observation) -> Proof {
    let Some(all) = observed.native_sm_count else {
        return PERCENTAGE.proof(false, "no tenant has reported the SMs of the whole device");
    };
    let max_sms = |slot: usize| (u64::from(all) * u64::from(pct(slot)) / 100).max(LEAST_SMS);
    let within = |t: &TenantObservation| {
        t.number("sm_count").is_some_and(|count| (1..=max_sms(t.slot)).contains(&count))
    };
    let limits = |t: &TenantObservation| max_sms(t.slot) < u64::from(all);
    let holds = !observed.tenants.is_empty() && observed.tenants.iter().all(within);
    let counts = observed.tenants.iter().map(|t| {
        let count = t.number("sm_count");
        let count = count.map_or_else(|| "nothing".to_owned(), |count| count.to_string());
        let sm_placement = t
            .sm_placement
            .as_ref()
            .map_or_else(String::new, |sms| format!(" (blocks ran on {})", sms.len()));
        let (pct, most) = (pct(t.slot), max_sms(t.slot));
        format!("{} {count}{sm_placement}, {pct} % is at most {most}", t.name())
    });
    let counts: Vec<String> = counts.collect();
    Proof {
        limiter: holds && observed.tenants.iter().any(limits),
        ..PERCENTAGE.proof(holds, format!("of {all} SMs: {}", counts.join("; ")))
    }
}

/// Whether every neighbour was started with a priority below normal, and the victim was not.
fn below_normal(observed: &Observation) -> Proof {
    let as_set = |t: &TenantObservation| match t.slot {
        0 => matches!(t.priority.as_deref(), None | Some(NORMAL)),
        _ => t.priority.as_deref() == Some(BELOW_NORMAL),
    };
    let reported = |t: &TenantObservation| {
        let priority = t.priority.as_deref().unwrap_or("not set");
        format!("{} {priority}", t.name())
    };
    let holds = observed.tenants.iter().any(|t| t.slot > 0) && observed.tenants.iter().all(as_set);
    let all: Vec<String> = observed.tenants.iter().map(reported).collect();
    BELOW.proof(holds, format!("{PRIORITY}: {}", all.join(", ")))
}

#[cfg(test)]
mod tests {
    use gpubench_record::Condition;

    use super::{below_normal, sms};
    use crate::mechanism::{Observation, TenantObservation};

    fn observed(counts: &[Option<u32>]) -> Observation {
        let tenants = counts.iter().enumerate().map(|(slot, count)| TenantObservation {
            slot,
            facts: count.iter().map(|count| ("sm_count".to_owned(), count.to_string())).collect(),
            ..TenantObservation::default()
        });
        Observation {
            tenants: tenants.collect(),
            native_sm_count: Some(132),
            ..Observation::new(Condition::C, vec![7, 8])
        }
    }

    #[test]
    fn every_tenant_must_see_at_most_its_percentage() {
        for (counts, pct, expected) in [
            (vec![Some(66), Some(66)], 50, true),
            (vec![Some(66), Some(64)], 50, true),
            (vec![Some(66), Some(132)], 50, false),
            (vec![Some(66), None], 50, false),
            (vec![Some(0), Some(66)], 50, false),
            (vec![], 50, false),
            (vec![Some(42), Some(42)], 33, true),
            (vec![Some(44), Some(42)], 33, false),
            (vec![Some(8), Some(8)], 1, true),
        ] {
            let proof = sms(|_| pct, &observed(&counts));
            assert_eq!((proof.holds, proof.limiter), (expected, expected), "{proof:?}");
        }
        assert!(
            !sms(|_| 100, &observed(&[Some(132), Some(132)])).limiter,
            "no limit limits nothing"
        );
    }

    #[test]
    fn the_neighbours_and_not_the_victim_must_have_the_lower_priority() {
        let all = |priorities: &[Option<&str>]| {
            let tenants = priorities.iter().enumerate();
            let tenants = tenants.map(|(slot, priority)| TenantObservation {
                slot,
                priority: priority.map(str::to_owned),
                ..TenantObservation::default()
            });
            below_normal(&Observation {
                tenants: tenants.collect(),
                ..Observation::new(Condition::C, vec![7, 8])
            })
        };
        for (priorities, expected) in [
            (&[None, Some("1")][..], true),
            (&[Some("0"), Some("1"), Some("1")], true),
            (&[None, Some("1"), None], false),
            (&[None, Some("0")], false),
            (&[Some("1"), Some("1")], false),
            // Without a neighbour there is no proof.
            (&[None], false),
            (&[], false),
        ] {
            let proof = all(priorities);
            assert_eq!((proof.holds, proof.limiter), (expected, false), "{proof:?}");
        }
    }
}
