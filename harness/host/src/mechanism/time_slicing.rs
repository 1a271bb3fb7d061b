//! `time-slicing`: several processes, each with a context of its own; the driver gives each context
//! time slices. A Kubernetes device plugin's `sharing.timeSlicing` provides exactly this.
//!
//! Work of different contexts cannot run at the same time unless an MPS server joins them (CUDA
//! Multi-Process Service, "Architecture"), and NVML lists an MPS client apart from a plain compute
//! process. The proof is therefore that NVML lists every tenant as a compute process of its own,
//! that there are no MPS clients, and that the compute mode admits several processes.
//!
//! `nvidia-smi compute-policy --set-timeslice` sets the length of a time slice, for the whole GPU
//! and as root, since driver 455 (CUDA 11.1). NVML has no call for it; NVIDIA's DRA driver runs it
//! (k8s-dra-driver-gpu, `cmd/gpu-kubelet-plugin/nvlib.go`).
//!
//! On a Kubernetes node it is `sharing.timeSlicing.resources: [{name: nvidia.com/gpu, replicas:
//! 4}]` in the device plugin's configuration. `replicas` directly under `timeSlicing` is ignored,
//! `migStrategy` is under `flags` and not beside `sharing`, and a pod requests whole replicas:
//! `nvidia.com/gpu: "0.25"` is refused, and two replicas are no larger share than one
//! (NVIDIA/k8s-device-plugin, README, "Shared access to GPUs"). The GPU Operator is installed with
//! `helm install`; `helm.sh/v1` is no API, so no `HelmChart` of it can be applied. Where the cloud
//! manages the driver, the operator needs `driver.enabled=false` and `toolkit.enabled=false`.
//! DCGM's exporter has `DCGM_FI_DEV_GPU_UTIL`, not `dcgm_gpu_utilization`; under time-slicing it is
//! the utilisation of the whole GPU.

use gpubench_plan::Availability;
use gpubench_plan::profile::options::Slice;
use gpubench_record::{Proof, Sharing};

use super::host::{Change, Guard, HostError};
use super::interface::{About, Requirement, USUAL};
use super::waivers::{device_is_partitioned, settings_locked, sharing_is_off, waived};
use super::{
    Configuration, HostStage, InForce, Mechanism, MechanismContext, MechanismEntry, Observation,
    OpeningChecks, OptionEntry, TenantEnv,
};

#[derive(Debug)]
pub struct TimeSlicing;

const ENTRY: MechanismEntry = MechanismEntry {
    name: "time-slicing",
    summary: "processes use the whole GPU in time slices, scheduled by the driver",
    about: About {
        since: "any driver; a slice of its own: driver 455",
        needs: "root for a slice of its own",
        changes: "nothing, or the time slice",
        proof: "NVML lists each tenant as a process of its own, none as an MPS client",
        deployed_by: "the Kubernetes device plugin (sharing.timeSlicing), DRA",
    },
    group: "plain",
    options: &[OptionEntry {
        key: "slice",
        summary: "length of a time slice",
        accepted: &["default", "short", "medium", "long"],
    }],
    sharing: Sharing::InTime,
    unprotected: Some(|profile| profile.time_slicing.slice = Slice::Default),
    ..USUAL
};

