//! `gpubench plan --rehearse`: sets up and undoes each mechanism, without measuring.

use gpubench_host::device::DeviceSelector;
use gpubench_host::device::virtual_gpu::TimeMode;
use gpubench_plan::profile::Profile;
use gpubench_record::ExitCode;
use gpubench_show::Table;

use super::common::{TextFormat, versioned_json};
use super::ui::Ui;
use crate::error::ExpectedError;
use crate::verbs::{DeviceSession, HostOptions, RehearsalOutcome, Rehearsed, rehearse};

/// Sets up and undoes each mechanism, and prints how that ended.
pub(super) fn run(
    device: Option<&DeviceSelector>,
    options: &HostOptions,
    profile: &Profile,
    format: TextFormat,
    ui: &Ui,
) -> Result<ExitCode, ExpectedError> {
    let session = DeviceSession::open(device, profile.seed, TimeMode::Virtual)?;
    let (rehearsed, notes) = rehearse(&session, options, profile)?;
    for note in notes {
        ui.note(&note);
    }
    ui.print(&match format {
        TextFormat::Json => versioned_json("rehearsal", &rehearsed)?,
        TextFormat::Text => table(&rehearsed).text(ui.look()),
    })?;
    let failed = |one: &Rehearsed| one.outcome == RehearsalOutcome::Failed;
    Ok(if rehearsed.iter().any(failed) { ExitCode::TrialFailed } else { ExitCode::Done })
}

fn table(rehearsed: &[Rehearsed]) -> Table {
    let rows = rehearsed.iter().map(|one| {
        let outcome = match &one.reason {
            Some(reason) => format!("{}: {reason}", one.outcome.as_str()),
            None => one.outcome.as_str().to_owned(),
        };
        let remedy = one.remedy.clone().unwrap_or_else(|| "-".to_owned());
        [one.variant.clone(), outcome, remedy]
    });
    Table::plain(["mechanism", "rehearsal", "remedy"], rows)
}
