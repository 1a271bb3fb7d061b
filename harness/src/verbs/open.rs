//! Opening records: finished ones as they are, and ones that a crash left behind after scoring.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use gpubench_host::device::virtual_gpu;
use gpubench_judge::figures::retention_charts;
use gpubench_judge::gate::OPEN_REQUESTS;
use gpubench_judge::score;
use gpubench_plan::profile::restored;
use gpubench_record::{
    CellFigures, CellResult, Condition, DeviceKind, RunEvent, RunRecord, Thresholds, counted,
};
use gpubench_reports::{Format, RenderOptions, View};
use gpubench_show::Page;
use gpubench_store::Record;
use gpubench_store::latency::PERCENTILES;
use gpubench_store::latency::{CurveOf, LatencyChart, LatencyCurve};
use gpubench_store::timeline::Timeline;
use gpubench_store::{
    CHECKSUMS_FILE, EVENTS_FILE, RECORD_FILE, SAMPLES_FILE, SIGNATURE_FILE, files_with_checksum,
    finish, read_events, seal, write_record_json,
};

use super::integrity::{facts_again, score_again};
use super::profile::other_key;
use super::record::{JudgeError, endings, rescore, score_events, score_folder, score_opened};
use super::session::comparison;
use super::signing::VerifyingKey;
use super::{signing, verdict};
use crate::error::ExpectedError;

/// An opened record, scored.
pub struct Opened {
    pub dir: PathBuf,
    pub record: Record,
    pub run: RunRecord,
    pub warnings: Vec<String>,
    /// What a reader should know of a record that other rules scored.
    pub note: Option<String>,
    /// Whether its scores do not follow from its cells, or its file is damaged: exit code 4.
    pub is_doubtful: bool,
}

/// Whether the scores of a crashed run are written into its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repair {
    No,
    Yes,
}

/// Opens a record. A run that left no scores is scored now, by the same rules. A run that is still
/// going is scored as far as it got.
pub fn open_scored(dir: &Path, repair: Repair) -> Result<Opened, ExpectedError> {
    let dir = gpubench_store::folder_of(dir);
    let mut record = open(dir)?;
    let checked = if record.is_rebuilt() {
        let (run, warnings) = match repair {
            Repair::No => score_opened(&record).map_err(|error| unscored(dir, &error))?,
            Repair::Yes => store(dir, record.warnings(), unscored)?,
        };
        Checked { run, warnings, note: None, is_doubtful: false }
    } else {
        let (run, is_damaged) = (record.take_run(), record.is_damaged(RECORD_FILE));
        checked_run(run, record.warnings(), is_damaged)
    };
    Ok(Opened {
        dir: dir.to_owned(),
        record,
        run: checked.run,
        warnings: checked.warnings,
        note: checked.note,
        is_doubtful: checked.is_doubtful,
    })
}

/// As [`open_scored`], by the built-in bounds of levels, for what compares records or recommends.
pub fn open_comparable(dir: &Path) -> Result<Opened, ExpectedError> {
    let mut opened = open_scored(dir, Repair::No)?;
    by_built_in_thresholds(dir, &mut opened.run, &mut opened.warnings)?;
    Ok(opened)
}

/// Scores a record with other bounds of levels by the built-in ones, and says so.
pub(super) fn by_built_in_thresholds(
    dir: &Path,
    run: &mut RunRecord,
    warnings: &mut Vec<String>,
) -> Result<(), ExpectedError> {
    let changed = run.plan.thresholds.changed();
    let keys: Vec<&str> = changed.iter().map(|(key, ..)| *key).collect();
    if keys.is_empty() {
        return Ok(());
    }
    run.plan.thresholds = Thresholds::default();
    let keys = keys.join(", ");
    rescore(run, &[]).map_err(|error| {
        let text = format!("its profile sets {keys}, and its cells give no other scores: {error}");
        ExpectedError::unreadable_record(dir, text)
    })?;
    warnings.push(format!("scored by the built-in thresholds: its profile sets {keys}"));
    Ok(())
}

/// A record with the scores that follow from its cells.
pub(super) struct Checked {
    pub(super) run: RunRecord,
    pub(super) warnings: Vec<String>,
    pub(super) note: Option<String>,
    pub(super) is_doubtful: bool,
}

/// Scores a finished record again. The record keeps what is wrong with it as its problems.
pub(super) fn checked(record: &Record) -> Checked {
    let is_damaged = record.is_damaged(RECORD_FILE);
    checked_run(record.run().clone(), record.warnings(), is_damaged)
}

/// As [`checked`], of a record that is not needed otherwise.
pub(super) fn checked_run(mut run: RunRecord, warnings: &[String], is_damaged: bool) -> Checked {
    let again = score_again(&mut run);
    run.problems = [warnings, &again.differences].concat();
    Checked {
        warnings: run.problems.clone(),
        run,
        note: again.note,
        is_doubtful: is_damaged || !again.differences.is_empty(),
    }
}

