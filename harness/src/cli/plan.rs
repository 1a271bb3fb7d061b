//! `gpubench plan`: the cells of a run, their order and duration, and the changes on the host. Runs
//! no cell; `--rehearse` makes and undoes the changes.

use gpubench_record::{Cell, ExitCode, Plan};
use gpubench_virtual_gpu::session::TimeMode;
use serde_json::json;

use super::common::{DeviceFlag, ProfileFlags, TextFormat, exit_codes_help, pretty_json};
use super::ui::{Ui, table};
use crate::device::DeviceSelector;
use crate::error::ExpectedError;
use crate::judge::{
    DeviceSession, RehearsalOutcome, Rehearsed, capabilities, host_facts, ptx_hash, rehearse,
};
use crate::plan::{self, notes};
use crate::profile::Profile;
use crate::profile::units::Span;
use crate::run::shortage;

/// The exit codes of this verb.
pub const EXIT_CODES: &[ExitCode] = &[
    ExitCode::Done,
    ExitCode::Internal,
    ExitCode::Usage,
    ExitCode::NothingRan,
    ExitCode::TrialFailed,
    ExitCode::OutputFailed,
    ExitCode::NotRestored,
];

/// Prints the plan of a matrix (cells, order, duration, skips, host changes) without running it
#[derive(Debug, clap::Args)]
#[command(after_long_help = exit_codes_help(EXIT_CODES))]
pub struct Args {
    #[command(flatten)]
    device: DeviceFlag,
    #[command(flatten)]
    profile: ProfileFlags,
    /// Set up and undo each mechanism on the host, without measuring
    ///
    /// Shows before a long run what the driver refuses. Device settings change only with
    /// --allow-reconfigure.
    #[arg(long)]
    rehearse: bool,
    /// Output format
    #[arg(long, value_enum, default_value = "table")]
    format: TextFormat,
}

/// Plans and prints.
///
/// # Errors
/// When the profile is wrong, no mechanism can run, or stdout cannot be written.
pub fn run(args: &Args, ui: &Ui) -> Result<ExitCode, ExpectedError> {
    let profile = args.profile.load()?;
    if args.rehearse {
        return run_rehearsal(args, &profile, ui);
    }
    let options = args.profile.host_options();
    let device = args.device.device.as_ref();
    let facts = host_facts::of_device(device, &options, &profile)?;
    let plan = plan::plan(&profile, &capabilities(&facts, &profile), &ptx_hash())?;
    let mut notes = notes(&plan, &profile);
    // Virtual time passes without cores.
    let is_virtual = device.is_some_and(DeviceSelector::is_virtual)
        && host_facts::time_mode(device, &options, &profile) == TimeMode::Virtual;
    if !is_virtual {
        notes.extend(shortage(&plan).map_err(|error| ExpectedError::Internal {
            what: format!("the cores of this process are unknown: {error}"),
        })?);
    }
    let text = match args.format {
        TextFormat::Json => render_json(&plan, &notes)?,
        TextFormat::Table => render_text(&plan, &notes),
    };
    ui.print(&text)?;
    Ok(ExitCode::Done)
}

fn run_rehearsal(args: &Args, profile: &Profile, ui: &Ui) -> Result<ExitCode, ExpectedError> {
    let device = args.device.device.as_ref();
    let session = DeviceSession::open(device, profile.seed, TimeMode::Virtual)?;
    let rehearsed = rehearse(&session, &args.profile.host_options(), profile)?;
    ui.print(&match args.format {
        TextFormat::Json => pretty_json(&rehearsed)?,
        TextFormat::Table => rehearsal_table(&rehearsed),
    })?;
    let failed = |one: &Rehearsed| one.outcome == RehearsalOutcome::Failed;
    Ok(if rehearsed.iter().any(failed) {
        ExitCode::TrialFailed
    } else {
        ExitCode::Done
    })
}

