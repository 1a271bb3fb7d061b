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

use gpubench_plan::Availability;
use gpubench_record::{Proof, Sharing, SmNumbers};

use super::host::{Guard, HostError};
use super::interface::{About, Requirement, USUAL};
use super::mig_layout::{Layout, available, changes, enter, layout, variant};
use super::{
    Configuration, HostStage, InForce, Mechanism, MechanismContext, MechanismEntry, Observation,
    OpeningChecks, OptionEntry, TenantEnv, TenantObservation,
};
use crate::device::mig::{Instance, InstanceProfile};

#[derive(Debug)]
pub struct Mig;

const ENTRY: MechanismEntry = MechanismEntry {
    name: "mig",
    summary: "each process has a hardware instance of its own",
    about: About {
        since: "driver 450",
        needs: "a GPU with MIG; --allow-reconfigure, root",
        changes: "MIG mode, instances",
        proof: "UUID, SMs and memory of the instance of each tenant",
        deployed_by: "the GPU Operator (mig-manager), DRA",
    },
    group: "mig",
    reconfigures: true,
    options: &[OptionEntry {
        key: "layout",
        summary: "sizes of the instances, the victim's first",
        accepted: &["auto", "3g+3g", "3g.40gb+4g.40gb"],
    }],
    sharing: Sharing::InSpace,
    sm_numbers: SmNumbers::OfPart,
    ..USUAL
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
            stage: Some(HostStage { key: variant, allows_native: false }),
            checks: OpeningChecks::default(),
            refuses_outsiders: false,
            memory_limit_bytes: None,
            compute_limit: None,
            required: vec![OWN_INSTANCES, ASSIGNED, SIZES, LISTED],
        }
    }

    fn enter(&self, cx: &MechanismContext<'_>, guard: &mut Guard) -> Result<InForce, HostError> {
        let instances = enter(cx, guard, &cx.profile.mig.layout, tenants(cx))?;
        Ok(InForce { instances, ..InForce::default() })
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
                ..OWN_INSTANCES.proof(is_disjoint, format!("instances: {uuids:?}"))
            },
            assigned(observed),
            sizes(cx, &cx.profile.mig.layout, tenants(cx), observed),
        ];
        proofs.extend(listed_in_instances(observed));
        proofs
    }
}

/// No two tenants share an instance.
const OWN_INSTANCES: Requirement = Requirement::at_open("each tenant is in an instance of its own");
/// Each tenant has the instance that it was handed.
pub(super) const ASSIGNED: Requirement =
    Requirement::at_open("each tenant sees the instance that it was handed");
pub(super) const SIZES: Requirement =
    Requirement::at_open("each tenant sees the SMs and the memory of its instance");
pub(super) const LISTED: Requirement =
    Requirement::during("NVML lists each tenant in the instance that it was handed");

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
        reported.push(format!("{} was handed {handed} and sees {sees}", tenant.name()));
    }
    ASSIGNED.proof(holds, reported.join(", "))
}

/// Whether NVML lists each tenant, and a user's program, in its instance and in no other. `None`
/// where NVML reports no instance, as without root.
pub(super) fn listed_in_instances(observed: &Observation) -> Option<Proof> {
    let handed = observed.tenants.iter().map(|t| (t.pid, t.handed_instance));
    let of_program = observed.program.iter().flat_map(|program| {
        let working = program.working.iter();
        working.map(|&pid| (pid, program.handed_instance))
    });
    let handed: Vec<(u32, Option<u32>)> = handed.chain(of_program).collect();
    let known: Vec<u32> = observed.instances.iter().filter_map(|one| one.1).collect();
    if known.is_empty() {
        return None;
    }
    let is_ours = |pid: u32| handed.iter().any(|one| one.0 == pid);
    if !observed.instances.iter().any(|one| is_ours(one.0)) {
        // Process ids of another PID namespace: only the instances are compared.
        let sorted = |mut all: Vec<u32>| {
            all.sort_unstable();
            all
        };
        let wanted = sorted(handed.iter().filter_map(|one| one.1).collect());
        let known = sorted(known);
        let evidence = format!("processes of another namespace in {known:?}, handed {wanted:?}");
        return Some(LISTED.proof(known == wanted, evidence));
    }
    let listed_in = |pid: u32| -> Vec<Option<u32>> {
        let all = observed.instances.iter().filter(|one| one.0 == pid);
        all.map(|one| one.1).collect()
    };
    let is_there = |&(pid, instance): &(u32, Option<u32>)| {
        let listed = listed_in(pid);
        instance.is_some() && !listed.is_empty() && listed.iter().all(|one| *one == instance)
    };
    let number = |id: Option<u32>| id.map_or_else(|| "none".to_owned(), |id| id.to_string());
    let text = |&(pid, instance): &(u32, Option<u32>)| {
        let listed: Vec<String> = listed_in(pid).into_iter().map(number).collect();
        format!("{pid} handed {}, in [{}]", number(instance), listed.join(", "))
    };
    let reported: Vec<String> = handed.iter().map(text).collect();
    let holds = !handed.is_empty() && handed.iter().all(is_there);
    Some(LISTED.proof(holds, format!("instances by NVML: {}", reported.join("; "))))
}