/// What is wrong with a record, or what was checked.
pub struct Verified {
    pub problems: Vec<String>,
    /// What was found right, where there is no problem.
    pub summary: String,
}

/// Checks the files of a record against their checksums, its scores against its cells, these
/// against their samples, and its signature where a key is given.
pub fn verified(dir: &Path, key: Option<&VerifyingKey>) -> Result<Verified, ExpectedError> {
    let mut found = verified_without_key(dir)?;
    match key {
        Some(key) => {
            for problem in signing::problems(dir, key)? {
                if !found.problems.contains(&problem) {
                    found.problems.push(problem);
                }
            }
            found.summary += &format!("; signed by key {}", key.id);
        }
        None if dir.join(SIGNATURE_FILE).exists() => {
            found.summary += "; signed, unchecked (--public-key)";
        }
        // Whoever can write the record can write all of it.
        None => found.summary += "; unsigned: consistent, not proved",
    }
    Ok(found)
}

fn verified_without_key(dir: &Path) -> Result<Verified, ExpectedError> {
    let record = open(dir)?;
    let listed = files_with_checksum(dir).map_err(|error| verdict::from_store(dir, error))?;
    let files = match listed {
        Some(files) => format!("{files} files match their checksums"),
        None => format!("unchecked: it has no {CHECKSUMS_FILE}"),
    };
    if record.is_rebuilt() {
        return Ok(Verified {
            problems: record.warnings().to_vec(),
            summary: format!("{files}; a crash left it without scores"),
        });
    }
    let Checked { run, note, .. } = checked(&record);
    let cells = counted(run.cells.len(), "cell");
    let has_samples = dir.join(SAMPLES_FILE).exists();
    // An anonymized copy has none.
    let has_events = dir.join(EVENTS_FILE).exists();
    let (mut problems, scores) = (
        run.problems,
        match (note, has_samples) {
            (Some(note), _) => note,
            (None, true) if !has_events => {
                format!("the scores follow from {cells}; it has no events, so these are unchecked")
            }
            (None, true) => format!("the scores follow from {cells}, and these from their samples"),
            (None, false) => format!(
                "the scores follow from {cells}; it has no samples, so nothing covers the figures \
                 of these: a rate that was changed is not seen"
            ),
        },
    );
    // Other rules than those of today may have judged the cells of other records.
    if has_samples && has_events && record.run().scoring == score::VERSION {
        match score_events(&record) {
            Ok(made) => problems.extend(facts_again(record.run(), &made)),
            Err(error) => problems.push(format!("its cells cannot be judged again: {error}")),
        }
    }
    let own = record.problems_of_side_files().into_iter().chain(events_problem(dir, &record));
    for problem in own {
        if !problems.contains(&problem) {
            problems.push(problem);
        }
    }
    Ok(Verified { problems, summary: format!("{files}; {scores}") })
}

/// What the events of a complete record lack, if they lack something.
fn events_problem(dir: &Path, record: &Record) -> Option<String> {
    if !record.run().complete || !dir.join(EVENTS_FILE).exists() {
        return None;
    }
    let events = match read_events(dir) {
        Ok(found) => found.events,
        Err(error) => return Some(error.to_string()),
    };
    let ended = endings(&events);
    let cells = &record.run().cells;
    if let Some(problem) = profile_problem(&events, &record.run().scoring) {
        return Some(problem);
    }
    let lost = cells.iter().filter(|cell| !ended.contains_key(&cell.cell.id)).count();
    let has_end = matches!(events.last(), Some(RunEvent::Ended { .. }));
    (lost > 0 || !has_end).then(|| {
        let (cells, end) = (cells.len(), if has_end { "" } else { " and of the run" });
        format!("{EVENTS_FILE} lacks the ends of {lost} of {cells} cells{end}")
    })
}

/// In which key the profile of a run with the name of a built-in one is another than that, or that
/// it is unknown. Records of other rules are of other versions.
fn profile_problem(events: &[RunEvent], scoring: &str) -> Option<String> {
    let Some(RunEvent::Began { plan, settings, provenance, .. }) = events.first() else {
        return None;
    };
    if scoring != score::VERSION || provenance.gpubench != env!("CARGO_PKG_VERSION") {
        return None;
    }
    let settings = settings.as_ref();
    let own = settings.and_then(|own| restored(&own.profile, &plan.profile, own.rotation_run));
    match own {
        Some(profile) => {
            let (key, name) = (other_key(&profile)?, &plan.profile);
            Some(format!("its profile is not {name} of this version: {key} has another value"))
        }
        // Every run of this version writes them.
        None => Some(format!("the first line of {EVENTS_FILE} has no settings of its profile")),
    }
}

