//! `time-slicing`: several processes, each with a context of its own; the driver lets them take
//! turns. What a device plugin's `sharing.timeSlicing` hands out is this and nothing more.
//!
//! Work of different contexts cannot run at the same time unless an MPS server joins them (CUDA
//! Multi-Process Service, "Architecture"), and an MPS client is listed apart from a plain compute
//! process. The proof is therefore that NVML lists every tenant as a compute process of its own,
//! that there are no MPS clients, and that the compute mode lets several processes in.
//!
//! The length of a turn is set by `nvidia-smi compute-policy --set-timeslice`, for the whole GPU
//! and with the rights of root; NVML has no call for it, and NVIDIA's own DRA driver runs the
//! command (k8s-dra-driver-gpu, `cmd/gpu-kubelet-plugin/nvlib.go`).
//!
//! A Kubernetes node hands this out by `sharing.timeSlicing.resources: [{name: nvidia.com/gpu,
//! replicas: 4}]` in the device plugin's configuration. `replicas` directly under `timeSlicing`
//! is ignored, `migStrategy` stands under `flags` and not beside `sharing`, and a pod asks for
//! whole replicas: `nvidia.com/gpu: "0.25"` is refused, and two replicas are no larger share than
//! one (NVIDIA/k8s-device-plugin, README, "Shared access to GPUs"). The GPU Operator is installed
//! with `helm install`; `helm.sh/v1` is no API, so no `HelmChart` of it can be applied. Where the
//! cloud manages the driver it takes `driver.enabled=false` and `toolkit.enabled=false`. DCGM's
//! exporter calls utilisation `DCGM_FI_DEV_GPU_UTIL`, not `dcgm_gpu_utilization`, and under
//! time-slicing it is the whole GPU's.

use gpubench_record::Proof;

use super::host::{Change, Guard, HostError};
use super::{Asked, InForce, Mechanism, Seen, Stage, observed};
use super::{device_is_cut, settings_locked, sharing_is_off, waived};
use crate::plan::Availability;
use crate::profile::options::Slice;

/// See the module.
#[derive(Debug)]
pub struct TimeSlicing;

impl Mechanism for TimeSlicing {
    fn name(&self) -> &'static str {
        "time-slicing"
    }

    fn variant(&self, asked: &Asked<'_>) -> String {
        format!("time-slicing[slice={}]", slice(asked).as_str())
    }

    fn availability(&self, asked: &Asked<'_>) -> Availability {
        let facts = asked.facts;
        if let Some(waived) = device_is_cut(facts).or_else(|| sharing_is_off(facts)) {
            return waived;
        }
        if slice(asked) == Slice::Default {
            return Availability::Available;
        }
        if facts.nvidia_smi.is_none() {
            return waived(
                "only nvidia-smi sets the length of a turn, and it is not on PATH",
                Some("[time-slicing] slice = \"default\""),
            );
        }
        settings_locked(facts, "time slice").unwrap_or(Availability::Available)
    }

    fn host_changes(&self, asked: &Asked<'_>) -> Vec<String> {
        match slice(asked) {
            Slice::Default => Vec::new(),
            other => vec![format!("time slice of the GPU to {}", other.as_str())],
        }
    }

    fn stage(&self, asked: &Asked<'_>) -> Option<Stage> {
        (slice(asked) != Slice::Default).then(|| Stage {
            key: format!("slice={}", slice(asked).as_str()),
            plain_too: false,
        })
    }

    fn enter(&self, asked: &Asked<'_>, guard: &mut Guard) -> Result<InForce, HostError> {
        let found = guard.host().timeslice()?;
        let set = slice(asked).as_str().to_owned();
        if found != set {
            guard.make(Change::Timeslice { found, set })?;
        }
        Ok(InForce::default())
    }

    fn prove(&self, _asked: &Asked<'_>, seen: &Seen) -> Vec<Proof> {
        prove(seen).into_iter().collect()
    }
}

fn slice(asked: &Asked<'_>) -> Slice {
    asked.profile.time_slicing.slice
}

fn prove(seen: &Seen) -> Option<Proof> {
    if seen.condition.is_native() || seen.ours.len() < 2 {
        return None;
    }
    let want = seen.ours.len();
    let clients = seen.mps_clients.as_ref().map(Vec::len);
    let (holds, evidence) = match (seen.ours_listed(), clients) {
        (None, _) => (
            false,
            "NVML does not list the device's processes".to_owned(),
        ),
        (_, Some(clients)) if clients > 0 => (
            false,
            format!("NVML lists {clients} clients of an MPS server"),
        ),
        (Some(found), _) if found == want => (
            true,
            format!("NVML lists all {want} tenants as compute processes of their own"),
        ),
        (Some(0), _)
            if seen
                .listed
                .as_ref()
                .is_some_and(|listed| listed.len() == want) =>
        {
            (
                true,
                format!("NVML lists {want} compute processes, numbered in another namespace"),
            )
        }
        (Some(found), _) => {
            let absent = |pid: &u32| !seen.listed.as_ref().is_some_and(|all| all.contains(pid));
            let absent: Vec<u32> = seen.ours.iter().copied().filter(absent).collect();
            let who = if seen
                .program
                .as_ref()
                .is_some_and(|program| program.working.iter().any(|pid| absent.contains(pid)))
            {
                ": the program has no context on the device"
            } else {
                ""
            };
            let evidence = format!("NVML lists {found} of {want} tenants, not {absent:?}{who}");
            (false, evidence)
        }
    };
    Some(observed(
        "a context of its own for each tenant",
        holds,
        evidence,
    ))
}

#[cfg(test)]
mod tests {
    use super::prove;
    use crate::mechanism::Seen;
    use gpubench_record::Condition;

    #[test]
    fn every_tenant_must_be_seen_and_none_through_mps() {
        for (listed, mps_clients, expected) in [
            (Some(vec![7, 8]), Some(vec![]), Some(true)),
            (Some(vec![7, 8]), None, Some(true)),
            (Some(vec![7]), Some(vec![]), Some(false)),
            (Some(vec![7, 8]), Some(vec![7, 8]), Some(false)),
            (Some(vec![30_001, 30_002]), Some(vec![]), Some(true)),
            (None, None, Some(false)),
        ] {
            let seen = Seen {
                listed,
                mps_clients,
                ..Seen::new(Condition::C, vec![7, 8])
            };
            let proof = prove(&seen);
            assert_eq!(proof.map(|proof| proof.holds), expected, "{seen:?}");
        }
    }
}
