//! `gpubench plan`: the cells of a run, their order and duration, and the changes on the host. Runs
//! no cell; `--rehearse` makes and undoes the changes.

use gpubench_compare::diff::SESSIONS_MIN;
use gpubench_host::device::DeviceSelector;
use gpubench_host::device::virtual_gpu::TimeMode;
use gpubench_plan::profile::Profile;
use gpubench_plan::profile::units::Span;
use gpubench_plan::{Detectable, notes};
use gpubench_record::{Cell, ExitCode, Plan, PlannedTime, counted};
use gpubench_run::shortage;
use gpubench_show::{Block, Page, Table};
use gpubench_stats::power::Test;
use gpubench_stats::{Confidence, NoEstimate};
use schemars::JsonSchema;
use serde::Serialize;

use super::after_cells;
use super::common::{
    DeviceFlag, MinutesFlag, ProfileFlags, TextFormat, exit_codes_help, pretty_json,
};
use super::ui::Ui;
use crate::error::ExpectedError;
use crate::verbs::{
    AfterCells, DeviceSession, RehearsalOutcome, Rehearsed, add_after_cells, calibration,
    capabilities, host_facts, planned, ptx_hash, rehearse,
};

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
    #[command(flatten)]
    minutes: MinutesFlag,
    /// Set up and undo each mechanism on the host, without measuring
    ///
    /// Shows before a long run what the driver refuses. Device settings change only with
    /// --allow-reconfigure.
    #[arg(long)]
    rehearse: bool,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    pub(super) format: TextFormat,
}

