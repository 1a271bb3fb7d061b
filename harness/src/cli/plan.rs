//! `gpubench plan`: the cells of a run, their order and duration, and the changes on the host. Runs
//! no cell; `--rehearse` makes and undoes the changes.

mod tables;

use gpubench_compare::diff::SESSIONS_MIN;
use gpubench_host::device::DeviceSelector;
use gpubench_host::device::virtual_gpu::TimeMode;
use gpubench_host::mechanism::HostFacts;
use gpubench_plan::profile::units::Span;
use gpubench_plan::{Availability, Capabilities, Detectable, Frozen, notes};
use gpubench_record::{Cell, DeviceIdentity, ExitCode, Plan, PlannedTime, Skip, counted};
use gpubench_run::shortage;
use gpubench_show::{Block, Labels, Page, Table, clean, list};
use gpubench_stats::power::Test;
use gpubench_stats::{Confidence, NoEstimate};
use schemars::JsonSchema;
use serde::Serialize;

use super::after_cells::{self, AfterCellsFlags};
use super::common::{
    DeviceFlag, MinutesFlag, ProfileFlags, TextFormat, exit_codes_help, pretty_json, versioned_json,
};
use super::rehearsal;
use super::ui::Ui;
use crate::error::ExpectedError;
use crate::error::output::write_whole;
use crate::verbs::host_facts::Reconfigure;
use crate::verbs::{add_after_cells, calibration, capabilities, host_facts, planned, ptx_hash};

use tables::{detectable_table, first_block, mechanisms, skips};

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
    #[command(flatten)]
    after_cells: AfterCellsFlags,
    /// Set up and undo each mechanism on the host, without measuring
    ///
    /// Shows before a long run what the driver refuses. Device settings change only with
    /// --allow-reconfigure.
    #[arg(long)]
    rehearse: bool,
    /// Print every table: time by part, the smallest changes detected, each cell of a block
    #[arg(long)]
    full: bool,
    /// Write the plan, its thresholds and its questions with a hash: matrix --frozen FILE
    ///
    /// A record made from it says so, and names what it left out, added or changed.
    #[arg(long, value_name = "FILE", conflicts_with = "rehearse")]
    freeze: Option<std::path::PathBuf>,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    pub(super) format: TextFormat,
}