fn rehearsal_table(rehearsed: &[Rehearsed]) -> String {
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

fn render_json(plan: &Plan, notes: &[String]) -> Result<String, ExpectedError> {
    pretty_json(&json!({
        "plan": plan,
        "device_time_ns": plan.device_time_ns(),
        "notes": notes,
    }))
}

fn render_text(plan: &Plan, notes: &[String]) -> String {
    let sections = [
        summary(plan),
        mechanisms(plan),
        first_block(plan),
        skips(plan),
        notes.iter().map(|note| format!("note: {note}\n")).collect(),
    ];
    let texts: Vec<String> = sections
        .into_iter()
        .filter(|section| !section.is_empty())
        .collect();
    texts.join("\n")
}

fn summary(plan: &Plan) -> String {
    let d = &plan.durations;
    let span = Span::from_ns;
    let (cells, per_block) = (
        plan.cells.len(),
        plan.cells.len() / plan.blocks.max(1) as usize,
    );
    let victim = plan
        .user_victim
        .as_ref()
        .map_or_else(String::new, |victim| {
            let (command, reports) = (&victim.command, victim.reports.as_str());
            let ready = span(victim.ready_ns);
            format!(
                "\nvictim: {command} (measured by its {reports}), restarted for most cells, ready \
             within {ready}"
            )
        });
    let open = plan.cells.iter().filter(|cell| !cell.closed_only).count();
    let where_open = if open == cells {
        String::new()
    } else {
        format!(" (only in the {open} cells for jitter)")
    };
    format!(
        "profile {} ({}), seed {}, {} tenants{}\n\
         {cells} cells: {} blocks of {per_block}, each block in a random order and the next one \
         reversed\n\
         each cell {}: warm-up {}, closed loop {}, gap {}, open loop {}{where_open}\n\
         device time {}\n",
        plan.profile,
        &plan.profile_hash[..plan.profile_hash.len().min(12)],
        plan.seed,
        plan.tenants,
        victim,
        plan.blocks,
        span(d.cell_ns()),
        span(d.warmup_ns),
        span(d.closed_ns),
        span(d.gap_ns),
        span(d.open_ns),
        in_minutes(plan.device_time_ns()),
    )
}

/// Minutes and seconds, rounded up.
fn in_minutes(ns: u64) -> String {
    let seconds = ns.div_ceil(1_000_000_000);
    let (minutes, rest) = (seconds / 60, seconds % 60);
    if minutes == 0 {
        format!("{rest} s")
    } else {
        format!("{minutes} min {rest} s")
    }
}

fn mechanisms(plan: &Plan) -> String {
    let count = |variant: &str| {
        plan.cells
            .iter()
            .filter(|cell| cell.variant == variant)
            .count()
    };
    let mut rows: Vec<[String; 3]> = plan
        .mechanisms
        .iter()
        .map(|mechanism| {
            let cells = count(&mechanism.variant).to_string();
            let changes = match mechanism.host_changes.as_slice() {
                [] => "none".to_owned(),
                changes => changes.join("; "),
            };
            [mechanism.variant.clone(), cells, changes]
        })
        .collect();
    // Native cells always run: they are the reference of the other mechanisms.
    if !plan
        .mechanisms
        .iter()
        .any(|mechanism| mechanism.properties.is_reference())
    {
        let native = count(&plan.reference).to_string();
        rows.insert(
            0,
            [
                format!("({}, as reference)", plan.reference),
                native,
                "none".to_owned(),
            ],
        );
    }
    table(["mechanism", "cells", "changes on the host"], &rows)
}

fn first_block(plan: &Plan) -> String {
    let first = plan.cells.iter().filter(|cell| cell.block == 0);
    let rows: Vec<[String; 5]> = first.map(row).collect();
    table(
        [
            "first block",
            "mechanism",
            "condition",
            "victim",
            "aggressor",
        ],
        &rows,
    )
}

fn row(cell: &Cell) -> [String; 5] {
    let aggressor = cell.aggressor.as_ref().map_or_else(
        || "-".to_owned(),
        |name| {
            if cell.dose < 1.0 {
                format!("{name} at {}", cell.dose)
            } else {
                name.clone()
            }
        },
    );
    let number = cell.id.split('-').next().unwrap_or(&cell.id);
    [
        number.to_owned(),
        cell.variant.clone(),
        cell.condition.as_str().to_owned(),
        cell.victim.clone(),
        aggressor,
    ]
}

fn skips(plan: &Plan) -> String {
    let rows: Vec<[String; 3]> = plan
        .skips
        .iter()
        .map(|skip| {
            let remedy = skip.remedy.clone().unwrap_or_else(|| "-".to_owned());
            [skip.variant.clone(), skip.reason.clone(), remedy]
        })
        .collect();
    if rows.is_empty() {
        String::new()
    } else {
        table(["will not run", "reason", "remedy"], &rows)
    }
}

#[cfg(test)]
mod tests {
    use super::in_minutes;

    #[test]
    fn a_duration_is_rounded_up_to_the_second() {
        for (ns, text) in [
            (0, "0 s"),
            (999, "1 s"),
            (59_000_000_000, "59 s"),
            (472_000_000_001, "7 min 53 s"),
            (600_000_000_000, "10 min 0 s"),
        ] {
            assert_eq!(in_minutes(ns), text);
        }
    }
}
