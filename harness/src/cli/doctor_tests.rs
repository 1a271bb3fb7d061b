//! What `doctor` says of a mechanism is what `plan` skips it for and what the matrix waives it
//! with, word by word: on every machine, for every way in which a host can lack one.

use gpubench_record::{MechanismRow, Outcome, OutcomeKind};
use gpubench_virtual_gpu::machine::{BUILT_IN, Machine};

use super::doctor::mechanism_row;
use crate::device::mig::{ComputeInstance, Instance, InstanceProfile, Placement};
use crate::judge::{capabilities, mechanism_rows};
use crate::mechanism::HostFacts;
use crate::mechanism::control_groups::ControlGroups;
use crate::mechanism::facts::HamiLibrary;
use crate::plan::{self, Availability, PlanError};
use crate::profile::options::Slice;
use crate::profile::{Overrides, Profile, load};

type TestResult = Result<(), Box<dyn std::error::Error>>;

/// A machine whose host lacks nothing that its driver has, with leave and rights.
fn able(machine: &Machine) -> HostFacts {
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
                    .map(|&start| Placement {
                        start,
                        size: profile.memory_slots,
                    })
                    .collect(),
            })
            .collect(),
        mps_control: Some("/usr/bin/nvidia-cuda-mps-control".into()),
        nvidia_smi: Some("/usr/bin/nvidia-smi".into()),
        control_groups: Some(ControlGroups {
            path: "/sys/fs/cgroup".into(),
            problem: None,
        }),
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

