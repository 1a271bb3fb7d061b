//! `doctor`, the plan and the matrix give the same verdict of a mechanism, on every machine and
//! with every restriction of a host.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use gpubench_host::device::mig::{ComputeInstance, Instance, InstanceProfile, Placement};
use gpubench_host::mechanism::HostFacts;
use gpubench_host::mechanism::control_groups::ControlGroups;
use gpubench_host::mechanism::facts::HamiLibrary;
use gpubench_plan::profile::options::Slice;
use gpubench_plan::profile::units::Span;
use gpubench_plan::profile::{Overrides, Profile};
use gpubench_plan::{Availability, PlanError, notes, plan};
use gpubench_record::{Condition, MechanismRow, Outcome, OutcomeKind, Plan};
use gpubench_virtual_gpu::machine::{BUILT_IN, Machine};

use super::verdict::mechanism_row;
use crate::verbs::profile::load;
use crate::verbs::{
    AfterCells, FaultRequest, Repair, add_after_cells, capabilities, fidelity, open_scored, rescore,
};

type TestResult = Result<(), Box<dyn std::error::Error>>;

fn matrix(profile: &Profile, facts: &HostFacts) -> Result<Vec<MechanismRow>, PlanError> {
    let plan = gpubench_plan::plan(profile, &capabilities(facts, profile), "ptx")?;
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
        tenants: BTreeMap::new(),
    });
    let mut rows = ran.collect();
    capabilities::settle(&mut rows, &plan.skips);
    Ok(rows)
}

/// Compares the verdicts of `doctor` with the matrix. Returns the reason for which the mechanism
/// `of` is waived.
fn compare(profile: &Profile, facts: &HostFacts, of: &str) -> Result<String, String> {
    let doctor = capabilities(facts, profile).mechanisms;
    let rows = match matrix(profile, facts) {
        Ok(rows) => rows,
        // Where no mechanism can run there is no matrix, and the error lists the verdicts of
        // doctor.
        Err(PlanError::NothingToRun { reasons }) => {
            let waived = doctor.iter().filter(|c| c.availability != Availability::Available);
            let listed = waived.map(|capability| match &capability.availability {
                Availability::Waived { reason, .. } => {
                    format!("{}: {reason}", capability.variant.variant)
                }
                Availability::Available => String::new(),
            });
            assert_eq!(listed.collect::<Vec<String>>(), reasons);
            return Ok(String::new());
        }
        Err(error) => return Err(error.to_string()),
    };
    let mut found = String::new();
    assert_eq!(doctor.len(), rows.len(), "one row each");
    for capability in &doctor {
        let [variant, verdict, remedy] = mechanism_row(capability);
        let mut same = rows.iter().filter(|row| row.variant == variant);
        let row = same.next().ok_or(format!("{variant} has no row"))?;
        let reason = row.outcome.reason.clone().unwrap_or_default();
        match &capability.availability {
            Availability::Available => {
                assert_eq!(row.outcome.outcome, OutcomeKind::Measured, "{variant}");
                assert_eq!((verdict.as_str(), remedy.as_str()), ("available", "-"));
            }
            Availability::Waived { .. } => {
                assert_eq!(row.outcome.outcome, OutcomeKind::Waived, "{variant}");
                assert_eq!(verdict, format!("waived: {reason}"), "{variant}");
                assert_eq!(remedy, row.remedy.clone().unwrap_or("-".to_owned()), "{variant}");
                if capability.variant.mechanism == of {
                    found = reason;
                }
            }
        }
    }
    Ok(found)
}

#[test]
fn doctor_the_plan_and_the_matrix_agree() -> TestResult {
    let mut profile = load("smoke", &Overrides::default())?;
    profile.time_slicing.slice = Slice::Short;
    for (name, _) in BUILT_IN {
        let machine = Machine::load(name)?;
        for (restriction, restrict, mechanism, part) in RESTRICTIONS {
            let mut facts = complete_host(&machine);
            let whole = compare(&profile, &facts, mechanism)?;
            restrict(&mut facts);
            let reason = compare(&profile, &facts, mechanism)?;
            if *name == "hopper" {
                assert_eq!(whole, "", "{restriction}: {mechanism} runs on a complete host");
                assert!(reason.contains(part), "{restriction}: {mechanism}: {reason:?}");
            }
        }
    }
    Ok(())
}

