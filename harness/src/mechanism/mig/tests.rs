//! Layouts on hosts with and without `--allow-reconfigure`, and the proofs of separate instances.

use super::{Mig, assigned, instance_env};
use crate::device::mig::{ComputeInstance, Instance, InstanceProfile, Placement};
use crate::mechanism::{HostFacts, Mechanism, MechanismContext, Observation, TenantObservation};
use crate::plan::Availability;
use crate::profile::{Overrides, Profile, load};
use gpubench_record::Condition;

/// Two sizes of an H100.
fn facts() -> HostFacts {
    let profile = |id, name: &str, slices, max, sm_count, starts: &[u32], size| InstanceProfile {
        id,
        name: name.to_owned(),
        slices,
        max,
        sm_count,
        memory_mib: 10_000 * u64::from(size),
        placements: starts.iter().map(|&start| Placement { start, size }).collect(),
    };
    HostFacts {
        mig: Some(false),
        allow_reconfigure: true,
        may_change_settings: true,
        mig_profiles: vec![
            profile(19, "1g.10gb", 1, 7, 16, &[0, 1, 2, 3, 4, 5, 6], 1),
            profile(9, "3g.40gb", 3, 2, 60, &[0, 4], 4),
            profile(0, "7g.80gb", 7, 1, 132, &[0], 8),
        ],
        ..HostFacts::default()
    }
}

fn profile(layout: &str) -> Profile {
    let mut profile = load("smoke", &Overrides::default()).expect("built in");
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
    check(&facts, "7g", "mig[7g]", "1 instances for 2 tenants");
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
