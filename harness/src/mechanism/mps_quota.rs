//! `mps-quota`: as `mps`, with a cap on the SMs that each client may use, and on its memory.
//!
//! The cap is `CUDA_MPS_ACTIVE_THREAD_PERCENTAGE` in the client's environment, which can lower the
//! daemon's default and never raise it. It reserves nothing: kernels of different clients may run
//! on one SM. The number of SMs that a client sees goes down with it, which is the proof; the
//! `%smid` census beside it says where its blocks really ran. The memory limit applies by device
//! index, not by UUID (NVIDIA/k8s-device-plugin, notes of 0.15.0-rc.2), and the daemon serves one
//! device, so the index is 0. All of it is of the CUDA Multi-Process Service documentation,
//! "Environment variables".
//!
//! So is the priority of the neighbours, `CUDA_MPS_CLIENT_PRIORITY`, a hint. The daemon tells the
//! default of its clients and of none what it has, so the proof is what each process was started
//! with, as the system tells it; whether the driver heeds it is what the figures show.
//!
//! What a server is set to is asked with `echo get_active_thread_percentage PID |
//! nvidia-cuda-mps-control`, PID being the server's; there is no `-server -get`.

use gpubench_record::Proof;

use super::host::{Guard, HostError};
use super::{Asked, InForce, Mechanism, Questions, Seen, Stage, TenantEnv, TenantSeen};
use super::{memory_cap, mps, observed, program, too_little_for_share};
use crate::plan::Availability;
use crate::profile::options::Priority;

/// See the module.
#[derive(Debug)]
pub struct MpsQuota;

/// Variable of a client's priority.
pub const PRIORITY: &str = "CUDA_MPS_CLIENT_PRIORITY";
/// Its values.
const NORMAL: &str = "0";
const BELOW_NORMAL: &str = "1";

impl Mechanism for MpsQuota {
    fn name(&self) -> &'static str {
        "mps-quota"
    }

    fn variant(&self, asked: &Asked<'_>) -> String {
        let options = &asked.profile.mps_quota;
        let mut parts = vec![format!("pct={}", options.pct)];
        if options.memory_pct < 100 {
            parts.push(format!("memory={}", options.memory_pct));
        }
        if options.neighbours == Priority::BelowNormal {
            parts.push("neighbours=below-normal".to_owned());
        }
        mps::variant(asked, self.name(), parts)
    }

    fn availability(&self, asked: &Asked<'_>) -> Availability {
        let options = &asked.profile.mps_quota;
        too_little_for_share(asked, "SMs", options.pct)
            .or_else(|| too_little_for_share(asked, "device memory", options.memory_pct))
            .unwrap_or_else(|| mps::availability(asked))
    }

    fn host_changes(&self, asked: &Asked<'_>) -> Vec<String> {
        mps::changes(asked)
    }

    fn stage(&self, asked: &Asked<'_>) -> Option<Stage> {
        Some(mps::stage(asked))
    }

    fn enter(&self, asked: &Asked<'_>, guard: &mut Guard) -> Result<InForce, HostError> {
        mps::Mps.enter(asked, guard)
    }

    fn tenant_env(&self, asked: &Asked<'_>, set_up: &InForce, place: usize) -> TenantEnv {
        let options = &asked.profile.mps_quota;
        let mut env = mps::client_env(set_up);
        let mut put = |name: &str, value: String| env.insert(name.into(), value.into());
        put("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", options.pct.to_string());
        if let Some(mib) = memory_limit_mib(asked) {
            put("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", format!("0={mib}MB"));
        }
        if place > 0 && options.neighbours == Priority::BelowNormal {
            put(PRIORITY, BELOW_NORMAL.to_owned());
        }
        env
    }

    fn refuses_strangers(&self, asked: &Asked<'_>) -> bool {
        mps::is_guarded(asked)
    }

    fn questions(&self, asked: &Asked<'_>) -> Questions {
        Questions {
            census: true,
            over_limit_bytes: memory_limit_mib(asked).map(memory_cap::beyond_bytes),
        }
    }

    fn memory_limit_bytes(&self, asked: &Asked<'_>) -> Option<u64> {
        memory_limit_mib(asked).map(|mib| mib << 20)
    }

    fn compute_share(&self, asked: &Asked<'_>) -> Option<f64> {
        let pct = asked.profile.mps_quota.pct;
        (pct < 100).then(|| f64::from(pct) / 100.0)
    }

    fn prove(&self, asked: &Asked<'_>, seen: &Seen) -> Vec<Proof> {
        let mut proofs = mps::proofs(asked, seen);
        if proofs.is_empty() {
            return proofs;
        }
        proofs.push(sms(asked.profile.mps_quota.pct, seen));
        if memory_limit_mib(asked).is_some() {
            proofs.extend(memory_cap::over_limit(seen));
        }
        if asked.profile.mps_quota.neighbours == Priority::BelowNormal {
            proofs.push(below_normal(seen));
        }
        proofs.extend(program::handed(seen));
        proofs
    }
}