impl Mechanism for TimeSlicing {
    fn entry(&self) -> &'static MechanismEntry {
        &ENTRY
    }

    fn availability(&self, cx: &MechanismContext<'_>) -> Availability {
        let facts = cx.facts;
        if let Some(waived) = device_is_partitioned(facts).or_else(|| sharing_is_off(facts)) {
            return waived;
        }
        if let Some(problem) = &facts.holders_problem {
            return waived(
                format!(
                    "NVML does not list the processes on the device ({problem}): that tenants have \
                     contexts of their own cannot be proved"
                ),
                Some("run where NVML lists them, outside a sandbox"),
            );
        }
        if slice(cx) == Slice::Default {
            return Availability::Available;
        }
        if let Some(problem) = &facts.no_nvidia_smi {
            return waived(
                format!("only nvidia-smi sets the time slice, and {problem}"),
                Some("[time-slicing] slice = \"default\""),
            );
        }
        settings_locked(facts, "time slice").unwrap_or(Availability::Available)
    }

    fn configuration(&self, cx: &MechanismContext<'_>) -> Configuration {
        let slice = slice(cx);
        let is_set = slice != Slice::Default;
        // What a cluster has set is measured as it is found.
        let found = cx.facts.time_slice.as_deref().filter(|_| !is_set);
        Configuration {
            variant: format!("{}[slice={}]", ENTRY.name, found.unwrap_or(slice.as_str())),
            host_changes: if is_set {
                vec![format!("time slice of the GPU to {}", slice.as_str())]
            } else {
                Vec::new()
            },
            stage: is_set.then(|| HostStage {
                key: format!("slice={}", slice.as_str()),
                allows_native: false,
            }),
            checks: OpeningChecks::default(),
            refuses_outsiders: false,
            memory_limit_bytes: None,
            compute_limit: None,
            required: vec![OWN_CONTEXTS],
        }
    }

    fn enter(&self, cx: &MechanismContext<'_>, guard: &mut Guard) -> Result<InForce, HostError> {
        let found = guard.host().timeslice()?;
        let set = slice(cx).as_str().to_owned();
        if found != set {
            guard.make(Change::Timeslice { found, set })?;
        }
        Ok(InForce::default())
    }

    fn tenant_env(&self, _: &MechanismContext<'_>, _: &InForce, _slot: usize) -> TenantEnv {
        TenantEnv::new()
    }

    fn prove(&self, _cx: &MechanismContext<'_>, observed: &Observation) -> Vec<Proof> {
        prove(observed).into_iter().collect()
    }
}

fn slice(cx: &MechanismContext<'_>) -> Slice {
    cx.profile.time_slicing.slice
}

/// NVML lists every tenant, and none as a client of an MPS server.
pub(super) const OWN_CONTEXTS: Requirement =
    Requirement::during("a context of its own for each tenant");

pub(super) fn prove(observed: &Observation) -> Option<Proof> {
    if observed.condition.is_native() {
        return None;
    }
    let want = observed.ours.len();
    let clients = observed.mps_clients.as_ref().map(Vec::len);
    let (holds, evidence) = match (observed.ours_listed(), clients) {
        (None, _) => (false, "NVML does not list the device's processes".to_owned()),
        (_, Some(clients)) if clients > 0 => {
            (false, format!("NVML lists {clients} clients of an MPS server"))
        }
        (Some(found), _) if found == want => {
            (true, format!("NVML lists all {want} tenants as compute processes of their own"))
        }
        (Some(0), _)
            if observed
                .listed
                .as_ref()
                .is_some_and(|listed| listed.len() == want + observed.services.len()) =>
        {
            (
                true,
                format!("NVML lists {want} compute processes, with ids of another PID namespace"),
            )
        }
        (Some(found), _) => {
            let absent = |pid: &u32| !observed.listed.as_ref().is_some_and(|all| all.contains(pid));
            let absent: Vec<u32> = observed.ours.iter().copied().filter(absent).collect();
            let cause = if observed
                .program
                .as_ref()
                .is_some_and(|program| program.working.iter().any(|pid| absent.contains(pid)))
            {
                ": the program has no context on the device"
            } else {
                ""
            };
            let evidence = format!("NVML lists {found} of {want} tenants, not {absent:?}{cause}");
            (false, evidence)
        }
    };
    Some(OWN_CONTEXTS.proof(holds, evidence))
}

#[cfg(test)]
mod tests {
    use gpubench_record::Condition;

    use super::prove;
    use crate::mechanism::Observation;

    #[test]
    fn every_tenant_must_be_listed_and_none_as_an_mps_client() {
        for (listed, mps_clients, expected) in [
            (Some(vec![7, 8]), Some(vec![]), Some(true)),
            (Some(vec![7, 8]), None, Some(true)),
            (Some(vec![7]), Some(vec![]), Some(false)),
            (Some(vec![7, 8]), Some(vec![7, 8]), Some(false)),
            (Some(vec![30_001, 30_002]), Some(vec![]), Some(true)),
            (None, None, Some(false)),
        ] {
            let observed =
                Observation { listed, mps_clients, ..Observation::new(Condition::C, vec![7, 8]) };
            let proof = prove(&observed);
            assert_eq!(proof.map(|proof| proof.holds), expected, "{observed:?}");
        }
    }
}
