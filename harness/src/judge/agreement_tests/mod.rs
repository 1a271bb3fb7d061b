//! `doctor`, the plan and the matrix give the same verdict of a mechanism: on every machine, for
//! every way in which a host can lack one.

mod hosts;

use gpubench_record::{MechanismRow, Outcome, OutcomeKind};
use gpubench_virtual_gpu::machine::{BUILT_IN, Machine};

use super::verdict::mechanism_row;
use crate::judge::{capabilities, mechanism_rows};
use crate::mechanism::HostFacts;
use crate::plan::{self, Availability, PlanError};
use crate::profile::options::Slice;
use crate::profile::{Overrides, Profile, load};
use hosts::{WAYS, able, halves};

type TestResult = Result<(), Box<dyn std::error::Error>>;

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