pub fn run(args: &Args, ui: &Ui) -> Result<ExitCode, ExpectedError> {
    let profile = args.profile.load()?;
    if args.rehearse {
        return run_rehearsal(args, &profile, ui);
    }
    let options = args.profile.host_options();
    let device = args.device.device.as_ref();
    let facts = host_facts::of_device(device, &options, &profile)?;
    // Virtual time passes without cores.
    let is_virtual = device.is_some_and(DeviceSelector::is_virtual)
        && host_facts::time_mode(device, &options, &profile) == TimeMode::Virtual;
    let (profile, plan) = planned(profile, args.minutes.for_minutes, |profile| {
        let capabilities = capabilities(&facts, profile);
        let mut plan = gpubench_plan::plan(profile, &capabilities, &ptx_hash())?;
        add_after_cells(&mut plan, profile, &AfterCells::default(), is_virtual)?;
        Ok(plan)
    })?;
    let mut notes = notes(&plan, &profile);
    notes.extend(facts.findings.iter().map(|found| found.what.clone()));
    if !is_virtual {
        notes.push(format!(
            "the whole run takes about {}, without probes and faults: published runs took 0.3 s \
             more for each cell",
            in_minutes(plan.wall_time_ns())
        ));
        notes.extend(shortage(&plan).map_err(|error| {
            ExpectedError::internal(format!("the cores of this process are unknown: {error}"))
        })?);
    }
    let rows = gpubench_plan::detectable(&plan, calibration::known(&facts.uuid)?.as_ref());
    notes.push(of_two_drivers(&plan, rows.len()).map_err(ExpectedError::internal)?);
    match args.format {
        TextFormat::Json => ui.print(&render_json(&plan, &rows, &notes)?)?,
        TextFormat::Text => ui.page(&page(&plan, &rows, &notes))?,
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

fn page(plan: &Plan, rows: &[Detectable], notes: &[String]) -> Page {
    let mut page = Page::default();
    summary(plan).into_iter().chain(after_cells::in_words(plan)).for_each(|line| page.say(line));
    let tables =
        [mechanisms(plan), time(plan), detectable_table(rows), first_block(plan), skips(plan)];
    for table in tables.into_iter().filter(|table| !table.rows.is_empty()) {
        page.push(Block::Gap);
        page.push(table);
    }
    page.push(Block::Gap);
    notes.iter().for_each(|note| page.say(format!("note: {note}")));
    page
}

fn summary(plan: &Plan) -> Vec<String> {
    let d = &plan.durations;
    let span = |ns| Span::from_ns(in_round_figures(ns));
    let is_alone = |cell: &&Cell| plan.pairs.iter().all(|pair| pair.victim != cell.victim);
    let (cells, alone) = (plan.cells.len(), plan.cells.iter().filter(is_alone).count());
    let per_block = (cells - alone) / plan.blocks.max(1) as usize;
    let alone = match alone {
        0 => String::new(),
        n => format!("; {n} more of aggressors alone, in the first blocks"),
    };
    let victim = plan.user_victim.as_ref().map(|victim| {
        let (command, reports) = (&victim.command, victim.reports.as_str());
        let ready = span(victim.ready_ns);
        format!(
            "victim: {command} (measured by its {reports}), restarted for each mechanism, ready \
             within {ready}"
        )
    });
    let open = plan.cells.iter().filter(|cell| !cell.closed_only).count();
    let where_open = if open == cells {
        String::new()
    } else {
        format!(" (only in the {open} cells for tails)")
    };
    let mut lines = vec![format!(
        "profile {} ({}), seed {}, {} tenants",
        plan.profile,
        &plan.profile_hash[..plan.profile_hash.len().min(12)],
        plan.seed,
        plan.tenants,
    )];
    lines.extend(victim);
    lines.push(format!(
        "{}: {} of {per_block}, each block in a random order with compared cells side by side, and \
         the next one reversed{alone}",
        counted(cells, "cell"),
        counted(plan.blocks, "block"),
    ));
    lines.push(format!(
        "each cell {}: warm-up {}, closed loop {}, gap {}, open loop {}{where_open}",
        span(d.cell_ns()),
        span(d.warmup_ns),
        span(d.closed_ns),
        span(d.gap_ns),
        span(d.open_ns),
    ));
    lines.push(format!("device time {}", in_minutes(plan.device_time_ns())));
    lines.extend(sparse_phases(plan));
    lines.extend(plan.rotation.as_ref().map(|rotation| format!("rotation: {rotation}")));
    lines
}

/// What the run will spend its time on.
fn time(plan: &Plan) -> Table {
    let guessed = |one: &PlannedTime| if one.guessed { "guessed" } else { "" };
    let row =
        |one: &PlannedTime| [one.part.to_string(), in_minutes(one.ns), guessed(one).to_owned()];
    let mut rows: Vec<[String; 3]> = plan.time.iter().map(row).collect();
    let sum_ns = plan.time.iter().map(|one| one.ns).sum();
    rows.push(["whole run".to_owned(), in_minutes(sum_ns), String::new()]);
    Table::plain(["time of the run", "predicted", "basis"], rows).numbers(&["predicted"])
}

/// Spread between nights that the power is printed for.
const NIGHTS_SD: f64 = 0.005;

/// How long a comparison of two drivers takes, and what it finds.
fn of_two_drivers(plan: &Plan, pairs: usize) -> Result<String, NoEstimate> {
    let ns: u64 = plan.time.iter().map(|one| one.ns).sum();
    let (sessions, rows) = (SESSIONS_MIN as f64, (pairs * plan.mechanisms.len()).max(1));
    let margin = plan.margins.unwrap_or_default().ratio;
    let test = Test {
        se: NIGHTS_SD * (2.0 / sessions).sqrt(),
        df: 2.0 * sessions - 2.0,
        confidence: Confidence::from_alpha(0.05 / rows as f64)?,
        margin: margin.ln_1p(),
    };
    let found = [0.003_f64, 0.01, 0.02, 0.05].map(|change| {
        let power = test.power(-(-change).ln_1p())?;
        Ok(format!("{} % in {:.0}", 100.0 * change, 100.0 * power))
    });
    let found: Vec<String> = found.into_iter().collect::<Result<_, NoEstimate>>()?;
    Ok(format!(
        "two drivers compare by {} such runs: {}, without reboots; at {} % between nights, {} and \
         a margin of {} %, of 100 comparisons they find a loss of {}",
        2 * SESSIONS_MIN,
        in_minutes(2 * SESSIONS_MIN as u64 * ns),
        100.0 * NIGHTS_SD,
        counted(rows, "row"),
        100.0 * margin,
        found.join(", ")
    ))
}

/// What the sparse phases take of the device time, by mechanism.
fn sparse_phases(plan: &Plan) -> Option<String> {
    let mut by_mechanism: Vec<(&str, u64)> = Vec::new();
    for cell in &plan.cells {
        let length_ns = cell.sparse.map_or(0, |sparse| sparse.length_ns);
        match by_mechanism.iter_mut().find(|(name, _)| *name == cell.mechanism) {
            Some((_, sum_ns)) => *sum_ns += length_ns,
            None => by_mechanism.push((&cell.mechanism, length_ns)),
        }
    }
    by_mechanism.retain(|(_, sum_ns)| *sum_ns > 0);
    let total_ns: u64 = by_mechanism.iter().map(|(_, sum_ns)| sum_ns).sum();
    let parts = by_mechanism.iter().map(|(name, ns)| format!("{name} {}", in_minutes(*ns)));
    let parts: Vec<String> = parts.collect();
    (total_ns > 0).then(|| {
        format!("of it sparse phases, for jitter {}: {}", in_minutes(total_ns), parts.join(", "))
    })
}

/// Minutes and seconds, rounded up.
pub(super) fn in_minutes(ns: u64) -> String {
    let seconds = ns.div_ceil(1_000_000_000);
    let (minutes, rest) = (seconds / 60, seconds % 60);
    if minutes == 0 { format!("{rest} s") } else { format!("{minutes} min {rest} s") }
}

fn mechanisms(plan: &Plan) -> Table {
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
    Table::plain(["mechanism", "cells", "changes on the host"], rows).numbers(&["cells"])
}

fn first_block(plan: &Plan) -> Table {
    let first = plan.cells.iter().filter(|cell| cell.block == 0);
    Table::plain(["first block", "mechanism", "condition", "victim", "aggressor"], first.map(row))
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

fn skips(plan: &Plan) -> Table {
    let rows = plan.skips.iter().map(|skip| {
        let remedy = skip.remedy.clone().unwrap_or_else(|| "-".to_owned());
        [skip.variant.clone(), skip.reason.clone(), remedy]
    });
    Table::plain(["will not run", "reason", "remedy"], rows)
}

// The table of the smallest change that each row of a plan detects.

pub(super) fn detectable_table(rows: &[Detectable]) -> Table {
    let line = |row: &Detectable| {
        let size = |value: f64| match row.figure {
            "retention" => format!("{:.1} %", 100.0 * value),
            _ => format!("{value:.2} medians"),
        };
        let smallest = row.smallest.map_or_else(|| "-".to_owned(), size);
        [
            row.axis.clone(),
            format!("{} beside {}", row.victim, row.aggressor),
            row.blocks.to_string(),
            row.half_width.map_or_else(|| "-".to_owned(), size),
            format!("{smallest} of {}", row.figure),
            format!("{} {}", size(row.spread), row.source),
        ]
    };
    let header =
        ["row", "cells", "blocks", "half-width", "detects (80 % power)", "spread of blocks"];
    Table::plain(header, rows.iter().map(line)).numbers(&header[2..4])
}

// `gpubench plan --rehearse`: sets up and undoes each mechanism, without measuring.

/// Sets up and undoes each mechanism, and prints how that ended.
pub(super) fn run_rehearsal(
    args: &Args,
    profile: &Profile,
    ui: &Ui,
) -> Result<ExitCode, ExpectedError> {
    let device = args.device.device.as_ref();
    let session = DeviceSession::open(device, profile.seed, TimeMode::Virtual)?;
    let (rehearsed, notes) = rehearse(&session, &args.profile.host_options(), profile)?;
    for note in notes {
        ui.note(&note);
    }
    ui.print(&match args.format {
        TextFormat::Json => pretty_json(&rehearsed)?,
        TextFormat::Text => rehearsed_table(&rehearsed).text(ui.look()),
    })?;
    let failed = |one: &Rehearsed| one.outcome == RehearsalOutcome::Failed;
    Ok(if rehearsed.iter().any(failed) { ExitCode::TrialFailed } else { ExitCode::Done })
}

fn rehearsed_table(rehearsed: &[Rehearsed]) -> Table {
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