/// Whether each tenant sees the SMs, and at most the memory, of its instance.
pub(super) fn sizes(
    cx: &MechanismContext<'_>,
    text: &str,
    count: usize,
    observed: &Observation,
) -> Proof {
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
        Err(reason) => return SIZES.proof(false, reason),
    };
    let mut holds = true;
    let mut reported = Vec::new();
    for tenant in &observed.tenants {
        let Some(profile) = wanted.get(tenant.slot).or(wanted.last()) else {
            return SIZES.proof(false, format!("{} has no instance", tenant.name()));
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
    Proof { hardware: holds, ..SIZES.proof(holds, reported.join(", ")) }
}

#[cfg(test)]
mod tests {
    use gpubench_plan::Availability;
    use gpubench_plan::profile::{Overrides, Profile, built_in};
    use gpubench_record::Condition;

    use super::{Mig, assigned, instance_env};
    use crate::device::mig::{ComputeInstance, Instance, Placement};
    use crate::mechanism::tests::profile_of;
    use crate::mechanism::{
        HostFacts, Mechanism, MechanismContext, Observation, TenantObservation,
    };

    /// Two sizes of an H100.
    fn facts() -> HostFacts {
        HostFacts {
            mig: Some(false),
            allow_reconfigure: true,
            may_change_settings: true,
            mig_profiles: vec![
                profile_of(19, "1g.10gb", 1, 16, &[0, 1, 2, 3, 4, 5, 6], 1),
                profile_of(9, "3g.40gb", 3, 60, &[0, 4], 4),
                profile_of(0, "7g.80gb", 7, 132, &[0], 8),
            ],
            ..HostFacts::default()
        }
    }

    fn profile(layout: &str) -> Profile {
        let mut profile = built_in("smoke", &Overrides::default()).expect("built in");
        profile.mig.layout = layout.to_owned();
        profile
    }

    fn verdict(facts: &HostFacts, layout: &str) -> (String, String) {
        let profile = profile(layout);
        let cx = MechanismContext { profile: &profile, facts };
        let verdict = match Mig.availability(&cx) {
            Availability::Available => "available".to_owned(),
            Availability::Waived { reason, .. } => reason,
        };
        (Mig.configuration(&cx).variant, verdict)
    }

    #[test]
    fn a_layout_is_available_or_waived_with_a_reason() {
        let mut facts = facts();
        let check = |facts: &HostFacts, layout: &str, variant: &str, reason: &str| {
            let (named, found) = verdict(facts, layout);
            assert_eq!(named, variant);
            assert!(found.contains(reason), "{layout}: {found}");
        };
        check(&facts, "auto", "mig[3g+3g]", "available");
        check(&facts, "3g+1g", "mig[3g+1g]", "available");
        check(&facts, "1g+3g", "mig[1g+3g]", "1g.10gb has 16 of 132 SMs");
        check(&facts, "3g+3g+3g", "mig[3g+3g+3g]", "does not fit");
        check(&facts, "5g+5g", "mig[5g+5g]", "no profile 5g (known: 1g.10gb, 3g.40gb, 7g.80gb)");
        check(&facts, "7g", "mig[7g]", "1 instance for 2 tenants, and each takes one");
        let with = |change: &dyn Fn(&mut HostFacts)| {
            let mut facts = facts.clone();
            change(&mut facts);
            facts
        };
        let busy = with(&|facts| facts.holders = vec![77]);
        check(&busy, "auto", "mig[3g+3g]", "processes [77] use the device");
        let pending = with(&|facts| facts.mig_pending = Some(true));
        check(&pending, "auto", "mig[3g+3g]", "on is pending");
        let ordinary = with(&|facts| facts.may_change_settings = false);
        check(&ordinary, "auto", "mig[3g+3g]", "CAP_SYS_ADMIN");
        let blind = with(&|facts| facts.mig_problem = Some("no permission".to_owned()));
        check(&blind, "auto", "mig[3g+3g]", "no permission");
        facts.allow_reconfigure = false;
        check(&facts, "auto", "mig[3g+3g]", "device settings");
        facts.mig = None;
        check(&facts, "auto", "mig[3g+3g]", "no MIG");
    }

    fn instance(id: u32, start: u32) -> Instance {
        Instance {
            id,
            profile_id: 9,
            placement: Placement { start, size: 4 },
            compute: vec![ComputeInstance { id: 0, profile_id: 2, uuid: format!("MIG-{id}") }],
        }
    }

    #[test]
    fn existing_instances_need_no_permission() {
        let existing = HostFacts {
            mig: Some(true),
            allow_reconfigure: false,
            mig_instances: vec![instance(1, 0), instance(2, 4)],
            ..facts()
        };
        assert_eq!(verdict(&existing, "auto"), ("mig[3g+3g]".into(), "available".into()));
        let one = HostFacts { mig_instances: vec![instance(1, 0)], ..existing };
        assert!(verdict(&one, "auto").1.contains("does not fit beside the 1 existing instances"));
        let env = instance_env(Some(&instance(7, 0)));
        assert_eq!(
            env.values().next().map(|v| v.to_string_lossy().into_owned()),
            Some("MIG-7".to_owned())
        );
    }

    #[test]
    fn each_tenant_must_be_in_an_instance_of_its_own() {
        let (profile, facts) = (profile("auto"), facts());
        let cx = MechanismContext { profile: &profile, facts: &facts };
        let tenant = |slot, uuid: &str, sms: &str, bytes: u64| TenantObservation {
            slot,
            facts: [
                ("uuid", uuid.to_owned()),
                ("sm_count", sms.to_owned()),
                ("memory_total_bytes", bytes.to_string()),
            ]
            .into_iter()
            .map(|(name, fact)| (name.to_owned(), fact))
            .collect(),
            ..TenantObservation::default()
        };
        let mib = 1 << 20;
        for (first, second, expected) in [
            (("MIG-1", "60", 39_000), ("MIG-2", "60", 39_000), [true, true]),
            (("MIG-1", "60", 39_000), ("MIG-1", "60", 39_000), [false, true]),
            (("MIG-1", "60", 39_000), ("MIG-2", "132", 39_000), [true, false]),
            (("MIG-1", "60", 80_000), ("MIG-2", "60", 39_000), [true, false]),
            (("MIG-1", "60", 39_000), ("", "60", 39_000), [false, true]),
        ] {
            let observed = Observation {
                tenants: vec![
                    tenant(0, first.0, first.1, first.2 * mib),
                    tenant(1, second.0, second.1, second.2 * mib),
                ],
                ..Observation::new(Condition::C, vec![7, 8])
            };
            let proofs = Mig.prove(&cx, &observed);
            let holds = [&proofs[0], &proofs[2]].map(|proof| proof.holds);
            assert_eq!(holds, expected, "{proofs:?}");
            let hardware = [&proofs[0], &proofs[2]].map(|proof| proof.hardware);
            assert_eq!(hardware, expected);
        }
    }

    #[test]
    fn each_tenant_must_see_its_assigned_instance() {
        let tenant = |slot, handed: Option<&str>, sees: &str| TenantObservation {
            slot,
            visible_devices: handed.map(str::to_owned),
            facts: [("uuid".to_owned(), sees.to_owned())].into_iter().collect(),
            ..TenantObservation::default()
        };
        for (first, second, expected) in [
            ((Some("MIG-aa-1"), "aa-1"), (Some("MIG-aa-2"), "aa-2"), true),
            ((Some("MIG-aa-1"), "aa-2"), (Some("MIG-aa-2"), "aa-1"), false),
            ((Some("MIG-aa-1"), "aa-1"), (None, "aa-2"), false),
            ((Some("MIG-aa-1"), "aa-1"), (Some("MIG-aa-2"), ""), false),
        ] {
            let observed = Observation {
                tenants: vec![tenant(0, first.0, first.1), tenant(1, second.0, second.1)],
                ..Observation::new(Condition::C, vec![7, 8])
            };
            assert_eq!(assigned(&observed).holds, expected, "{observed:?}");
        }
    }
}
