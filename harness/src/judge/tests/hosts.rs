//! Hosts of these tests: one on which every mechanism runs, and what can be missing on a host.

use gpubench_virtual_gpu::machine::Machine;

use crate::device::mig::{ComputeInstance, Instance, InstanceProfile, Placement};
use crate::mechanism::HostFacts;
use crate::mechanism::control_groups::ControlGroups;
use crate::mechanism::facts::HamiLibrary;

/// A host on which every mechanism of this machine runs, with `--allow-reconfigure` and all rights.
pub fn complete_host(machine: &Machine) -> HostFacts {
    let (major, minor) = machine.compute_capability();
    let driver = machine.gpu.driver.split('.').next();
    let profiles = machine.mig.as_ref().map_or(&[][..], |mig| &mig.profile);
    HostFacts {
        driver_major: driver.and_then(|text| text.parse().ok()),
        cuda: machine.cuda_version(),
        compute_capability: (major.cast_signed(), minor.cast_signed()),
        uuid: machine.uuid(),
        memory_mib: machine.memory.total_mib,
        compute_mode: Some("DEFAULT".to_owned()),
        mig: machine.mig.as_ref().map(|_| false),
        mig_pending: machine.mig.as_ref().map(|_| false),
        mig_profiles: profiles
            .iter()
            .map(|profile| InstanceProfile {
                id: profile.id,
                name: profile.name.clone(),
                slices: profile.slices,
                max: profile.max,
                sm_count: profile.slices * 16,
                memory_mib: u64::from(profile.memory_slots) * 10_000,
                placements: profile
                    .starts
                    .iter()
                    .map(|&start| Placement { start, size: profile.memory_slots })
                    .collect(),
            })
            .collect(),
        mps_control: Some("/usr/bin/nvidia-cuda-mps-control".into()),
        nvidia_smi: Some("/usr/bin/nvidia-smi".into()),
        control_groups: Some(ControlGroups { path: "/sys/fs/cgroup".into(), problem: None }),
        hami: Some(HamiLibrary {
            path: "/usr/local/vgpu/libvgpu.so".into(),
            hash: String::new(),
            problem: None,
        }),
        allow_reconfigure: true,
        may_change_settings: true,
        ..HostFacts::default()
    }
}

/// A restriction of a host: its name, the change of the facts, and one mechanism of `hopper` that
/// it waives with a part of the reason.
pub type Restriction = (&'static str, fn(&mut HostFacts), &'static str, &'static str);

pub const RESTRICTIONS: [Restriction; 19] = [
    (
        "reconfiguration not allowed",
        |f| f.allow_reconfigure = false,
        "mig",
        "device settings (MIG)",
    ),
    (
        "reconfiguration not allowed: compute mode",
        |f| f.allow_reconfigure = false,
        "exclusive-process",
        "compute mode",
    ),
    (
        "reconfiguration not allowed: time slice",
        |f| f.allow_reconfigure = false,
        "time-slicing",
        "time slice",
    ),
    ("no rights", |f| f.may_change_settings = false, "mig", "takes CAP_SYS_ADMIN"),
    (
        "no rights for control groups",
        |f| f.may_change_settings = false,
        "mps-memory",
        "CAP_SYS_ADMIN",
    ),
    ("busy", |f| f.holders = vec![7], "mig", "processes [7] use the device"),
    ("no MPS", |f| f.mps_control = None, "mps-quota", "not on PATH"),
    ("no nvidia-smi", |f| f.nvidia_smi = None, "time-slicing", "nvidia-smi"),
    ("no library", |f| f.hami = None, "hami", "libvgpu.so was not found"),
    (
        "a library that is missing",
        |f| (f.hami, f.hami_requested) = (None, Some("/x.so".into())),
        "hami",
        "/x.so cannot be read",
    ),
    ("static tenants", |f| f.static_programs = vec!["/x".into()], "hami", "/x is a static binary"),
    ("an old driver", |f| f.driver_major = Some(570), "mps-static", "need driver 590"),
    ("an older driver", |f| f.cuda = 12000, "green-context", "green contexts need 12.4"),
    ("an old chip", |f| f.compute_capability = (6, 1), "mps", "compute capability 6.1"),
    ("MIG mode on", |f| f.mig = Some(true), "mps", "MIG mode is on"),
    (
        "a pending mode",
        |f| f.mig_pending = Some(true),
        "mig",
        "on is pending: the GPU must be reset",
    ),
    ("hidden MIG", |f| f.mig_problem = Some("no permission".to_owned()), "mig", "no permission"),
    ("no control groups", |f| f.control_groups = None, "mps-memory", "control groups of version 2"),
    (
        "an exclusive compute mode",
        |f| f.compute_mode = Some("EXCLUSIVE_PROCESS".to_owned()),
        "hami",
        "keeps a second process out",
    ),
];

/// Two instances of half a device each.
pub fn halves(facts: &HostFacts) -> Vec<Instance> {
    let half = facts.mig_profiles.iter().find(|one| one.slices == 3);
    let placements = half.iter().flat_map(|half| half.placements.clone());
    let instance = |(id, placement): (u32, Placement)| Instance {
        id,
        profile_id: half.map_or(0, |half| half.id),
        placement,
        compute: vec![ComputeInstance { id: 0, profile_id: 2, uuid: format!("MIG-{id}") }],
    };
    (1..).zip(placements).map(instance).collect()
}