/// A way to lack mechanisms: what it is, what it does to a host, and one mechanism of `hopper` that
/// it waives with a part of the reason.
type Way = (&'static str, fn(&mut HostFacts), &'static str, &'static str);

const WAYS: [Way; 19] = [
    (
        "no leave",
        |f| f.allow_reconfigure = false,
        "mig",
        "device settings (MIG)",
    ),
    (
        "no leave for a mode",
        |f| f.allow_reconfigure = false,
        "exclusive-process",
        "compute mode",
    ),
    (
        "no leave for a slice",
        |f| f.allow_reconfigure = false,
        "time-slicing",
        "time slice",
    ),
    (
        "no rights",
        |f| f.may_change_settings = false,
        "mig",
        "takes CAP_SYS_ADMIN",
    ),
    (
        "no rights for a group",
        |f| f.may_change_settings = false,
        "mps-memory",
        "CAP_SYS_ADMIN",
    ),
    (
        "busy",
        |f| f.holders = vec![7],
        "mig",
        "processes [7] use the device",
    ),
    (
        "no MPS",
        |f| f.mps_control = None,
        "mps-quota",
        "not on PATH",
    ),
    (
        "no nvidia-smi",
        |f| f.nvidia_smi = None,
        "time-slicing",
        "nvidia-smi",
    ),
    (
        "no library",
        |f| f.hami = None,
        "hami",
        "libvgpu.so was not found",
    ),
    (
        "another library",
        |f| (f.hami, f.hami_asked) = (None, Some("/x.so".into())),
        "hami",
        "/x.so cannot be read",
    ),
    (
        "static tenants",
        |f| f.static_programs = vec!["/x".into()],
        "hami",
        "/x is a static binary",
    ),
    (
        "an old driver",
        |f| f.driver_major = Some(570),
        "mps-static",
        "need driver 590",
    ),
    (
        "an older one",
        |f| f.cuda = 12000,
        "green-context",
        "green contexts need 12.4",
    ),
    (
        "an old chip",
        |f| f.compute_capability = (6, 1),
        "mps",
        "compute capability 6.1",
    ),
    (
        "a divided device",
        |f| f.mig = Some(true),
        "mps",
        "MIG mode is on",
    ),
    (
        "a pending mode",
        |f| f.mig_pending = Some(true),
        "mig",
        "on is pending: the GPU must be reset",
    ),
    (
        "hidden MIG",
        |f| f.mig_problem = Some("no permission".to_owned()),
        "mig",
        "no permission",
    ),
    (
        "no groups",
        |f| f.control_groups = None,
        "mps-memory",
        "control groups of version 2",
    ),
    (
        "one process",
        |f| f.compute_mode = Some("EXCLUSIVE_PROCESS".to_owned()),
        "hami",
        "keeps a second process out",
    ),
];

/// How the matrix of a host shows each mechanism: the variant with reason and remedy, if waived.
/// What is planned has cells.
fn matrix(profile: &Profile, facts: &HostFacts) -> Result<Vec<MechanismRow>, PlanError> {
    let plan = plan::plan(profile, &capabilities(facts, profile), "ptx")?;
    for planned in &plan.mechanisms {
        let mut cells = plan.cells.iter();
        let runs = cells.any(|cell| cell.variant == planned.variant);
        assert!(runs, "{} is planned without a cell", planned.variant);
    }
    let ran = plan.mechanisms.iter().map(|planned| MechanismRow {
        name: planned.name.clone(),
        variant: planned.variant.clone(),
        outcome: Outcome::measured(),
        remedy: None,
        proof: Vec::new(),
    });
    let mut rows = ran.collect();
    mechanism_rows::settle(&mut rows, &plan.skips);
    Ok(rows)
}

/// Holds what `doctor` says against the matrix; the reason for which one mechanism is waived.
fn compare(profile: &Profile, facts: &HostFacts, of: &str) -> Result<String, String> {
    let doctor = capabilities(facts, profile).mechanisms;
    let rows = match matrix(profile, facts) {
        Ok(rows) => rows,
        // Where nothing is left there is no matrix, and the refusal lists what doctor says.
        Err(PlanError::NothingToRun { reasons }) => {
            let waived = doctor
                .iter()
                .filter(|c| c.availability != Availability::Available);
            let told = waived.map(|capability| match &capability.availability {
                Availability::Waived { reason, .. } => {
                    format!("{}: {reason}", capability.variant.variant)
                }
                Availability::Available => String::new(),
            });
            assert_eq!(told.collect::<Vec<String>>(), reasons);
            return Ok(String::new());
        }
        Err(error) => return Err(error.to_string()),
    };
    let mut found = String::new();
    assert_eq!(doctor.len(), rows.len(), "one row each");
    for capability in &doctor {
        let [variant, verdict, way] = mechanism_row(capability);
        let mut same = rows.iter().filter(|row| row.variant == variant);
        let row = same.next().ok_or(format!("{variant} has no row"))?;
        let reason = row.outcome.reason.clone().unwrap_or_default();
        match &capability.availability {
            Availability::Available => {
                assert_eq!(row.outcome.outcome, OutcomeKind::Measured, "{variant}");
                assert_eq!((verdict.as_str(), way.as_str()), ("available", "-"));
            }
            Availability::Waived { .. } => {
                assert_eq!(row.outcome.outcome, OutcomeKind::Waived, "{variant}");
                assert_eq!(verdict, format!("waived: {reason}"), "{variant}");
                assert_eq!(
                    way,
                    row.remedy.clone().unwrap_or("-".to_owned()),
                    "{variant}"
                );
                if capability.variant.mechanism == of {
                    found = reason;
                }
            }
        }
    }
    Ok(found)
}

#[test]
fn doctor_the_plan_and_the_matrix_say_the_same() -> TestResult {
    let mut profile = load("smoke", &Overrides::default())?;
    profile.time_slicing.slice = Slice::Short;
    for (name, _) in BUILT_IN {
        let machine = Machine::load(name)?;
        for (way, bend, mechanism, part) in WAYS {
            let mut facts = able(&machine);
            let whole = compare(&profile, &facts, mechanism)?;
            bend(&mut facts);
            let reason = compare(&profile, &facts, mechanism)?;
            if *name == "hopper" {
                assert_eq!(whole, "", "{way}: {mechanism} runs on a whole host");
                assert!(reason.contains(part), "{way}: {mechanism}: {reason:?}");
            }
        }
    }
    Ok(())
}

/// Two instances of half a device each.
fn halves(facts: &HostFacts) -> Vec<Instance> {
    let half = facts.mig_profiles.iter().find(|one| one.slices == 3);
    let places = half.iter().flat_map(|half| half.placements.clone());
    let instance = |(id, placement): (u32, Placement)| Instance {
        id,
        profile_id: half.map_or(0, |half| half.id),
        placement,
        compute: vec![ComputeInstance {
            id: 0,
            profile_id: 2,
            uuid: format!("MIG-{id}"),
        }],
    };
    (1..).zip(places).map(instance).collect()
}

#[test]
fn under_mig_only_what_runs_in_an_instance_is_available() -> TestResult {
    let profile = load("smoke", &Overrides::default())?;
    let mut divided = able(&Machine::load("hopper")?);
    (divided.mig, divided.mig_pending) = (Some(true), Some(true));
    let there = halves(&divided);
    assert_eq!(there.len(), 2);
    for (instances, leave, available) in [
        (vec![], false, &[][..]),
        (vec![], true, &["mig", "mig-mps"][..]),
        (there.clone(), false, &["mig", "mig-mps"]),
        (there.clone(), true, &["mig", "mig-mps"]),
        // Beside one half there is room for another, with leave.
        (there[..1].to_vec(), false, &["mig-mps"]),
        (there[..1].to_vec(), true, &["mig-mps"]),
    ] {
        let mut facts = divided.clone();
        (facts.mig_instances, facts.allow_reconfigure) = (instances, leave);
        let has = (facts.mig_instances.len(), leave);
        compare(&profile, &facts, "")?;
        for capability in capabilities(&facts, &profile).mechanisms {
            let name = capability.variant.mechanism.as_str();
            let is_there = capability.availability == Availability::Available;
            assert_eq!(is_there, available.contains(&name), "{name} with {has:?}");
            if let Availability::Waived { reason, remedy } = capability.availability
                && !name.starts_with("mig")
            {
                assert_eq!(
                    reason, "MIG mode is on, so there is no whole device",
                    "{name}"
                );
                let whole = ["nvidia-smi -mig 0", "-i", &facts.uuid].join(" ");
                assert_eq!(remedy, Some(whole), "{name}");
            }
        }
    }
    Ok(())
}

#[test]
fn the_built_in_profiles_have_time_for_every_mechanism_of_a_host() -> TestResult {
    for name in ["smoke", "default"] {
        let mut profile = load(name, &Overrides::default())?;
        profile.time_slicing.slice = Slice::Short;
        let facts = able(&Machine::load("hopper")?);
        let plan = plan::plan(&profile, &capabilities(&facts, &profile), "ptx")?;
        assert_eq!(plan.skips, [], "{name}");
        assert_eq!(
            plan.mechanisms.len(),
            crate::catalogue::names().len(),
            "{name}"
        );
    }
    Ok(())
}
