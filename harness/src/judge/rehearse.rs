//! A rehearsal: sets every planned mechanism up on the host, as the matrix does, and undoes it.
//! Nothing is measured; a refusal of the driver shows before a long run.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use super::{DeviceSession, HostOptions, capabilities, expected, host_facts, journal, ptx_hash};
use crate::error::ExpectedError;
use crate::mechanism::host::{Guard, HostError, RealHost};
use crate::mechanism::{self, MechanismContext};
use crate::plan;
use crate::profile::Profile;

/// How the rehearsal of one mechanism ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub enum RehearsalOutcome {
    /// The mechanism changes nothing on the host.
    #[serde(rename = "nothing to set up")]
    NothingToSetUp,
    /// It was set up and undone.
    #[serde(rename = "set up and undone")]
    SetUpAndUndone,
    /// It cannot run here.
    #[serde(rename = "waived")]
    Waived,
    /// It was refused without a remedy.
    #[serde(rename = "failed")]
    Failed,
}

impl RehearsalOutcome {
    /// The outcome in words.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NothingToSetUp => "nothing to set up",
            Self::SetUpAndUndone => "set up and undone",
            Self::Waived => "waived",
            Self::Failed => "failed",
        }
    }
}

/// The rehearsal of one mechanism.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Rehearsed {
    /// The variant.
    pub variant: String,
    /// How it ended.
    pub outcome: RehearsalOutcome,
    /// Why it was not set up.
    pub reason: Option<String>,
    /// What the user can do about it.
    pub remedy: Option<String>,
}

/// Rehearses every mechanism of the profile's plan; skipped ones are listed with their reason. Also
/// returns what the user should know.
///
/// # Errors
/// When no mechanism can run, or the host is not restored.
pub fn rehearse(
    session: &DeviceSession,
    options: &HostOptions,
    profile: &Profile,
) -> Result<(Vec<Rehearsed>, Vec<String>), ExpectedError> {
    let (journal, notes) = journal::journal_of(session)?;
    let facts = host_facts::of_session(session, options, profile);
    let capabilities = capabilities(&facts, profile);
    let plan = plan::plan(profile, &capabilities, &ptx_hash())?;
    let cx = MechanismContext { profile, facts: &facts };
    let mut guard = Guard::new(Arc::new(RealHost::new(session.nvml())), journal);
    let mut rehearsed = Vec::new();
    for planned in &plan.mechanisms {
        rehearsed.push(rehearse_one(&cx, &planned.name, &planned.variant, &mut guard)?);
    }
    rehearsed.extend(plan.skips.iter().map(|skip| Rehearsed {
        variant: skip.variant.clone(),
        outcome: RehearsalOutcome::Waived,
        reason: Some(skip.reason.clone()),
        remedy: skip.remedy.clone(),
    }));
    Ok((rehearsed, notes))
}

fn rehearse_one(
    cx: &MechanismContext<'_>,
    name: &str,
    variant: &str,
    guard: &mut Guard,
) -> Result<Rehearsed, ExpectedError> {
    let rehearsed = |outcome, reason, remedy: Option<&str>| Rehearsed {
        variant: variant.to_owned(),
        outcome,
        reason,
        remedy: remedy.map(str::to_owned),
    };
    let Some(mechanism) = mechanism::find(name) else {
        let what = format!("mechanism {name} is planned and cannot be set up");
        return Err(ExpectedError::Internal { what });
    };
    if mechanism.configuration(cx).stage.is_none() {
        return Ok(rehearsed(RehearsalOutcome::NothingToSetUp, None, None));
    }
    let entered = mechanism.enter(cx, guard);
    guard.restore().map_err(expected::from_host)?;
    Ok(match entered {
        Ok(_) => rehearsed(RehearsalOutcome::SetUpAndUndone, None, None),
        Err(HostError::Refused(refused)) => {
            let outcome = match refused.remedy {
                Some(_) => RehearsalOutcome::Waived,
                None => RehearsalOutcome::Failed,
            };
            rehearsed(outcome, Some(refused.to_string()), refused.remedy)
        }
        Err(error) => return Err(expected::from_host(error)),
    })
}
