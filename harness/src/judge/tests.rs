//! `doctor`, the plan and the matrix give the same verdict of a mechanism, on every machine and
//! with every restriction of a host.

mod budgets;
mod fidelity;
pub(super) mod hosts;

use gpubench_record::{MechanismRow, Outcome, OutcomeKind};
use gpubench_virtual_gpu::machine::{BUILT_IN, Machine};

use super::verdict::mechanism_row;
use crate::judge::{capabilities, mechanism_rows};
use crate::mechanism::HostFacts;
use crate::plan::{self, Availability, PlanError};
use crate::profile::options::Slice;
use crate::profile::{Overrides, Profile, load};
use hosts::{RESTRICTIONS, complete_host, halves};

type TestResult = Result<(), Box<dyn std::error::Error>>;

/// The rows of mechanisms in the matrix of a host. Every planned mechanism has cells.
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
        let plan = plan::plan(&profile, &capabilities(&facts, &profile), "ptx")?;
        assert_eq!(plan.skips, [], "{name}");
        assert_eq!(plan.mechanisms.len(), crate::catalogue::names().len(), "{name}");
    }
    Ok(())
}
