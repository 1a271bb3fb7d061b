//! `green-context`: tenants are threads of one process, each with a green context on an equal share
//! of the SMs.
//!
//! A green context reserves SMs for the streams made in it (CUDA driver API, "Green Contexts",
//! since CUDA 12.4). It divides nothing else: its tenants share one address space, L2, DRAM and
//! copy engines, and a fault of one ends all. Axes that it does not isolate are not scored.
//!
//! SMs are divided in steps of the chip (2, or 8 from compute capability 9.0 on): of 132 SMs two
//! tenants get 64 each, and 4 are left. The proof is that NVML lists one process, ours, and that
//! the blocks of each tenant ran on SMs of its own.

use gpubench_plan::Availability;
use gpubench_record::wire::Inside;
use gpubench_record::{Proof, Sharing};

use super::host::{Guard, HostError};
use super::interface::{About, Requirement, USUAL};
use super::waivers::{waived, whole_device_is_closed};
use super::{
    Configuration, InForce, Mechanism, MechanismContext, MechanismEntry, Observation,
    OpeningChecks, TenantEnv, Tenants,
};

#[derive(Debug)]
pub struct GreenContext;

/// First CUDA version whose driver has green contexts (cuda.h of 12.4; driver release 550).
const CUDA_MIN: i32 = 12_040;

/// Its facts that need no host.
pub(super) const ENTRY: MechanismEntry = MechanismEntry {
    name: "green-context",
    summary: "threads of one process, each with SMs of its own; memory and faults are shared",
    about: About {
        since: "driver 550, CUDA 12.4",
        needs: "compute capability 7.0",
        changes: "nothing",
        proof: "one process, and no SM runs blocks of two tenants",
        deployed_by: "serving engines, inside one program",
    },
    group: "mps",
    sharing: Sharing::InSpace,
    tenants: Tenants::Threads(inside),
    ..USUAL
};

fn inside(slots: usize) -> Vec<Inside> {
    let partitions = u32::try_from(slots).unwrap_or(u32::MAX);
    let one = |partition| Inside::GreenContext { partition, partitions };
    (0..partitions).map(one).collect()
}

impl Mechanism for GreenContext {
    fn entry(&self) -> &'static MechanismEntry {
        &ENTRY
    }

    fn availability(&self, cx: &MechanismContext<'_>) -> Availability {
        let facts = cx.facts;
        if let Some(waived) = whole_device_is_closed(facts) {
            return waived;
        }
        if facts.cuda < CUDA_MIN {
            let (major, minor) = (facts.cuda / 1000, facts.cuda % 1000 / 10);
            return waived(
                format!("the driver has CUDA {major}.{minor}, green contexts need 12.4"),
                Some("a driver of release 550 or later"),
            );
        }
        Availability::Available
    }

    fn configuration(&self, _cx: &MechanismContext<'_>) -> Configuration {
        Configuration {
            checks: OpeningChecks { sm_placement: true, ..OpeningChecks::default() },
            ..Configuration::without_setup(&ENTRY, vec![ONE_PROCESS, DISJOINT])
        }
    }

    fn enter(&self, _cx: &MechanismContext<'_>, _guard: &mut Guard) -> Result<InForce, HostError> {
        Ok(InForce::default())
    }

    fn tenant_env(&self, _: &MechanismContext<'_>, _: &InForce, _slot: usize) -> TenantEnv {
        TenantEnv::new()
    }

    fn prove(&self, _cx: &MechanismContext<'_>, observed: &Observation) -> Vec<Proof> {
        of_threads(observed, disjoint_sms)
    }
}

pub(super) const ONE_PROCESS: Requirement =
    Requirement::during("all tenants are threads of one process");
const DISJOINT: Requirement = Requirement::once("each tenant's blocks run on SMs of its own");

/// The proofs of a cell whose tenants are threads: that they are, and one of the mechanism's own.
pub(super) fn of_threads(observed: &Observation, own: fn(&Observation) -> Proof) -> Vec<Proof> {
    if observed.condition.is_native() || observed.tenants.len() < 2 {
        return Vec::new();
    }
    one_process(observed).into_iter().chain([own(observed)]).collect()
}