/// The memory limit of each client; none if it may take everything.
fn memory_limit_mib(asked: &Asked<'_>) -> Option<u64> {
    let pct = asked.profile.mps_quota.memory_pct;
    (pct < 100).then(|| memory_cap::part_mib(asked.facts, pct))
}

/// Whether every tenant sees no more SMs than its percentage, which is rounded down.
fn sms(pct: u32, seen: &Seen) -> Proof {
    const CHECK: &str = "the SMs that each tenant sees are its percentage";
    let Some(all) = seen.native_sm_count else {
        let evidence = "nobody has seen the device without the quota".to_owned();
        return observed(CHECK, false, evidence);
    };
    let most = (u64::from(all) * u64::from(pct)).div_ceil(100);
    let told: Vec<Option<u64>> = seen.tenants.iter().map(|t| t.number("sm_count")).collect();
    let within = |count: &Option<u64>| count.is_some_and(|count| (1..=most).contains(&count));
    let holds = !told.is_empty() && told.iter().all(within);
    let counts: Vec<String> = seen
        .tenants
        .iter()
        .zip(&told)
        .map(|(t, count)| {
            let count = count.map_or_else(|| "nothing".to_owned(), |count| count.to_string());
            let census = t
                .census
                .as_ref()
                .map_or_else(String::new, |sms| format!(" (blocks ran on {})", sms.len()));
            format!("{} {count}{census}", t.name())
        })
        .collect();
    Proof {
        limiter: holds && most < u64::from(all),
        ..observed(
            CHECK,
            holds,
            format!(
                "of {all} SMs, {pct} % is at most {most}; seen: {}",
                counts.join(", ")
            ),
        )
    }
}

/// Whether every neighbour was started with a priority below normal, and the victim without.
fn below_normal(seen: &Seen) -> Proof {
    const CHECK: &str = "the neighbours alone were started with a priority below normal";
    let right = |t: &TenantSeen| match t.place {
        0 => matches!(t.priority.as_deref(), None | Some(NORMAL)),
        _ => t.priority.as_deref() == Some(BELOW_NORMAL),
    };
    let told = |t: &TenantSeen| {
        let priority = t.priority.as_deref().unwrap_or("not set");
        format!("{} {priority}", t.name())
    };
    let holds = seen.tenants.iter().any(|t| t.place > 0) && seen.tenants.iter().all(right);
    let all: Vec<String> = seen.tenants.iter().map(told).collect();
    observed(CHECK, holds, format!("{PRIORITY}: {}", all.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::{below_normal, sms};
    use crate::mechanism::{Seen, TenantSeen};
    use gpubench_record::Condition;

    fn seen(counts: &[Option<u32>]) -> Seen {
        let tenants = counts.iter().enumerate().map(|(place, count)| TenantSeen {
            place,
            facts: count
                .iter()
                .map(|count| ("sm_count".to_owned(), count.to_string()))
                .collect(),
            ..TenantSeen::default()
        });
        Seen {
            tenants: tenants.collect(),
            native_sm_count: Some(132),
            ..Seen::new(Condition::C, vec![7, 8])
        }
    }

    #[test]
    fn a_tenant_that_sees_more_than_its_percentage_is_not_under_it() {
        for (counts, pct, expected) in [
            (vec![Some(66), Some(66)], 50, true),
            (vec![Some(66), Some(64)], 50, true),
            (vec![Some(66), Some(132)], 50, false),
            (vec![Some(66), None], 50, false),
            (vec![Some(0), Some(66)], 50, false),
            (vec![], 50, false),
        ] {
            let proof = sms(pct, &seen(&counts));
            assert_eq!(
                (proof.holds, proof.limiter),
                (expected, expected),
                "{proof:?}"
            );
        }
        assert!(
            !sms(100, &seen(&[Some(132), Some(132)])).limiter,
            "no limit limits nothing"
        );
    }

    #[test]
    fn a_priority_below_normal_is_the_neighbours_and_nobody_elses() {
        let all = |priorities: &[Option<&str>]| {
            let tenants = priorities.iter().enumerate();
            let tenants = tenants.map(|(place, priority)| TenantSeen {
                place,
                priority: priority.map(str::to_owned),
                ..TenantSeen::default()
            });
            below_normal(&Seen {
                tenants: tenants.collect(),
                ..Seen::new(Condition::C, vec![7, 8])
            })
        };
        for (priorities, expected) in [
            (&[None, Some("1")][..], true),
            (&[Some("0"), Some("1"), Some("1")], true),
            (&[None, Some("1"), None], false),
            (&[None, Some("0")], false),
            (&[Some("1"), Some("1")], false),
            // Nobody was there of whom it could be told.
            (&[None], false),
            (&[], false),
        ] {
            let proof = all(priorities);
            assert_eq!((proof.holds, proof.limiter), (expected, false), "{proof:?}");
        }
    }
}
