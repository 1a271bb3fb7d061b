//! The hosts on which `mps-memory` can run, and its waivers.

use super::MpsMemory;
use crate::mechanism::control_groups::ControlGroups;
use crate::mechanism::{HostFacts, Mechanism, MechanismContext};
use crate::plan::Availability;
use crate::profile::options::LimitBy;
use crate::profile::{Overrides, Profile, load};

fn able() -> HostFacts {
    HostFacts {
        driver_major: Some(615),
        cuda: 13040,
        compute_capability: (9, 0),
        memory_mib: 81_920,
        compute_mode: Some("DEFAULT".to_owned()),
        mps_control: Some("/usr/bin/nvidia-cuda-mps-control".into()),
        nvidia_smi: Some("/usr/bin/nvidia-smi".into()),
        control_groups: Some(ControlGroups { path: "/sys/fs/cgroup".into(), problem: None }),
        allow_reconfigure: true,
        may_change_settings: true,
        ..HostFacts::default()
    }
}

/// Reason and remedy of the waiver; empty if it can run.
fn waiver(profile: &Profile, facts: &HostFacts) -> (String, String) {
    match MpsMemory.availability(&MechanismContext { profile, facts }) {
        Availability::Available => (String::new(), String::new()),
        Availability::Waived { reason, remedy } => (reason, remedy.unwrap_or_default()),
    }
}

fn with(change: fn(&mut HostFacts)) -> HostFacts {
    let mut facts = able();
    change(&mut facts);
    facts
}

#[test]
fn every_waiver_has_a_reason_and_a_remedy() -> Result<(), Box<dyn std::error::Error>> {
    let profile = load("smoke", &Overrides::default())?;
    assert_eq!(waiver(&profile, &able()).0, "");
    for (facts, reason, remedy) in [
        (with(|f| f.driver_major = Some(610)), "need driver 615 and CUDA 13.4", "newer driver"),
        (with(|f| f.cuda = 13010), "need driver 615 and CUDA 13.4", "newer driver"),
        (with(|f| f.compute_capability = (7, 5)), "compute capability 8.0", ""),
        (with(|f| f.mig = Some(true)), "MIG mode is on", "nvidia-smi -mig 0"),
        (with(|f| f.mps_control = None), "not on PATH", "MPS tools"),
        (with(|f| f.nvidia_smi = None), "only nvidia-smi limits", "by = \"namespace\""),
        (with(|f| f.control_groups = None), "of version 2", "by = \"namespace\""),
        (with(|f| f.allow_reconfigure = false), "memory limits", "--allow-reconfigure"),
        (with(|f| f.may_change_settings = false), "CAP_SYS_ADMIN", "run as root"),
    ] {
        let (found, help) = waiver(&profile, &facts);
        assert!(found.contains(reason) && help.contains(remedy), "{found}: {help}");
    }
    Ok(())
}

#[test]
fn an_unusable_tree_of_control_groups_waives_only_the_option_cgroup()
-> Result<(), Box<dyn std::error::Error>> {
    let mut profile = load("smoke", &Overrides::default())?;
    let mut locked = able();
    if let Some(tree) = &mut locked.control_groups {
        tree.problem = Some(("no dmem".to_owned(), "echo +dmem".to_owned()));
    }
    assert_eq!(waiver(&profile, &locked), ("no dmem".to_owned(), "echo +dmem".to_owned()));
    profile.mps_memory.by = LimitBy::Namespace;
    let plain =
        with(|f| (f.control_groups, f.nvidia_smi, f.allow_reconfigure) = Default::default());
    assert_eq!(waiver(&profile, &plain).0, "", "the server needs none of these");
    profile.mps_memory.memory_pct = 42;
    assert!(waiver(&profile, &plain).0.contains("42 % of the device memory is less than"));
    Ok(())
}
