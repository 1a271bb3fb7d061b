//! `mig`: every tenant has a hardware instance of its own.
//!
//! Existing instances are used if there are enough. Others are made only with
//! `--allow-reconfigure`, after MIG mode is switched on if it is off, and are destroyed afterwards.
//! The same with `nvidia-smi` is `nvidia-smi mig -cgi 9,9 -C`: `-cip` does not exist, `-cci` makes
//! compute instances and `-lcip` lists their profiles. Four `3g.20gb` do not fit an A100, because
//! each takes half of the memory: two do, or four `1g.10gb` (MIG User Guide, "Supported MIG
//! profiles"). On a Kubernetes node with the strategy `mixed`, a pod requests
//! `nvidia.com/mig-3g.40gb` and not `nvidia.com/gpu`.
//!
//! The proof is that each tenant sees the instance that was assigned to it: the UUID, and the SMs
//! and the memory of the profile.

use gpubench_record::{Proof, Sharing, SmNumbers};

use super::host::{Guard, HostError};
use super::mig_setup::{Layout, available, changes, enter, layout, variant};
use super::observation::proof_of;
use super::{
    Configuration, HostStage, InForce, Mechanism, MechanismContext, MechanismEntry, Observation,
    OpeningChecks, OptionEntry, TenantEnv, TenantObservation, Tenants, user_program,
};
use crate::device::mig::{Instance, InstanceProfile};
use crate::plan::Availability;

/// See the module.
#[derive(Debug)]
pub struct Mig;

/// Its facts that need no host.
const ENTRY: MechanismEntry = MechanismEntry {
    name: "mig",
    summary: "each process has a hardware instance of its own",
    group: "mig",
    reconfigures: true,
    options: &[OptionEntry {
        key: "layout",
        summary: "sizes of the instances, the victim's first",
        accepted: &["auto", "3g+3g", "3g.40gb+4g.40gb"],
    }],
    sharing: Sharing::InSpace,
    tenants: Tenants::Processes,
    mps_daemon: false,
    accounting_library: false,
    sm_numbers: SmNumbers::OfPart,
    settles_ns: 0,
    unprotected: None,
};

impl Mechanism for Mig {
    fn entry(&self) -> &'static MechanismEntry {
        &ENTRY
    }

    fn availability(&self, cx: &MechanismContext<'_>) -> Availability {
        available(cx, &cx.profile.mig.layout, tenants(cx))
    }

    fn configuration(&self, cx: &MechanismContext<'_>) -> Configuration {
        let text = &cx.profile.mig.layout;
        let variant = variant(cx, ENTRY.name, text, layout(cx, text, tenants(cx)));
        Configuration {
            variant: variant.clone(),
            host_changes: changes(cx, layout(cx, text, tenants(cx))),
            stage: Some(HostStage {
                key: variant,
                allows_native: false,
            }),
            checks: OpeningChecks::default(),
            refuses_outsiders: false,
            memory_limit_bytes: None,
            compute_limit: None,
        }
    }

    fn enter(&self, cx: &MechanismContext<'_>, guard: &mut Guard) -> Result<InForce, HostError> {
        let instances = enter(cx, guard, &cx.profile.mig.layout, tenants(cx))?;
        Ok(InForce {
            instances,
            ..InForce::default()
        })
    }

    fn tenant_env(&self, _cx: &MechanismContext<'_>, set_up: &InForce, slot: usize) -> TenantEnv {
        instance_env(set_up.instances.get(slot))
    }

    fn prove(&self, cx: &MechanismContext<'_>, observed: &Observation) -> Vec<Proof> {
        if observed.condition.is_native() || observed.tenants.is_empty() {
            return Vec::new();
        }
        let uuids: Vec<String> = observed.tenants.iter().map(instance_uuid).collect();
        let mut distinct = uuids.clone();
        distinct.sort();
        distinct.dedup();
        let is_disjoint =
            distinct.len() == uuids.len() && uuids.iter().all(|uuid| !uuid.is_empty());
        let mut proofs = vec![
            Proof {
                hardware: is_disjoint,
                ..proof_of(
                    "each tenant is in an instance of its own",
                    is_disjoint,
                    format!("instances: {uuids:?}"),
                )
            },
            assigned(observed),
            sizes(cx, &cx.profile.mig.layout, tenants(cx), observed),
        ];
        proofs.extend(user_program::in_instance(observed));
        proofs
    }
}

fn tenants(cx: &MechanismContext<'_>) -> usize {
    cx.profile.tenants as usize
}

/// The variable with which a tenant sees this instance only.
pub(super) fn instance_env(instance: Option<&Instance>) -> TenantEnv {
    let uuid = instance.and_then(|instance| instance.compute.first());
    uuid.map(|compute| ("CUDA_VISIBLE_DEVICES".into(), compute.uuid.clone().into()))
        .into_iter()
        .collect()
}

/// The UUID of the instance that a tenant sees.
fn instance_uuid(tenant: &TenantObservation) -> String {
    // A tenant that reports none is in no instance, and the proof fails.
    tenant.facts.get("uuid").cloned().unwrap_or_default()
}

/// Whether each tenant is in the instance that was assigned to it.
pub(super) fn assigned(observed: &Observation) -> Proof {
    // A tenant reports the UUID without its prefix.
    let digits = |uuid: &str| uuid.trim_start_matches("MIG-").to_owned();
    let mut holds = !observed.tenants.is_empty();
    let mut reported = Vec::new();
    for tenant in &observed.tenants {
        let handed = tenant.visible_devices.as_deref().unwrap_or("");
        let sees = instance_uuid(tenant);
        holds &= !handed.is_empty() && digits(handed) == digits(&sees);
        reported.push(format!(
            "{} was handed {handed} and sees {sees}",
            tenant.name()
        ));
    }
    let check = "each tenant sees the instance that it was handed";
    proof_of(check, holds, reported.join(", "))
}

/// Whether each tenant sees the SMs, and at most the memory, of its instance.
pub(super) fn sizes(
    cx: &MechanismContext<'_>,
    text: &str,
    count: usize,
    observed: &Observation,
) -> Proof {
    const CHECK: &str = "each tenant sees the SMs and the memory of its instance";
    let all = &cx.facts.mig_profiles;
    let wanted: Vec<&InstanceProfile> = match layout(cx, text, count) {
        Ok(Layout::Make(wanted)) => wanted
            .iter()
            .filter_map(|one| all.iter().find(|profile| profile.id == one.profile.id))
            .collect(),
        Ok(Layout::Existing(existing)) => existing
            .iter()
            .filter_map(|i| all.iter().find(|profile| profile.id == i.profile_id))
            .collect(),
        Err(reason) => return proof_of(CHECK, false, reason),
    };
    let mut holds = true;
    let mut reported = Vec::new();
    for tenant in &observed.tenants {
        let Some(profile) = wanted.get(tenant.slot).or(wanted.last()) else {
            return proof_of(CHECK, false, format!("{} has no instance", tenant.name()));
        };
        let sms = tenant.number("sm_count");
        let memory_mib = tenant.number("memory_total_bytes").map(|bytes| bytes >> 20);
        holds &= sms == Some(u64::from(profile.sm_count))
            && memory_mib.is_some_and(|mib| mib <= profile.memory_mib);
        reported.push(format!(
            "{} {sms:?} SMs and {memory_mib:?} MiB in {} ({} SMs, {} MiB)",
            tenant.name(),
            profile.name,
            profile.sm_count,
            profile.memory_mib
        ));
    }
    Proof {
        hardware: holds,
        ..proof_of(CHECK, holds, reported.join(", "))
    }
}
