//! The content of every report for people: title, notices, tables, notes and footer.
//!
//! Formats differ in how they draw a document, not in its content.

use super::figures::{MISSING_TEXT, confidence};
use super::{RenderOptions, VIRTUAL_TITLE, curves, faults, matrix, neighbours, results, tables};
use crate::matrix::Selection;
use gpubench_record::calibration::ObservationCost;
use gpubench_record::{Axis, DeviceKind, MACHINE_GUESSES, Plan, Provenance, RunRecord, counted};
use gpubench_show::{Block, Notes, Page, Table, clean};
use std::borrow::Cow;

/// A report as text and tables, before it is drawn.
#[derive(Debug)]
pub(super) struct Document {
    /// One line; begins with the mark of a virtual GPU.
    pub(super) title: String,
    /// Statements that a reader needs before any figure.
    pub(super) notices: Vec<String>,
    /// The sentences of the screen, one each; only in the view with all tables.
    pub(super) answer: Vec<String>,
    /// The number of cells by outcome, as a sentence.
    pub(super) cells: String,
    pub(super) tables: Vec<Table>,
    /// Reasons and warnings that tables refer to by number, from 1.
    pub(super) notes: Vec<String>,
    /// The origin of the record, as name and text.
    pub(super) footer: Vec<(&'static str, String)>,
}

/// The title: the device, behind the mark of a virtual GPU.
pub(super) fn title(record: &RunRecord) -> String {
    let name = clean(&record.device.name);
    match record.device.kind {
        DeviceKind::Real => format!("gpubench: {name}"),
        DeviceKind::Virtual => format!("{VIRTUAL_TITLE} (gpubench: {name})"),
    }
}

impl Document {
    /// The document of the selected mechanisms and axes; notices, counts and origin are those of
    /// the whole record.
    pub(super) fn of_selection(record: &RunRecord, options: &RenderOptions) -> Self {
        let whole = Self::of(record, options);
        let part = selected_options(record, options);
        Self {
            notices: whole.notices,
            cells: whole.cells,
            footer: whole.footer,
            ..Self::of(&selected(record, &options.selection), &part)
        }
    }

    /// The document as it is written; its notes follow the last table that refers to them.
    pub(super) fn page(self) -> Page {
        let mut page = Page::new(self.title);
        self.notices.into_iter().for_each(|notice| page.notice(notice));
        self.answer.into_iter().chain([self.cells]).for_each(|line| page.say(line));
        let last = self.tables.iter().rposition(Table::refers_to_notes);
        let mut notes = Some(self.notes);
        for (at, table) in self.tables.into_iter().enumerate() {
            page.push(table);
            if last == Some(at) {
                page.push(Block::Notes(notes.take().unwrap_or_default()));
            }
        }
        let footer = self.footer.into_iter().map(|(name, text)| (name.into(), text));
        page.push(Block::Facts(footer.collect()));
        page
    }