#[test]
fn under_mig_only_mechanisms_in_an_instance_are_available() -> TestResult {
    let profile = load("smoke", &Overrides::default())?;
    let mut divided = complete_host(&Machine::load("hopper")?);
    (divided.mig, divided.mig_pending) = (Some(true), Some(true));
    let both = halves(&divided);
    assert_eq!(both.len(), 2);
    for (instances, allowed, available) in [
        (vec![], false, &[][..]),
        (vec![], true, &["mig", "mig-mps"][..]),
        (both.clone(), false, &["mig", "mig-mps"]),
        (both.clone(), true, &["mig", "mig-mps"]),
        // Beside one half, another can be made where reconfiguration is allowed.
        (both[..1].to_vec(), false, &["mig-mps"]),
        (both[..1].to_vec(), true, &["mig-mps"]),
    ] {
        let mut facts = divided.clone();
        (facts.mig_instances, facts.allow_reconfigure) = (instances, allowed);
        let has = (facts.mig_instances.len(), allowed);
        compare(&profile, &facts, "")?;
        for capability in capabilities(&facts, &profile).mechanisms {
            let name = capability.variant.mechanism.as_str();
            let is_available = capability.availability == Availability::Available;
            assert_eq!(is_available, available.contains(&name), "{name} with {has:?}");
            if let Availability::Waived { reason, remedy } = capability.availability
                && !name.starts_with("mig")
            {
                assert_eq!(reason, "MIG mode is on, so there is no whole device", "{name}");
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
        let facts = complete_host(&Machine::load("hopper")?);
        let plan = gpubench_plan::plan(&profile, &capabilities(&facts, &profile), "ptx")?;
        // Twelve mechanisms leave the default no room for jitter, which it says.
        let skipped: Vec<&str> = plan.skips.iter().map(|skip| skip.name.as_str()).collect();
        assert_eq!(skipped, if name == "default" { vec!["jitter"] } else { Vec::new() }, "{name}");
        assert_eq!(plan.mechanisms.len(), gpubench_catalogue::mechanism::names().len(), "{name}");
    }
    Ok(())
}

#[test]
fn a_run_of_so_many_minutes_has_the_longest_cells_that_fit() -> TestResult {
    let facts = complete_host(&Machine::load("h100-80")?);
    let profile = load("default", &Overrides::default())?;
    let plan_of = |profile: &Profile| -> Result<Plan, crate::error::ExpectedError> {
        let mut plan = gpubench_plan::plan(profile, &capabilities(&facts, profile), "ptx")?;
        add_after_cells(&mut plan, profile, &AfterCells::default(), true)?;
        Ok(plan)
    };
    let minutes_of = |profile: &Profile, plan: &Plan| {
        let left_ns = profile.device_time.ns.saturating_sub(plan.device_time_ns());
        let time_ns: u64 = plan.time.iter().map(|one| one.ns).sum();
        (time_ns + left_ns) as f64 / 60e9
    };
    for minutes in [40, 60] {
        let (fitted, plan) = super::planned(profile.clone(), Some(minutes), plan_of)?;
        let device_time = Span::from_ns(fitted.device_time.ns + 1_000_000_000);
        let more = Profile { device_time, ..fitted.clone() };
        let takes = [minutes_of(&fitted, &plan), minutes_of(&more, &plan_of(&more)?)];
        assert!(takes[0] <= minutes as f64 && takes[1] > minutes as f64, "{takes:?}");
    }
    let refused = super::planned(profile, Some(1), plan_of).map_err(|error| error.to_string());
    let text = refused.err().ok_or("one minute is enough")?;
    assert!(text.starts_with("--for-minutes 1 is too short (accepted: at least "), "{text}");
    Ok(())
}

// The device time of every built-in profile on a host with every mechanism, and what the runs of a
// rotation measure together.

/// Longest device time of a profile; for the others that of the profile itself is the limit.
const BUDGETS: [(&str, Span); 4] = [
    ("smoke", Span::from_s(40)),
    ("default", Span::from_s(720)),
    ("nightly", Span::from_s(120 * 60)),
    ("weekly", Span::from_s(480 * 60)),
];

fn of_run(name: &str, run: u32) -> Result<Profile, crate::error::ExpectedError> {
    let overrides = Overrides { rotation: Some(run), ..Overrides::default() };
    load(name, &overrides)
}

fn machine(name: &str) -> Result<Machine, Box<dyn std::error::Error>> {
    let found = BUILT_IN.iter().find(|(known, _)| *known == name);
    let (path, text) = found.ok_or("no such machine")?;
    Ok(Machine::parse(path, text)?)
}

fn planned(profile: &Profile, machine: &Machine) -> Result<Plan, Box<dyn std::error::Error>> {
    let facts = complete_host(machine);
    Ok(plan(profile, &capabilities(&facts, profile), "ptx")?)
}

#[test]
fn every_profile_keeps_its_budget_with_every_mechanism_of_a_device() -> TestResult {
    for (name, _) in BUILT_IN {
        let machine = machine(name)?;
        for name in gpubench_plan::profile::load::names() {
            let budget = BUDGETS.iter().find(|(known, _)| *known == name);
            for run in 0..5 {
                let profile = of_run(name, run)?;
                let plan = planned(&profile, &machine)?;
                let limit = budget.map_or(profile.device_time, |(_, limit)| *limit);
                let minutes = plan.device_time_ns() as f64 / 6e10;
                assert!(plan.device_time_ns() <= limit.ns, "{name}: {minutes} min");
                assert!(plan.blocks >= profile.blocks.min, "{name}");
            }
        }
    }
    Ok(())
}

#[test]
fn a_night_and_a_week_have_every_mechanism_full_cells_and_time_for_more_blocks() -> TestResult {
    let machine = machine("h200")?;
    for name in ["nightly", "weekly"] {
        for run in 0..5 {
            let profile = of_run(name, run)?;
            let plan = planned(&profile, &machine)?;
            assert!(plan.skips.is_empty(), "{name}: {:?}", plan.skips);
            assert_eq!(plan.mechanisms.len(), gpubench_host::mechanism::CATALOGUE.len());
            // Whole periods of HAMi's limiter, 120 ms.
            let closed_ns = profile.cell.closed.ns;
            assert_eq!(plan.durations.closed_ns, closed_ns - closed_ns % 120_000_000, "{name}");
            assert_eq!(plan.durations.open_ns, profile.cell.open.ns, "{name}");
            assert_eq!(notes(&plan, &profile), Vec::<String>::new(), "{name} {run}");
            // One block in ten more, for the rows that need it.
            let limit = profile.device_time.ns;
            assert!(plan.device_time_ns() <= limit - limit / 10, "{name} {run}");
        }
    }
    Ok(())
}

#[test]
fn the_runs_of_a_cycle_have_every_dose_of_every_pair_and_one_hash() -> TestResult {
    let machine = machine("h200")?;
    let mut hashes = BTreeSet::new();
    let mut curves: BTreeMap<String, u32> = BTreeMap::new();
    for run in 0..5 {
        let profile = of_run("nightly", run)?;
        let plan = planned(&profile, &machine)?;
        hashes.insert(plan.profile_hash.clone());
        let rotation = plan.rotation.as_ref().ok_or("no rotation is recorded")?;
        assert_eq!((rotation.run, rotation.runs), (run, 5));
        for pair in &plan.pairs {
            let of_pair = plan.cells.iter().filter(|cell| {
                cell.condition == Condition::C
                    && cell.victim == pair.victim
                    && cell.aggressor.as_deref() == Some(&pair.aggressor)
            });
            let doses: BTreeSet<String> = of_pair.map(|cell| cell.dose.to_string()).collect();
            let left_out = rotation.not_planned.iter().find(|one| one.pair == *pair);
            let left_out = left_out.map_or(&[][..], |one| &one.doses);
            assert_eq!(doses.len() + left_out.len(), profile.doses.len());
            assert!(doses.contains("1"), "{pair:?}");
            if doses.len() == profile.doses.len() {
                *curves.entry(format!("{pair:?}")).or_default() += 1;
            }
        }
    }
    assert_eq!(hashes.len(), 1, "the rotation is no part of the hash");
    assert_eq!(curves.len(), 5);
    assert!(curves.values().all(|&nights| nights == 1), "{curves:?}");
    Ok(())
}

#[test]
fn weeks_have_other_service_times_and_one_hash() -> TestResult {
    let machine = machine("h200")?;
    let mut hashes = BTreeSet::new();
    let mut services = Vec::new();
    for run in 0..4 {
        let plan = planned(&of_run("weekly", run)?, &machine)?;
        hashes.insert(plan.profile_hash.clone());
        services.push(plan.service_ns);
        let rotation = plan.rotation.ok_or("no rotation is recorded")?;
        assert_eq!(rotation.services_not_planned_ns.len(), 2);
        assert!(!rotation.services_not_planned_ns.contains(&plan.service_ns));
    }
    assert_eq!(services, [1_000_000, 100_000, 10_000_000, 1_000_000]);
    assert_eq!(hashes.len(), 1);
    Ok(())
}

// The profile that a record gives plans what the record has.

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../reports/examples");

/// Each example with the number of its faults, and whether it has probes that no row needs.
const AFTER_CELLS: [(&str, usize, bool); 4] = [
    ("h100_580.159.04_matrix", 0, false),
    ("h100_580.159.04_faults-mps", 22, false),
    ("h100_580.159.04_faults-time-slicing", 19, false),
    ("h100_580.159.04_probes", 0, true),
];

#[test]
fn the_profile_of_an_example_plans_its_mechanisms_pairs_lengths_and_seed() -> TestResult {
    let facts = complete_host(&Machine::load("h100-80")?);
    for (name, faults, probes) in AFTER_CELLS {
        let mut run = open_scored(&Path::new(EXAMPLES).join(name), Repair::No)?.run;
        rescore(&mut run, &[])?;
        let profile = fidelity::profile(&run, load("default", &Overrides::default())?, 3);
        let planned = plan(&profile, &capabilities(&facts, &profile), "ptx")?;
        let variants = |plan: &gpubench_record::Plan| -> Vec<String> {
            plan.mechanisms.iter().map(|one| one.variant.clone()).collect()
        };
        assert_eq!(variants(&planned), variants(&run.plan), "{name}");
        assert_eq!(planned.pairs, run.plan.pairs, "{name}");
        assert_eq!(planned.durations, run.plan.durations, "{name}");
        assert_eq!((planned.blocks, planned.seed), (3, run.seed), "{name}");
        assert_eq!(planned.soak, None, "{name}");
        let share = (planned.load, planned.share, planned.service_ns);
        assert_eq!(share, (run.plan.load, run.plan.share, run.plan.service_ns), "{name}");
        // Every cell of the record's first three blocks, in whatever order.
        let cells = |plan: &gpubench_record::Plan| {
            let is_victim = |name: &String| plan.pairs.iter().any(|pair| pair.victim == *name);
            let cells = plan.cells.iter().filter(|cell| cell.block < 3);
            // The record is older than cells of aggressors alone.
            let cells = cells.filter(|cell| is_victim(&cell.victim));
            let mut keys: Vec<String> = cells
                .map(|cell| {
                    let aggressor = cell.aggressor.as_deref().unwrap_or("-");
                    let (variant, victim) = (&cell.variant, &cell.victim);
                    format!("{variant} {:?} {victim} {aggressor} {}", cell.condition, cell.dose)
                })
                .collect();
            keys.sort();
            keys.dedup();
            keys
        };
        assert_eq!(cells(&planned), cells(&run.plan), "{name}");
        let after = fidelity::after_cells(&run, 2);
        assert_eq!((after.probes, after.escape), (probes, false), "{name}");
        let found = match &after.faults {
            FaultRequest::On(names) => names.len(),
            _ => 0,
        };
        assert_eq!(found, faults, "{name}");
    }
    Ok(())
}

#[test]
fn the_machine_follows_from_the_board_of_the_record() -> TestResult {
    let mut run = open_scored(&Path::new(EXAMPLES).join(AFTER_CELLS[0].0), Repair::No)?.run;
    let named = |run: &_, machine| fidelity::machine_name("r", run, machine);
    assert_eq!(named(&run, None)?, "h100-80");
    assert_eq!(named(&run, Some("hopper"))?, "hopper");
    "NVIDIA B200".clone_into(&mut run.device.name);
    assert_eq!(named(&run, None)?, "b200");
    "NVIDIA L40".clone_into(&mut run.device.name);
    assert!(named(&run, None).is_err());
    Ok(())
}

// Hosts of these tests: one on which every mechanism runs, and what can be missing on a host.

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
    ("no nvidia-smi", |f| f.no_nvidia_smi = Some("gone".into()), "time-slicing", "nvidia-smi"),
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
