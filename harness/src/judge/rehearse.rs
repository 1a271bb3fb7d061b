//! `gpubench plan --rehearse`: sets every planned mechanism up on the host, as the main job would,
//! and undoes it again. Nothing is measured. What the driver refuses is known before a night's run.

use std::sync::Arc;

use gpubench_record::ExitCode;
use gpubench_virtual_gpu::session::TimeMode;
use serde_json::json;

use super::bench::Bench;
use super::common::{DeviceFlag, ProfileFlags, TextFormat};
use super::ui::{Ui, table};
use super::{cleanup, host};
use crate::error::ExpectedError;
use crate::mechanism::host::{Guard, HostError, RealHost};
use crate::mechanism::{self, Asked};
use crate::plan;
use crate::profile::Profile;

/// What came of one mechanism.
struct Rehearsed {
    variant: String,
    outcome: &'static str,
    reason: Option<String>,
    remedy: Option<String>,
}

/// Rehearses and tells.
///
/// # Errors
/// When no mechanism can run, the host is not as it was found, or the output cannot be written.
pub(super) fn run(
    device: &DeviceFlag,
    flags: &ProfileFlags,
    profile: Profile,
    format: TextFormat,
    ui: &Ui,
) -> Result<ExitCode, ExpectedError> {
    let bench = Bench::open(device.device.as_ref(), profile.seed, TimeMode::Virtual)?;
    let journal = cleanup::journal_of(&bench)?;
    let facts = host::of_bench(&bench, flags, &profile);
    let capabilities = host::capabilities(&facts, &profile);
    let plan = plan::plan(&profile, &capabilities, &host::ptx_hash())?;
    let asked = Asked {
        profile: &profile,
        facts: &facts,
    };
    let mut guard = Guard::new(Arc::new(RealHost::new(bench.nvml())), journal);
    let mut told = Vec::new();
    for planned in &plan.mechanisms {
        told.push(one(&asked, &planned.name, &planned.variant, &mut guard)?);
    }
    told.extend(plan.skips.iter().map(|skip| Rehearsed {
        variant: skip.mechanism.clone(),
        outcome: "waived",
        reason: Some(skip.reason.clone()),
        remedy: skip.remedy.clone(),
    }));
    ui.print(&match format {
        TextFormat::Json => as_json(&told)?,
        TextFormat::Table => as_text(&told),
    })?;
    let failed = told.iter().any(|one| one.outcome == "failed");
    Ok(if failed {
        ExitCode::TrialFailed
    } else {
        ExitCode::Done
    })
}

fn one(
    asked: &Asked<'_>,
    name: &str,
    variant: &str,
    guard: &mut Guard,
) -> Result<Rehearsed, ExpectedError> {
    let told = |outcome, reason, remedy: Option<&str>| Rehearsed {
        variant: variant.to_owned(),
        outcome,
        reason,
        remedy: remedy.map(str::to_owned),
    };
    let Some(mechanism) = mechanism::find(name) else {
        let what = format!("mechanism {name} is planned and cannot be set up");
        return Err(ExpectedError::Internal { what });
    };
    if mechanism.stage(asked).is_none() {
        return Ok(told("nothing to set up", None, None));
    }
    let entered = mechanism.enter(asked, guard);
    guard.restore().map_err(cleanup::expected)?;
    Ok(match entered {
        Ok(_) => told("set up and undone", None, None),
        Err(HostError::Refused(refused)) => {
            let outcome = match refused.remedy {
                Some(_) => "waived",
                None => "failed",
            };
            told(outcome, Some(refused.to_string()), refused.remedy)
        }
        Err(error) => return Err(cleanup::expected(error)),
    })
}

fn as_json(told: &[Rehearsed]) -> Result<String, ExpectedError> {
    let rows: Vec<_> = told
        .iter()
        .map(|one| {
            json!({
                "variant": one.variant, "outcome": one.outcome,
                "reason": one.reason, "remedy": one.remedy,
            })
        })
        .collect();
    let text = serde_json::to_string_pretty(&rows).map_err(|error| ExpectedError::Internal {
        what: error.to_string(),
    })?;
    Ok(text + "\n")
}

fn as_text(told: &[Rehearsed]) -> String {
    let rows: Vec<[String; 3]> = told
        .iter()
        .map(|one| {
            let what = match &one.reason {
                Some(reason) => format!("{}: {reason}", one.outcome),
                None => one.outcome.to_owned(),
            };
            let remedy = one.remedy.clone().unwrap_or_else(|| "-".to_owned());
            [one.variant.clone(), what, remedy]
        })
        .collect();
    table(["mechanism", "rehearsal", "remedy"], &rows)
}
