//! The device time of every built-in profile on a host with every mechanism, and what the runs of a
//! rotation measure together.

use std::collections::{BTreeMap, BTreeSet};

use gpubench_record::{Condition, Plan};
use gpubench_virtual_gpu::machine::{BUILT_IN, Machine};

use super::TestResult;
use super::hosts::complete_host;
use crate::judge::capabilities;
use crate::plan::{notes, plan};
use crate::profile::units::Span;
use crate::profile::{Overrides, Profile, built_in, load};

/// Longest device time of a profile; for the others that of the profile itself is the limit.
const BUDGETS: [(&str, Span); 4] = [
    ("smoke", Span::from_s(40)),
    ("default", Span::from_s(600)),
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
        for name in built_in::names() {
            let budget = BUDGETS.iter().find(|(known, _)| *known == name);
            for run in 0..5 {
                let profile = of_run(&name, run)?;
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
            assert_eq!(plan.mechanisms.len(), crate::mechanism::CATALOGUE.len());
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