/// Whether all tenants are in one process, and no other process is on the device.
fn one_process(observed: &Observation) -> Option<Proof> {
    let mut pids = observed.ours.clone();
    pids.dedup();
    let Some(listed) = observed.listed.as_ref() else {
        let evidence = format!("the tenants are in {pids:?}; NVML lists no processes");
        return Some(ONE_PROCESS.proof(pids.len() == 1, evidence));
    };
    // NVML's process ids can be of another PID namespace; then only their number is compared.
    let no_other = match observed.other_processes() {
        Some(other_processes) => other_processes.is_empty(),
        None => listed.len() == 1 + observed.services.len(),
    };
    let holds = pids.len() == 1 && no_other;
    let evidence = format!(
        "NVML lists {listed:?}, the tenants are in {pids:?}, our services are {:?}",
        observed.services
    );
    Some(ONE_PROCESS.proof(holds, evidence))
}

/// Whether no SM ran blocks of two tenants.
fn disjoint_sms(observed: &Observation) -> Proof {
    let measured: Vec<(String, &[u32])> = observed
        .tenants
        .iter()
        .filter_map(|tenant| Some((tenant.name(), tenant.sm_placement.as_deref()?)))
        .collect();
    let mut all: Vec<u32> = measured.iter().flat_map(|(_, sms)| sms.iter().copied()).collect();
    let total = all.len();
    all.sort_unstable();
    all.dedup();
    let each = measured.iter().all(|(_, sms)| !sms.is_empty());
    let holds = each && measured.len() == observed.tenants.len() && all.len() == total;
    let reported: Vec<String> =
        measured.iter().map(|(name, sms)| format!("{name}: {} SMs", sms.len())).collect();
    let common = total - all.len();
    let evidence = format!("{}; {common} in common", reported.join(", "));
    Proof { limiter: holds, ..DISJOINT.proof(holds, evidence) }
}

#[cfg(test)]
mod tests {
    use gpubench_record::Condition;

    use super::{disjoint_sms, one_process};
    use crate::mechanism::{Observation, TenantObservation};

    fn observed(sm_placement: &[Option<&[u32]>]) -> Observation {
        let tenants = sm_placement.iter().enumerate().map(|(slot, sms)| TenantObservation {
            slot,
            sm_placement: sms.map(<[u32]>::to_vec),
            ..TenantObservation::default()
        });
        Observation { tenants: tenants.collect(), ..Observation::new(Condition::C, vec![7, 7]) }
    }

    #[test]
    fn no_sm_may_run_blocks_of_two_tenants() {
        for (sm_placement, expected) in [
            (vec![Some(&[0, 1][..]), Some(&[2, 3][..])], true),
            (vec![Some(&[0, 1]), Some(&[1, 2])], false),
            (vec![Some(&[0, 1]), Some(&[])], false),
            (vec![Some(&[0, 1]), None], false),
        ] {
            assert_eq!(disjoint_sms(&observed(&sm_placement)).holds, expected, "{sm_placement:?}");
        }
    }

    #[test]
    fn all_tenants_must_be_in_the_one_listed_process() {
        let of = |ours: Vec<u32>, listed: Vec<u32>| {
            let mut observed = observed(&[]);
            observed.ours = ours;
            observed.listed = Some(listed);
            one_process(&observed).map(|proof| proof.holds)
        };
        assert_eq!(of(vec![7, 7], vec![7]), Some(true));
        assert_eq!(of(vec![7, 7], vec![31_000]), Some(true));
        assert_eq!(of(vec![7, 8], vec![7, 8]), Some(false));
        assert_eq!(of(vec![7, 7], vec![7, 9]), Some(false));
        let mut beside = observed(&[]);
        (beside.listed, beside.services) = (Some(vec![7, 9]), vec![9]);
        assert_eq!(one_process(&beside).map(|proof| proof.holds), Some(true));
    }
}
