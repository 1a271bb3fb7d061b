//! `gpubench plan`: the cells of a run, their order and duration, and the changes on the host. Runs
//! no cell; `--rehearse` makes and undoes the changes.

use gpubench_record::{Cell, ExitCode, Plan};
use gpubench_virtual_gpu::session::TimeMode;
use schemars::JsonSchema;
use serde::Serialize;

use super::after_cells;
use super::common::{DeviceFlag, ProfileFlags, TextFormat, exit_codes_help, pretty_json};
use super::detectable::as_text as detectable_text;
use super::rehearsal;
use super::ui::{Ui, table};
use crate::device::DeviceSelector;
use crate::error::ExpectedError;
use crate::judge::{AfterCells, add_after_cells, calibration, capabilities, host_facts, ptx_hash};
use crate::plan::{self, Detectable, detectable, notes};
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
    pub(super) device: DeviceFlag,
    #[command(flatten)]
    pub(super) profile: ProfileFlags,
    /// Set up and undo each mechanism on the host, without measuring
    ///
    /// Shows before a long run what the driver refuses. Device settings change only with
    /// --allow-reconfigure.
    #[arg(long)]
    rehearse: bool,
    /// Output format
    #[arg(long, value_enum, default_value = "table")]
    pub(super) format: TextFormat,
}

/// Plans and prints.
///
/// # Errors
/// When the profile is wrong, no mechanism can run, or stdout cannot be written.
pub fn run(args: &Args, ui: &Ui) -> Result<ExitCode, ExpectedError> {
    let profile = args.profile.load()?;
    if args.rehearse {
        return rehearsal::run(args, &profile, ui);
    }
    let options = args.profile.host_options();
    let device = args.device.device.as_ref();
    let facts = host_facts::of_device(device, &options, &profile)?;
    let mut plan = plan::plan(&profile, &capabilities(&facts, &profile), &ptx_hash())?;
    // Virtual time passes without cores.
    let is_virtual = device.is_some_and(DeviceSelector::is_virtual)
        && host_facts::time_mode(device, &options, &profile) == TimeMode::Virtual;
    add_after_cells(&mut plan, &profile, &AfterCells::default(), is_virtual)?;
    let mut notes = notes(&plan, &profile);
    if !is_virtual {
        notes.extend(shortage(&plan).map_err(|error| ExpectedError::Internal {
            what: format!("the cores of this process are unknown: {error}"),
        })?);
    }
    let rows = detectable(&plan, calibration::known(&facts.uuid)?.as_ref());
    match args.format {
        TextFormat::Json => ui.print(&render_json(&plan, &rows, &notes)?)?,
        TextFormat::Table => ui.print_text(&render_text(&plan, &rows, &notes))?,
    }
    Ok(ExitCode::Done)
}

fn render_json(
    plan: &Plan,
    rows: &[Detectable],
    notes: &[String],
) -> Result<String, ExpectedError> {
    pretty_json(&AsJson { plan, device_time_ns: plan.device_time_ns(), detectable: rows, notes })
}

/// The JSON of this verb.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "gpubench plan")]
pub(super) struct AsJson<'a> {
    /// Every cell that would run, and why others would not.
    plan: &'a Plan,
    /// How long the cells keep the device busy.
    device_time_ns: u64,
    /// The smallest change of each row that the plan detects.
    detectable: &'a [Detectable],
    /// What a person should know of this plan, one sentence each.
    notes: &'a [String],
}

fn render_text(plan: &Plan, rows: &[Detectable], notes: &[String]) -> String {
    let sections = [
        summary(plan) + &after_cells::in_words(plan),
        mechanisms(plan),
        detectable_text(rows),
        first_block(plan),
        skips(plan),
        notes.iter().map(|note| format!("note: {note}\n")).collect(),
    ];
    let texts: Vec<String> = sections.into_iter().filter(|section| !section.is_empty()).collect();
    texts.join("\n")
}

fn summary(plan: &Plan) -> String {
    let d = &plan.durations;
    let span = |ns| Span::from_ns(in_round_figures(ns));
    let is_alone = |cell: &&Cell| plan.pairs.iter().all(|pair| pair.victim != cell.victim);
    let (cells, alone) = (plan.cells.len(), plan.cells.iter().filter(is_alone).count());
    let per_block = (cells - alone) / plan.blocks.max(1) as usize;
    let alone = match alone {
        0 => String::new(),
        n => format!("; {n} more of aggressors alone, in the first blocks"),
    };
    let victim = plan.user_victim.as_ref().map_or_else(String::new, |victim| {
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
         reversed{alone}\n\
         each cell {}: warm-up {}, closed loop {}, gap {}, open loop {}{where_open}\n\
         device time {}{}\n",
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
        rotation(plan),
    )
}

/// The run of the rotation, as a line.
fn rotation(plan: &Plan) -> String {
    plan.rotation.as_ref().map_or_else(String::new, |rotation| format!("\nrotation: {rotation}"))
}

/// Minutes and seconds, rounded up.
pub(super) fn in_minutes(ns: u64) -> String {
    let seconds = ns.div_ceil(1_000_000_000);
    let (minutes, rest) = (seconds / 60, seconds % 60);
    if minutes == 0 { format!("{rest} s") } else { format!("{minutes} min {rest} s") }
}

fn mechanisms(plan: &Plan) -> String {
    let count = |variant: &str| plan.cells.iter().filter(|cell| cell.variant == variant).count();
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
    if !plan.mechanisms.iter().any(|mechanism| mechanism.properties.is_reference()) {
        let native = count(&plan.reference).to_string();
        rows.insert(0, [format!("({}, as reference)", plan.reference), native, "none".to_owned()]);
    }
    table(["mechanism", "cells", "changes on the host"], &rows)
}

fn first_block(plan: &Plan) -> String {
    let first = plan.cells.iter().filter(|cell| cell.block == 0);
    let rows: Vec<[String; 5]> = first.map(row).collect();
    table(["first block", "mechanism", "condition", "victim", "aggressor"], &rows)
}

/// Lengths that follow from a budget have digits that tell a reader nothing: whole milliseconds
/// from 10 ms on.
const fn in_round_figures(ns: u64) -> u64 {
    const MS: u64 = 1_000_000;
    if ns < 10 * MS {
        return ns;
    }
    (ns + MS / 2) / MS * MS
}

fn row(cell: &Cell) -> [String; 5] {
    let aggressor = cell.aggressor.as_ref().map_or_else(
        || "-".to_owned(),
        |name| {
            if cell.dose < 1.0 { format!("{name} at {}", cell.dose) } else { name.clone() }
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
    if rows.is_empty() { String::new() } else { table(["will not run", "reason", "remedy"], &rows) }
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