pub fn run(args: &Args, ui: &Ui) -> Result<ExitCode, ExpectedError> {
    let profile = args.profile.load()?;
    args.after_cells.check(&profile)?;
    let (device, options) = (args.device.device.as_ref(), args.profile.host_options());
    if args.rehearse {
        return rehearsal::run(device, &options, &profile, args.format, ui);
    }
    let (identity, facts) = host_facts::of_device(device, &options, &profile)?;
    // Virtual time passes without cores.
    let is_virtual = device.is_some_and(DeviceSelector::is_virtual)
        && host_facts::time_mode(device, &options, &profile) == TimeMode::Virtual;
    let (profile, plan) = planned(profile, args.minutes.for_minutes, |profile| {
        let mut plan = gpubench_plan::plan(profile, &capabilities(&facts, profile), &ptx_hash())?;
        add_after_cells(&mut plan, profile, &args.after_cells.flags(), is_virtual)?;
        Ok(plan)
    })?;
    let mut notes = notes(&plan, &profile);
    if let Some(path) = &args.freeze {
        let frozen = Frozen::of(&plan);
        write_whole(path, (pretty_json(&frozen)? + "\n").as_bytes())?;
        notes.push(format!("frozen as {} in {}", &frozen.hash[..12], path.display()));
    }
    notes.extend(facts.findings.iter().map(|found| found.what.clone()));
    let guarded = match is_virtual && options.reconfigure == Reconfigure::OnVirtual {
        true => {
            let facts = HostFacts { allow_reconfigure: false, ..facts.clone() };
            guarded(&plan, &capabilities(&facts, &profile))
        }
        false => Vec::new(),
    };
    if !guarded.is_empty() {
        let what = if args.format == TextFormat::Text { "*" } else { &guarded.join(", ") };
        notes.push(format!(
            "{what}: device settings, on hardware only with --allow-reconfigure, as root"
        ));
    }
    if is_virtual {
        notes.push("times of the modelled GPU; on two cores a run takes 3 to 20 % of them".into());
    } else {
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
    if !args.full && args.format == TextFormat::Text {
        ui.page(&screen(&head(&identity), &plan, &guarded, &rows, &notes))?;
        return Ok(ExitCode::Done);
    }
    notes.push(of_two_drivers(&plan, rows.len()).map_err(ExpectedError::internal)?);
    match args.format {
        TextFormat::Json => ui.print(&render_json(&plan, &rows, &notes)?)?,
        TextFormat::Text => {
            let page = full(&head(&identity), &plan, &guarded, &rows, &notes);
            ui.print_paged(page.text(ui.look()).as_bytes())?;
        }
    }
    Ok(ExitCode::Done)
}

fn render_json(
    plan: &Plan,
    rows: &[Detectable],
    notes: &[String],
) -> Result<String, ExpectedError> {
    let device_time_ns = plan.device_time_ns();
    versioned_json("plan", &AsJson { plan, device_time_ns, detectable: rows, notes })
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

/// The device and its driver.
fn head(identity: &DeviceIdentity) -> String {
    format!("{}, driver {}", clean(&identity.name), clean(&identity.driver))
}

/// The variants that the same command does not run on hardware: a virtual GPU has no other user.
fn guarded(plan: &Plan, guarded: &Capabilities) -> Vec<String> {
    let is_refused = |variant: &str| {
        guarded.mechanisms.iter().any(|one| {
            one.variant.variant == variant
                && matches!(&one.availability, Availability::Waived { remedy: Some(flag), .. }
                    if flag == "--allow-reconfigure")
        })
    };
    let planned = plan.mechanisms.iter().map(|one| one.variant.clone());
    planned.filter(|variant| is_refused(variant)).collect()
}

/// What runs, for how long, and what does not, on one screen.
fn screen(
    head: &str,
    plan: &Plan,
    guarded: &[String],
    rows: &[Detectable],
    notes: &[String],
) -> Page {
    let mut page = Page::default();
    let mut lines = summary(plan, false);
    lines[0] = format!("{head}; {}", lines[0]);
    let lines = lines.into_iter().chain(after_cells::in_words(plan));
    lines.for_each(|line| page.say(line));
    page.say(time_in_words(plan));
    page.push(Block::Gap);
    page.push(mechanisms(plan, &labels(plan), guarded, false));
    page.push(Block::Gap);
    skips_in_words(plan).into_iter().for_each(|line| page.say(line));
    page.say(detectable_in_words(rows));
    notes.iter().for_each(|note| page.say(format!("note: {note}")));
    page.say("every part: gpubench plan --full");
    page
}

fn full(
    head: &str,
    plan: &Plan,
    guarded: &[String],
    rows: &[Detectable],
    notes: &[String],
) -> Page {
    let mut page = Page::default();
    page.say(head);
    let labels = labels(plan);
    let lines = summary(plan, true).into_iter().chain(after_cells::in_words(plan));
    lines.for_each(|line| page.say(line));
    let tables = [
        mechanisms(plan, &labels, guarded, true),
        time(plan),
        detectable_table(rows),
        first_block(plan, &labels),
        skips(plan, &labels),
    ];
    for table in tables.into_iter().filter(|table| !table.rows.is_empty()) {
        page.push(Block::Gap);
        page.push(table);
    }
    page.push(Block::Gap);
    notes.iter().for_each(|note| page.say(format!("note: {note}")));
    page
}

fn labels(plan: &Plan) -> Labels {
    let of_skips = plan.skips.iter().map(|skip| skip.variant.as_str());
    let of_skips = of_skips.chain(plan.cells.iter().map(|cell| cell.variant.as_str()));
    Labels::of(plan.mechanisms.iter().map(|one| one.variant.as_str()).chain(of_skips))
}

fn summary(plan: &Plan, is_full: bool) -> Vec<String> {
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
    let hash = &plan.profile_hash[..plan.profile_hash.len().min(12)];
    let hash = if is_full { format!(" ({hash})") } else { String::new() };
    let (profile, seed, tenants) = (&plan.profile, plan.seed, plan.tenants);
    let mut lines = vec![format!("profile {profile}{hash}, seed {seed}, {tenants} tenants")];
    lines.extend(victim);
    let order = ", each block in a random order with compared cells side by side, and the next \
                 one reversed";
    lines.push(format!(
        "{}: {} of {per_block}{}{alone}",
        counted(cells, "cell"),
        counted(plan.blocks, "block"),
        if is_full { order } else { "" },
    ));
    if is_full {
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
    }
    let mut events: Vec<&str> =
        plan.cells.iter().filter_map(|cell| Some(cell.shape.event?.as_str())).collect();
    events.sort_unstable();
    events.dedup();
    let meters: Vec<&str> = plan.meters.iter().map(|meter| meter.as_str()).collect();
    for (what, names) in [("events of the last neighbour", events), ("counters", meters)] {
        lines.extend((!names.is_empty()).then(|| format!("{what}: {}", names.join(", "))));
    }
    lines.extend(plan.rotation.as_ref().map(|rotation| {
        let text = format!("rotation: {rotation}");
        if is_full { text } else { text.split(';').next().unwrap_or_default().to_owned() }
    }));
    lines
}

/// How long the device is busy, and the whole run with its longest parts.
fn time_in_words(plan: &Plan) -> String {
    let mut parts: Vec<&PlannedTime> = plan.time.iter().collect();
    parts.sort_by_key(|one| std::cmp::Reverse(one.ns));
    let whole_ns: u64 = parts.iter().map(|one| one.ns).sum();
    let longest = parts.iter().take(3).filter(|one| one.ns > 0).map(|one| {
        let guessed = if one.guessed { " guessed" } else { "" };
        format!("{} {}{guessed}", one.part, in_minutes(one.ns))
    });
    let longest: Vec<String> = longest.collect();
    format!(
        "device time {}; whole run {}, most of it {}",
        in_minutes(plan.device_time_ns()),
        in_minutes(whole_ns),
        list(&longest, "and")
    )
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

/// Lengths that follow from a budget have digits that tell a reader nothing: whole milliseconds
/// from 10 ms on.
const fn in_round_figures(ns: u64) -> u64 {
    const MS: u64 = 1_000_000;
    if ns < 10 * MS {
        return ns;
    }
    (ns + MS / 2) / MS * MS
}

/// Mechanisms that a line of the screen names.
const NAMED_MAX: usize = 4;

/// The mechanisms that do not run at all, and the parts that others run without: a line for each
/// reason.
fn skips_in_words(plan: &Plan) -> Vec<String> {
    let labels = labels(plan);
    let mut groups: Vec<(String, &Skip, Vec<String>)> = Vec::new();
    for skip in &plan.skips {
        let what = match &skip.axis {
            None => "will not run:".to_owned(),
            Some(axis) => format!("no {axis} under"),
        };
        let label = labels.get(&skip.variant);
        let is_same = |one: &Skip| (&one.reason, &one.remedy) == (&skip.reason, &skip.remedy);
        match groups.iter_mut().find(|(known, one, _)| *known == what && is_same(one)) {
            Some((_, _, all)) => all.push(label),
            None => groups.push((what, skip, vec![label])),
        }
    }
    let line = |(what, skip, all): (String, &Skip, Vec<String>)| {
        let remedy = skip.remedy.as_ref().map(|remedy| format!(" ({remedy})"));
        let more = all.len().saturating_sub(NAMED_MAX - 1);
        let names = match all.len() > NAMED_MAX {
            true => format!("{} and {more} more", all[..NAMED_MAX - 1].join(", ")),
            false => list(&all, "and"),
        };
        format!("{what} {names}: {}{}", skip.reason, remedy.unwrap_or_default())
    };
    groups.into_iter().map(line).collect()
}

/// What a row detects, at best and at worst.
fn detectable_in_words(rows: &[Detectable]) -> String {
    let of = |name: &str, unit: &str, factor: f64, digits: usize| {
        let own = rows.iter().filter(|row| row.figure == name);
        let all: Vec<f64> = own.filter_map(|row| row.smallest).map(|one| factor * one).collect();
        let least = all.iter().copied().reduce(f64::min)?;
        let most = all.iter().copied().reduce(f64::max)?;
        let [least, most] = [least, most].map(|one| format!("{one:.digits$}"));
        let span = if least == most { least } else { format!("{least} to {most}") };
        Some(format!("{name} by {span} {unit}"))
    };
    let found = [of("retention", "%", 100.0, 1), of("jitter", "medians", 1.0, 2)];
    let found: Vec<String> = found.into_iter().flatten().collect();
    if found.is_empty() {
        return "smallest change detected: unknown".to_owned();
    }
    let mut sources: Vec<&str> = rows.iter().map(|row| row.source.as_str()).collect();
    sources.sort_unstable();
    sources.dedup();
    let (found, sources) = (list(&found, "and"), list(&sources, "or"));
    format!("smallest change detected (80 % power): {found}; spread of blocks {sources}")
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
