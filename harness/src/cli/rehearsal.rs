//! `gpubench plan --rehearse`: sets up and undoes each mechanism, without measuring.

use gpubench_record::ExitCode;
use gpubench_virtual_gpu::session::TimeMode;

use super::common::{TextFormat, pretty_json};
use super::plan::Args;
use super::ui::{Ui, table};
use crate::error::ExpectedError;
use crate::judge::{DeviceSession, RehearsalOutcome, Rehearsed, rehearse};
use crate::profile::Profile;

/// Sets up and undoes each mechanism, and prints how that ended.
///
/// # Errors
/// When no mechanism can run, or the host is not restored.
pub(super) fn run(args: &Args, profile: &Profile, ui: &Ui) -> Result<ExitCode, ExpectedError> {
    let device = args.device.device.as_ref();
    let session = DeviceSession::open(device, profile.seed, TimeMode::Virtual)?;
    let (rehearsed, notes) = rehearse(&session, &args.profile.host_options(), profile)?;
    for note in notes {
        ui.note(&note);
    }
    ui.print(&match args.format {
        TextFormat::Json => pretty_json(&rehearsed)?,
        TextFormat::Table => as_table(&rehearsed),
    })?;
    let failed = |one: &Rehearsed| one.outcome == RehearsalOutcome::Failed;
    Ok(if rehearsed.iter().any(failed) { ExitCode::TrialFailed } else { ExitCode::Done })
}

fn as_table(rehearsed: &[Rehearsed]) -> String {
    let rows: Vec<[String; 3]> = rehearsed
        .iter()
        .map(|one| {
            let outcome = match &one.reason {
                Some(reason) => format!("{}: {reason}", one.outcome.as_str()),
                None => one.outcome.as_str().to_owned(),
            };
            let remedy = one.remedy.clone().unwrap_or_else(|| "-".to_owned());
            [one.variant.clone(), outcome, remedy]
        })
        .collect();
    table(["mechanism", "rehearsal", "remedy"], &rows)
}