/// Opens these records and returns the newest, which also counts the fault trials of the others.
pub fn newest(dirs: &[PathBuf], repair: Repair) -> Result<Opened, ExpectedError> {
    let mut all = Vec::new();
    for dir in dirs {
        all.push(open_scored(dir, repair)?);
    }
    // All times are UTC in one format, so the order of the texts is the order in time.
    all.sort_by(|a, b| a.run.provenance.started_at.cmp(&b.run.provenance.started_at));
    let Some(mut newest) = all.pop() else {
        return Err(ExpectedError::usage("no record was named", None));
    };
    if all.is_empty() {
        return Ok(newest);
    }
    let name = |dir: &Path| dir.display().to_string();
    let others: Vec<_> = all.iter().map(|one| (name(&one.dir), &one.run)).collect();
    let pooled = score::pool(&newest.run, &others);
    let again = rescore(&mut newest.run, &pooled.earlier);
    again.map_err(|error| unscored(&newest.dir, &error))?;
    newest.run.records_left_out = pooled.left_out;
    for one in all {
        let name = one.dir.display();
        let warnings: Vec<String> =
            one.warnings.iter().map(|text| format!("{name}: {text}")).collect();
        newest.run.problems.extend(warnings.clone());
        newest.warnings.extend(warnings);
        newest.is_doubtful |= one.is_doubtful;
    }
    Ok(newest)
}

/// The error of a record that cannot be scored.
fn unscored(dir: &Path, error: &JudgeError) -> ExpectedError {
    ExpectedError::unreadable_record(dir, error.to_string())
}

/// A run that just ended, with its record on disk.
pub struct Concluded {
    pub opened: Opened,
    /// What only the end of the run can tell.
    pub warnings: Vec<String>,
}

/// Turns the logs of a run that just ended into Parquet, scores it and writes its record.
pub fn conclude(out: &Path) -> Result<Concluded, ExpectedError> {
    let (mut run, mut warnings) = store(out, &[], |dir, error| {
        ExpectedError::internal(format!(
            "the record in {} cannot be scored: {error}",
            dir.display()
        ))
    })?;
    let record = open(out)?;
    run.problems = record.warnings().to_vec();
    warnings.retain(|warning| !run.problems.contains(warning));
    let opened = Opened {
        dir: out.to_owned(),
        warnings: run.problems.clone(),
        is_doubtful: record.is_damaged(RECORD_FILE),
        record,
        run,
        note: None,
    };
    Ok(Concluded { opened, warnings })
}

/// Turns logs into Parquet, scores them and writes the record, which keeps what was `wrong` with
/// its files: its new checksums are those of what is left.
fn store(
    dir: &Path,
    wrong: &[String],
    unscored: impl FnOnce(&Path, &JudgeError) -> ExpectedError,
) -> Result<(RunRecord, Vec<String>), ExpectedError> {
    let done = finish(dir).map_err(|error| verdict::from_store(dir, error))?;
    let (mut record, mut warnings) = score_folder(dir).map_err(|error| unscored(dir, &error))?;
    warnings.extend(done.warnings);
    if let Some(reason) = record.incomplete_reason.as_mut().filter(|_| !wrong.is_empty()) {
        *reason += &format!("; as it was repaired: {}", wrong.join("; "));
    }
    write_record_json(dir, &record)
        .and_then(|()| seal(dir))
        .map_err(|error| verdict::from_store(dir, error))?;
    Ok((record, warnings))
}

pub fn open(dir: &Path) -> Result<Record, ExpectedError> {
    let mut record = Record::open(dir).map_err(|error| verdict::from_store(dir, error))?;
    let device = &record.run().device;
    if device.kind == DeviceKind::Real
        && let Some(machine) = virtual_gpu::machine_of(&device.uuid)
    {
        record.mark_virtual(&format!("device.uuid is that of the machine {machine}"));
    }
    Ok(record)
}

// The latency charts of a record, for the formats that show them.

const FIGURES: [fn(&CellFigures) -> Option<f64>; PERCENTILES.len()] = [
    |of| of.open_latency_p50_ns,
    |of| of.open_latency_p90_ns,
    |of| of.open_latency_p99_ns,
    |of| of.open_latency_p999_ns,
];