    pub(super) fn of(record: &RunRecord, options: &RenderOptions) -> Self {
        let mut notes = Notes::default();
        let mut tables = if matrix::has_figures(record) {
            vec![
                matrix::matrix(record, &mut notes),
                tables::operator(record),
                curves::percentiles(&options.latency),
                tables::service(record, &mut notes),
                tables::tenant_limits(record, &mut notes),
                curves::curves(record, &mut notes),
                neighbours::predictions(record),
                matrix::more_figures(record),
                tables::mechanisms(record, &mut notes),
            ]
        } else {
            vec![matrix::reasons(record)]
        };
        tables.extend(neighbours::tables(record));
        tables.extend([
            faults::faults(record),
            tables::probe_figures(record),
            tables::aggressors(record),
            results::results(record),
            tables::skips(record),
            tables::time_use(record),
            tables::cells(record),
            tables::proof(record),
            tables::tested(record),
            tables::untested(record),
        ]);
        tables.retain(|table| !table.rows.is_empty());
        Self {
            title: title(record),
            notices: notices(record, options),
            answer: Vec::new(),
            cells: tables::cells_in_words(record),
            tables,
            notes: notes.into_texts(),
            footer: footer(record, options),
        }
    }
}

/// Statements that a reader needs before any figure.
pub(super) fn notices(record: &RunRecord, options: &RenderOptions) -> Vec<String> {
    let mut notices = urgent(record);
    if record.plan.required_proofs.is_none() {
        notices.push(
            "PROOFS BY MECHANISM: before format 2.2 a record did not keep the proofs of each cell; \
             every cell is judged by all proofs of its mechanism"
                .to_owned(),
        );
    }
    notices.extend(tables::notice(record));
    notices.extend(not_asked(record));
    notices.extend(left_out(record, options));
    notices
}

/// Those that limit what the levels mean.
pub(super) fn urgent(record: &RunRecord) -> Vec<String> {
    let mut notices = Vec::new();
    if !record.complete {
        let reason = record.incomplete_reason.as_deref().unwrap_or("the record gives no reason");
        notices.push(format!("INCOMPLETE: {}", clean(reason)));
    }
    notices.extend(record.plan.thresholds.notice());
    notices.extend(record.plan.frozen.as_ref().map(|frozen| {
        let more = record.plan.top_up.as_ref().map_or(0, |top_up| top_up.rows.len());
        let top_up =
            (more > 0).then(|| format!("; {} asked for blocks later", counted(more, "row")));
        format!("FROZEN: {}{}", clean(&frozen.to_string()), top_up.unwrap_or_default())
    }));
    for interruption in &record.interruptions {
        let text = clean(&interruption.to_string());
        notices.push(format!("RESUMED: {text}; blocks of both starts count"));
    }
    if let Some(reason) = &record.fault_trials_stopped {
        notices.push(format!("FAULT TRIALS STOPPED: {}", clean(reason)));
    }
    notices.extend(faults::missing_trials(record));
    if !record.plan.decides {
        notices.push(format!(
            "DECIDES NOTHING: profile {} is a functional check, with {} blocks per cell",
            clean(&record.profile.name),
            record.plan.blocks
        ));
    }
    notices.extend(guessed(record));
    if !record.has_figure() {
        notices.push("NOTHING MEASURED: no row of the matrix has a trusted figure".to_owned());
    }
    notices
}

/// Prefixes of the constants of a machine on which figures rest, by axis or sub-axis; the last ones
/// act where tenants take turns.
const CONSTANTS: &[(&str, &[&str])] = &[
    ("sm", &["power"]),
    ("power", &["power"]),
    ("launch", &["host.launch"]),
    ("driver", &["host.lock", "host.alloc", "host.free"]),
    ("dram", &["memory.dram", "memory.sm_dram"]),
    ("l2", &["memory.l2", "memory.sm_l2"]),
    ("pcie", &["pcie"]),
    ("capacity", &["memory.context"]),
    ("jitter", &["host.launch", "memory.sm_dram"]),
    ("fault", &["mps.recovery"]),
    (TURNS, &["scheduler.slice", "scheduler.switch"]),
];
const TURNS: &str = "time-slicing";

/// The guessed constants of a virtual machine on which measured rows rest.
fn guessed(record: &RunRecord) -> Option<String> {
    let guesses: Vec<&str> = record.device.facts.get(MACHINE_GUESSES)?.split(' ').collect();
    let measured = |name: &str| {
        let mut rows = record.matrix.iter().filter(|row| row.outcome.is_measured());
        rows.any(|row| {
            row.sub_axis.as_deref().unwrap_or(&row.axis) == name || row.mechanism == name
        })
    };
    let of = |(name, prefixes): &(&str, &[&str])| {
        let rest = |guess: &&&str| {
            let mut prefixes = prefixes.iter();
            prefixes.any(|prefix| guess.starts_with(prefix) || prefix.starts_with(**guess))
        };
        let rest: Vec<&str> = guesses.iter().filter(rest).copied().collect();
        (measured(name) && !rest.is_empty()).then(|| format!("{name}: {}", rest.join(", ")))
    };
    let of_rows: Vec<String> = CONSTANTS.iter().filter_map(of).collect();
    (!of_rows.is_empty()).then(|| {
        let of_rows = clean(&of_rows.join("; "));
        format!("GUESSED, by no document and no measurement, are constants under {of_rows}")
    })
}

/// Records that do not count, and warnings from opening the record.
pub(super) fn left_out(record: &RunRecord, options: &RenderOptions) -> Vec<String> {
    let records = record.records_left_out.iter().map(|left_out| {
        let (record, reason) = (clean(&left_out.record), clean(&left_out.reason));
        format!("LEFT OUT: the fault trials of {record} do not count: {reason}")
    });
    let warnings = options.warnings.iter();
    let warnings = warnings.map(|text| format!("warning: {}", clean(text)));
    records.chain(warnings).collect()
}

/// The hash of the calibration; `-` without one.
pub(super) fn calibration(record: &RunRecord) -> String {
    match record.calibration.entries.len() {
        0 => MISSING_TEXT.to_owned(),
        _ => record.calibration.hash.clone(),
    }
}

fn observing(cost: &ObservationCost) -> String {
    let min = cost.ratios.iter().copied().fold(f64::INFINITY, f64::min);
    let max = cost.ratios.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    format!(
        "{} keeps {min:.3} to {max:.3} of its rate (range of {} pairs) beside observations back to \
         back; a cell has one, of {:.1} ms",
        cost.victim,
        cost.ratios.len(),
        cost.mean_ns as f64 / 1e6
    )
}

/// What the run made of the user's environment variables, and what else was measured.
fn environment(provenance: &Provenance) -> Vec<(&'static str, String)> {
    let dropped = match provenance.dropped_variables.as_slice() {
        [] => None,
        names => Some(format!("not inherited: {}", names.join(", "))),
    };
    let others = provenance.host.get("other_gpus");
    let beside = others.map(|others| format!("{others}, measured at the same time"));
    [
        ("beside", beside),
        ("environment", dropped),
        ("allotment", provenance.visible_devices.clone()),
        ("victim", provenance.victim_environment.clone()),
    ]
    .into_iter()
    .filter_map(|(name, text)| Some((name, text?)))
    .collect()
}

/// The same, with a note where the record does not name the device of the rates.
fn bound_calibration(record: &RunRecord) -> String {
    let hash = calibration(record);
    let is_bound = record.calibration.binding.is_some();
    if is_bound || record.calibration.entries.is_empty() {
        return hash;
    }
    format!("{hash}, without a binding to its device, as before format 2.2")
}

/// The confidence of the intervals, and why where it is not that of one look.
fn intervals(plan: &Plan) -> String {
    match plan.looks {
        0 | 1 => "95 %".to_owned(),
        looks => format!(
            "{} over blocks, because rows may get blocks after a first look and each of {looks} \
             looks has its part of the error; 95 % of proportions",
            confidence(plan)
        ),
    }
}

fn footer(record: &RunRecord, options: &RenderOptions) -> Vec<(&'static str, String)> {
    let device = &record.device;
    let kind = device.kind.as_str();
    let plan = &record.plan;
    let ended = record.provenance.ended_at.as_deref().unwrap_or(MISSING_TEXT);
    let mut footer = vec![
        ("device", format!("{} ({kind}), {}", device.name, device.uuid)),
        ("driver", format!("{}, CUDA {}", device.driver, device.cuda)),
        ("profile", format!("{}, hash {}", record.profile.name, record.profile.hash)),
        (
            "plan",
            format!(
                "{} tenants, victim share {}, {} blocks, {} cells",
                plan.tenants,
                super::figures::value(plan.share),
                plan.blocks,
                plan.cells.len()
            ),
        ),
        ("seed", record.seed.to_string()),
        ("calibration", bound_calibration(record)),
        (
            "intervals",
            format!(
                "{}, within this session: how much sessions differ is not part of them \
                 (gpubench doctor --calibrate measures it); n counts blocks, or trials for \
                 proportions; a range is from minimum to maximum",
                intervals(plan)
            ),
        ),
        (
            "scoring",
            format!(
                "{} (the page Levels of the book: how they come about; gpubench choose: which \
                 mechanism to use)",
                record.scoring
            ),
        ),
        (
            "run",
            format!(
                "{} to {ended}, gpubench {}",
                record.provenance.started_at, record.provenance.gpubench
            ),
        ),
    ];
    if let Some(rotation) = &plan.rotation {
        footer.push(("rotation", rotation.to_string()));
    }
    if let Some(top_up) = &plan.top_up {
        footer.push(("more blocks", top_up.to_string()));
    }
    if let Some(cost) = &record.calibration.observation_cost {
        footer.push(("observing", observing(cost)));
    }
    footer.extend(environment(&record.provenance));
    if let Some(dir) = &options.record_dir {
        footer.push(("record", dir.clone()));
    }
    footer.into_iter().map(|(name, text)| (name, clean(&text))).collect()
}

/// The flag without which no device setting changes.
const RECONFIGURE: &str = "--allow-reconfigure";

/// The sentences.
pub(super) fn not_asked(record: &RunRecord) -> Vec<String> {
    [user_victim(record), faults(record), reconfigure(record)].into_iter().flatten().collect()
}

/// Whether the profile includes this axis. A record without a list includes all.
fn includes(record: &RunRecord, axis: Axis) -> bool {
    let axes = &record.plan.axes;
    axes.is_empty() || axes.iter().any(|name| name == "all" || name == axis.as_str())
}

fn user_victim(record: &RunRecord) -> Option<String> {
    record.plan.user_victim.as_ref()?;
    let needs = includes(record, Axis::Memory) || includes(record, Axis::Fault);
    needs.then(|| {
        "NOT MEASURED: the axes memory and fault need built-in victims, and the victim is the \
         user's own program"
            .to_owned()
    })
}

fn faults(record: &RunRecord) -> Option<String> {
    let plan = &record.plan;
    let is_missing = includes(record, Axis::Fault)
        && plan.fault_trials.is_empty()
        && record.fault_tallies.is_empty()
        && plan.user_victim.is_none();
    is_missing.then(|| "NOT ASKED FOR: the fault axis; --faults injects faults".to_owned())
}

fn reconfigure(record: &RunRecord) -> Option<String> {
    let whole = record.plan.skips.iter().filter(|skip| skip.axis.is_none());
    let wanting = whole.filter(|skip| {
        let remedy = skip.remedy.as_deref().unwrap_or_default();
        remedy.contains(RECONFIGURE)
    });
    let names: Vec<String> = wanting.map(|skip| clean(&skip.name)).collect();
    (!names.is_empty()).then(|| {
        format!(
            "NOT ASKED FOR: {}; {RECONFIGURE} lets the run change device settings for them",
            names.join(", ")
        )
    })
}

/// The options with only the latency curves of the selected mechanisms, where jitter is selected.
fn selected_options(record: &RunRecord, options: &RenderOptions) -> RenderOptions {
    let selection = &options.selection;
    let mut part = options.clone();
    let hidden: Vec<&str> = record
        .mechanisms
        .iter()
        .filter(|one| !selection.has_mechanism(&one.name, &one.variant))
        .map(|one| one.variant.as_str())
        .collect();
    for chart in &mut part.latency {
        chart.curves.retain(|curve| {
            let of = |variant: &&str| curve.of.variant == **variant;
            selection.has_axis("jitter", None) && !hidden.iter().any(of)
        });
    }
    part.latency.retain(|chart| !chart.curves.is_empty());
    part
}

/// The record itself where all of it is selected.
pub(super) fn selected<'a>(record: &'a RunRecord, selection: &Selection) -> Cow<'a, RunRecord> {
    if *selection == Selection::default() {
        return Cow::Borrowed(record);
    }
    let mut part = record.clone();
    let variants: Vec<String> = record
        .mechanisms
        .iter()
        .filter(|one| selection.has_mechanism(&one.name, &one.variant))
        .map(|one| one.variant.clone())
        .collect();
    let has = |variant: &String| selection.mechanisms.is_empty() || variants.contains(variant);
    let has_axis = |axis: &str, sub_axis: Option<&str>| selection.has_axis(axis, sub_axis);
    part.mechanisms.retain(|one| has(&one.variant));
    part.overall.retain(|row| has(&row.variant));
    part.matrix.retain(|row| has(&row.variant) && has_axis(&row.axis, row.sub_axis.as_deref()));
    let of_cell = |variant: &String, sub_axis: gpubench_record::SubAxis| {
        let axis = sub_axis.axis();
        has(variant) && has_axis(axis.as_str(), Some(sub_axis.as_str()))
    };
    part.cells.retain(|one| of_cell(&one.cell.variant, one.cell.sub_axis));
    part.plan.cells.retain(|cell| of_cell(&cell.variant, cell.sub_axis));
    part.plan.skips.retain(|skip| {
        let is = selection.has_mechanism(&skip.name, &skip.variant);
        let axis = skip.axis.as_deref().map(|axis| axis.split_once('/').unwrap_or((axis, "")));
        is && axis.is_none_or(|(axis, sub_axis)| has_axis(axis, Some(sub_axis)))
    });
    // Whether a victim is measured for a selected axis, beside one neighbour or any.
    let has_pair = |victim: &str, aggressor: Option<&str>| {
        let mut pairs = record.plan.pairs.iter().filter(|pair| {
            pair.victim == victim && aggressor.is_none_or(|name| pair.aggressor == name)
        });
        selection.axes.is_empty()
            || pairs
                .any(|pair| has_axis(pair.sub_axis.axis().as_str(), Some(pair.sub_axis.as_str())))
    };
    part.operator.retain(|row| has(&row.variant) && has_pair(&row.victim, Some(&row.aggressor)));
    part.service.retain(|row| has(&row.variant) && has_pair(&row.victim, row.aggressor.as_deref()));
    part.transients.retain(|row| has(&row.variant));
    part.energy.retain(|row| has(&row.variant));
    part.attribution.retain(|row| has(&row.variant));
    part.dose_curves.retain(|curve| has(&curve.variant));
    part.probe_figures.retain(|one| has(&one.variant));
    part.fault_tallies.retain(|tally| has_axis("fault", Some(&tally.class)) && has(&tally.variant));
    part.claims.retain(|claim| {
        let of_mechanism = selection.mechanisms.is_empty()
            || claim.mechanisms.iter().any(|one| selection.has_mechanism(one, one));
        of_mechanism && selection.axes.is_empty()
    });
    Cow::Owned(part)
}