/// For each victim with an open loop, the latencies in N, and in S and in C at full dose. From the
/// histograms of the record; without them, from the percentiles of each cell.
pub fn latency_charts(
    record: &Record,
    run: &RunRecord,
    warnings: &mut Vec<String>,
) -> Vec<LatencyChart> {
    let mut by_victim: BTreeMap<&str, BTreeMap<CurveOf, Vec<&CellResult>>> = BTreeMap::new();
    for cell in run.cells.iter().filter(|cell| is_drawn(run, cell)) {
        let curves = by_victim.entry(&cell.cell.victim).or_default();
        curves.entry(CurveOf::cell(&cell.cell)).or_default().push(cell);
    }
    let has_latencies = record.has_latencies();
    let mut charts = Vec::new();
    for (victim, curves) in by_victim {
        let curves: Vec<LatencyCurve> = curves
            .into_iter()
            .filter_map(|(of, cells)| {
                if has_latencies {
                    curve(record, of, &cells, warnings)
                } else {
                    curve_of_figures(of, &cells)
                }
            })
            .collect();
        if !curves.is_empty() {
            charts.push(LatencyChart { victim: victim.to_owned(), curves });
        }
    }
    charts
}

/// Whether reports show the open loop of a cell. One without open-loop requests has none to show.
fn is_drawn(run: &RunRecord, cell: &CellResult) -> bool {
    let plan = &run.plan;
    let drawn = match cell.cell.condition {
        _ if !cell.cell.shape.is_usual() => false,
        Condition::N | Condition::S => true,
        // Beside all neighbours; a sweep also has cells with fewer.
        Condition::C => {
            let all = plan.sweep.is_empty() || cell.cell.tenants.len() >= plan.tenants as usize;
            cell.cell.dose >= 1.0 && all
        }
        _ => false,
    };
    drawn && cell.outcome.is_measured() && requests(cell) > 0
}

fn requests(cell: &CellResult) -> u64 {
    cell.requests.get(OPEN_REQUESTS).copied().unwrap_or(0)
}

fn curve(
    record: &Record,
    of: CurveOf,
    cells: &[&CellResult],
    warnings: &mut Vec<String>,
) -> Option<LatencyCurve> {
    let mut blocks = Vec::new();
    for cell in cells {
        let Some(victim) = cell.tenant_results.first() else {
            continue;
        };
        match record.latencies(&cell.cell.id, &victim.planned.tenant) {
            Ok(latencies)
                if latencies.count() > requests(cell)
                    || (latencies.count() == 0) == cell.figures.open_latency_p50_ns.is_some() =>
            {
                let (label, id, count) = (of.label(), &cell.cell.id, latencies.count());
                warnings.push(format!(
                    "no latency curve \"{label}\": its log has {count} latencies of {id}, which \
                     made {} requests",
                    requests(cell)
                ));
                return None;
            }
            Ok(latencies) => blocks.push((requests(cell), latencies)),
            Err(error) => {
                // A curve without some of its cells could be mistaken for a complete one.
                warnings.push(format!("no latency curve \"{}\": {error}", of.label()));
                return None;
            }
        }
    }
    LatencyCurve::new(of, &blocks)
}

fn curve_of_figures(of: CurveOf, cells: &[&CellResult]) -> Option<LatencyCurve> {
    let figures = FIGURES.map(|figure| -> Vec<f64> {
        cells.iter().filter_map(|cell| figure(&cell.figures)).collect()
    });
    let sum = cells.iter().map(|cell| requests(cell)).sum();
    LatencyCurve::of_figures(of, sum, figures.each_ref().map(Vec::as_slice))
}

// What a report of a record shows besides it: latencies, telemetry, and the comparison with
// earlier records. `gpubench matrix` and `gpubench report` take both from here.

/// What `format` shows of an opened record, with earlier records to compare it with.
pub fn report_options(
    opened: &Opened,
    format: &Format,
    view: View,
    earlier: &[PathBuf],
) -> RenderOptions {
    let mut warnings = opened.warnings.clone();
    let record_dir = Some(opened.dir.display().to_string());
    let mut options = RenderOptions { view, record_dir, ..RenderOptions::default() };
    // Of text and Markdown only the full view shows latencies.
    let has_latencies = view == View::Full || format.draws_charts;
    if format.is_for_people && has_latencies {
        options.latency = latency_charts(&opened.record, &opened.run, &mut warnings);
    }
    if format.draws_charts {
        options.retention = retention_charts(&opened.run);
        options.timeline = timeline(opened, &mut warnings);
        options.diff = diff(opened, earlier);
    }
    options.warnings = warnings;
    options
}

fn timeline(opened: &Opened, warnings: &mut Vec<String>) -> Option<Timeline> {
    match opened.record.telemetry() {
        Ok(rows) => Timeline::of(&rows),
        Err(error) => {
            warnings.push(format!("no chart of the telemetry: {error}"));
            None
        }
    }
}

/// The comparison with earlier records. One that cannot be made says why.
fn diff(opened: &Opened, earlier: &[PathBuf]) -> Option<Page> {
    if earlier.is_empty() {
        return None;
    }
    Some(comparison(earlier, &opened.dir).unwrap_or_else(|error| {
        let mut page = Page::new("The earlier records cannot be compared with this one");
        page.notice(error.to_string());
        page
    }))
}
