//! From a record to a session: what a comparison of records needs. This folder alone knows both.

mod dataset;
mod facts;
mod folders;
mod nights;
mod rows;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use folders::record_folders;
use gpubench_compare::diff::{Options, diff};
use gpubench_compare::render::{Detail, diff_page};
use gpubench_compare::session::{Doubts, Keys, Work};
use gpubench_compare::{Metric, Session};
use gpubench_judge::figures::{Cells, Reading as CellReading};
use gpubench_judge::score;
use gpubench_record::{Axis, RunRecord};
use gpubench_show::Page;
use gpubench_store::Record;
use gpubench_store::{RECORD_FILE, Reading};

use super::integrity::impossible;
use super::open::{Checked, by_built_in_thresholds, checked, checked_run};
use super::record::{score_opened, settle_outcomes};
use super::{open, verdict};
use crate::error::ExpectedError;

pub use dataset::{figures_of, head_of, id};
pub use facts::known_spread;
pub use folders::is_record;
pub use nights::{
    Keep, Old, Pin, Pins, Pruning, acknowledge, acknowledged, declare, declared, pin, pinned, pins,
    pruning, remove, unpin,
};

#[derive(Debug, Default)]
pub struct Records {
    /// With the names of their folders.
    pub records: Vec<(String, RunRecord)>,
    /// One line for each record that was left out, and for each problem of the others.
    pub notes: Vec<String>,
    /// Whether the scores of one do not follow from its cells, or its file is damaged.
    pub is_doubtful: bool,
}

/// Sessions of one side, and the records that could not be read.
///
/// A session has only what comparisons use of its record: about 0.1 MiB of 9 MB for a record of the
/// default profile with 344 rows. `diff` of such records has its peak at 211 MiB with 10 a side, at
/// 235 MiB with 100, and at 298 MiB with 400; most of the first figure is for reading.
/// At most 10,000 records are read.
#[derive(Debug, Default)]
pub struct Sessions {
    /// In the order of their start.
    pub sessions: Vec<Session>,
    pub left_out: Vec<String>,
}

/// Reads the records that the arguments name. Of a folder of records, those that cannot be read
/// are left out by name; a record that is itself an argument must be readable.
pub fn sessions(arguments: &[PathBuf]) -> Result<Sessions, ExpectedError> {
    read(arguments, session)
}

/// Reads the records of two sides at once.
pub fn both_sides(before: &[PathBuf], after: &[PathBuf]) -> [Result<Sessions, ExpectedError>; 2] {
    std::thread::scope(|scope| {
        let beside = scope.spawn(|| sessions(before));
        let after = sessions(after);
        let before = beside.join();
        [before.unwrap_or_else(|panic| std::panic::resume_unwind(panic)), after]
    })
}

/// Reads the records of folders of nights, through the index that is kept beside them.
pub fn nights(folders: &[PathBuf]) -> Result<Sessions, ExpectedError> {
    read(folders, indexed)
}

/// Records that are in memory at once.
const AT_ONCE: usize = 2048;

/// Reads the figures of the records of folders of nights in parts, through the index, without
/// unreadable ones. What a record says of its figures is not checked.
pub fn each_night(
    arguments: &[PathBuf],
    mut each: impl FnMut(Sessions) -> Result<(), ExpectedError>,
) -> Result<(), ExpectedError> {
    for part in record_folders(arguments)?.chunks(AT_ONCE) {
        let mut found = Sessions::default();
        for read in folders::map(part, |one| figures(&one.path)) {
            match read {
                Ok(session) => found.sessions.push(session),
                Err(error) => found.left_out.push(error.to_string()),
            }
        }
        each(found)?;
    }
    Ok(())
}

/// The nights of a folder that may have none yet.
pub fn nights_so_far(folder: &Path) -> Result<Sessions, ExpectedError> {
    if folder.exists() && !folder.is_dir() {
        let text = format!("nights {}: it is no folder", folder.display());
        return Err(ExpectedError::usage(text, Some("name a folder of records")));
    }
    let folders = [folder.to_owned()];
    match record_folders(&folders) {
        Err(ExpectedError::RecordUnreadable { .. }) => Ok(Sessions::default()),
        Err(_) if !folder.exists() => Ok(Sessions::default()),
        _ => nights(&folders),
    }
}

/// As [`nights()`], with one mean for each series of the rows to keep: a look at many nights needs
/// little memory. A folder can also be a dataset, which is read in their place.
pub fn night_means(
    folders: &[PathBuf],
    keep: impl Fn(Metric) -> bool + Sync,
) -> Result<Sessions, ExpectedError> {
    let (datasets, folders): (Vec<PathBuf>, Vec<PathBuf>) =
        folders.iter().cloned().partition(|dir| gpubench_store::dataset::is_dataset(dir));
    let mut found = Sessions::default();
    if !folders.is_empty() || datasets.is_empty() {
        found = read(&folders, |dir| Ok(indexed(dir)?.with_means_of(&keep)))?;
    }
    for dir in datasets {
        found.sessions.extend(dataset::sessions_of(&dir, &keep)?);
    }
    in_order(&mut found.sessions);
    Ok(found)
}

fn in_order(sessions: &mut [Session]) {
    sessions.sort_by(|a, b| (&a.started_at, &a.name).cmp(&(&b.started_at, &b.name)));
}

fn read(
    arguments: &[PathBuf],
    session: impl Fn(&Path) -> Result<Session, ExpectedError> + Sync,
) -> Result<Sessions, ExpectedError> {
    let mut found = Sessions::default();
    let folders = record_folders(arguments)?;
    let keys = Keys::default();
    let read = folders::map(&folders, |one| Ok(keys.shared(session(&one.path)?)));
    for (folder, read) in folders.iter().zip(read) {
        match read {
            Ok(session) => found.sessions.push(session),
            Err(error) if folder.is_listed => return Err(error),
            Err(error) => found.left_out.push(error.to_string()),
        }
    }
    if found.sessions.is_empty() {
        return Err(ExpectedError::usage(
            format!("no readable record: {}", found.left_out.join("; ")),
            None,
        ));
    }
    in_order(&mut found.sessions);
    Ok(found)
}

/// The records that the arguments name, each with its folder, and one line for each record of a
/// folder that could not be read and for each loss of the others. Of each record only what `trim`
/// leaves stays in memory.
pub fn records(
    arguments: &[PathBuf],
    trim: impl Fn(&mut RunRecord),
) -> Result<Records, ExpectedError> {
    let mut found = Records::default();
    for folder in record_folders(arguments)? {
        let name = folder.path.display().to_string();
        let read = |dir: &Path| {
            let record = open(dir)?;
            let mut one = scored(dir, &record)?;
            by_built_in_thresholds(dir, &mut one.run, &mut one.warnings)?;
            Ok::<_, ExpectedError>(one)
        };
        match read(&folder.path) {
            Ok(mut one) => {
                trim(&mut one.run);
                let warnings = one.warnings.iter();
                found.notes.extend(warnings.map(|text| format!("{name}: {text}")));
                found.is_doubtful |= one.is_doubtful;
                found.records.push((name, one.run));
            }
            Err(error) if folder.is_listed => return Err(error),
            Err(error) => found.notes.push(format!("left out: {error}")),
        }
    }
    Ok(found)
}

/// The session of a record by the index, else by the record itself.
fn indexed(dir: &Path) -> Result<Session, ExpectedError> {
    let Some(sources) = folders::Sources::of(dir) else {
        return session(dir);
    };
    if let Some(known) = folders::load(dir, &sources) {
        return Ok(known);
    }
    let session = session(dir)?;
    // A record that changed meanwhile is read again the next time.
    if folders::Sources::of(dir).as_ref() == Some(&sources) {
        folders::store(dir, sources, &session);
    }
    Ok(session)
}

/// The session of a record by the index, else with its figures alone. Scoring takes a quarter of
/// the time of reading, and figures do not depend on it.
fn figures(dir: &Path) -> Result<Session, ExpectedError> {
    let damaged =
        |why: &str| ExpectedError::unreadable_record(dir, format!("it is damaged: {why}"));
    let known = folders::Sources::of(dir).and_then(|sources| folders::load(dir, &sources));
    if let Some(known) = known {
        let why = known.losses.first().map_or("it contradicts itself", String::as_str);
        return if known.is_doubtful { Err(damaged(why)) } else { Ok(known) };
    }
    let _alone = alone(dir);
    let record = open(dir)?;
    if record.is_rebuilt() {
        return session_of(dir, record);
    }
    // The dataset has no place for a doubt.
    let why = record.warnings().first().cloned().filter(|_| record.is_damaged(RECORD_FILE));
    if let Some(why) = why.or_else(|| impossible(record.run()).into_iter().next()) {
        return Err(damaged(&why));
    }
    let mut run = record.into_run();
    settle_outcomes(&mut run.cells);
    score::VERSION.clone_into(&mut run.scoring);
    Ok(of_record(dir, &run, &[], Vec::new()))
}

/// The size from which records are read one at a time, so that reading takes the memory of one.
const LARGE_BYTES: u64 = 64 << 20;

/// Held while such a record is read.
static LARGE: Mutex<()> = Mutex::new(());

fn alone(dir: &Path) -> Option<MutexGuard<'static, ()>> {
    let bytes = std::fs::metadata(dir.join(RECORD_FILE)).map_or(0, |file| file.len());
    (bytes > LARGE_BYTES).then(|| LARGE.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Reads one record.
fn session(dir: &Path) -> Result<Session, ExpectedError> {
    let _alone = alone(dir);
    session_of(dir, open(dir)?)
}

fn session_of(dir: &Path, record: Record) -> Result<Session, ExpectedError> {
    let mut losses = Vec::new();
    let telemetry = telemetry(&record, &mut losses);
    let mut checked = if record.is_rebuilt() {
        scored(dir, &record)?
    } else {
        let (warnings, is_damaged) = (record.warnings().to_vec(), record.is_damaged(RECORD_FILE));
        checked_run(record.into_run(), &warnings, is_damaged)
    };
    by_built_in_thresholds(dir, &mut checked.run, &mut checked.warnings)?;
    let Checked { run, warnings, is_doubtful, .. } = checked;
    losses.splice(0..0, warnings);
    if !run.complete {
        let reason = run.incomplete_reason.as_deref();
        losses.push(format!("incomplete: {}", reason.unwrap_or("no reason given")));
    }
    Ok(Session { is_doubtful, ..of_record(dir, &run, &telemetry, losses) })
}

/// The record with the scores that follow from its cells. A run that left no scores is scored in
/// memory: nothing is written.
fn scored(dir: &Path, record: &Record) -> Result<Checked, ExpectedError> {
    if !record.is_rebuilt() {
        return Ok(checked(record));
    }
    let scored = score_opened(record)
        .map_err(|error| ExpectedError::unreadable_record(dir, error.to_string()));
    scored.map(|(run, warnings)| Checked { run, warnings, note: None, is_doubtful: false })
}

/// The telemetry; without it there are no clocks, which is a loss and no error.
fn telemetry(record: &Record, losses: &mut Vec<String>) -> Vec<Reading> {
    let telemetry = record.readings(|metric| facts::METRICS.contains(&metric));
    telemetry.unwrap_or_else(|error| {
        let error = verdict::from_store(record.dir(), error);
        losses.push(format!("no telemetry, so no hints at clocks: {error}"));
        Vec::new()
    })
}

fn of_record(
    dir: &Path,
    run: &RunRecord,
    telemetry: &[Reading],
    mut losses: Vec<String>,
) -> Session {
    let [clocks, powers] =
        [facts::SM_CLOCK, facts::POWER].map(|metric| facts::Means::of(telemetry, metric));
    let mut rows = facts::proportions_of(run);
    let mut repeats = BTreeMap::new();
    match Cells::index(&run.plan, &run.cells, CellReading::Printed) {
        Ok(cells) => {
            let source = rows::Source { run, cells: &cells, clocks: &clocks, powers: &powers };
            rows.extend(source.rows());
            repeats = source.repeats();
        }
        // Which of its results count is unknown.
        Err(error) => losses.push(error.to_string()),
    }
    let work = run.calibration.entries.iter().map(|(name, entry)| {
        let work = Work { amount: entry.work_per_request, unit: entry.unit.clone() };
        (name.clone(), work)
    });
    Session {
        name: dir.display().to_string(),
        started_at: run.provenance.started_at.clone(),
        kind: run.device.kind,
        facts: Arc::new(facts::of(run)),
        labels: run.provenance.labels.clone(),
        margins: run.plan.margins,
        levels: facts::levels(telemetry),
        doubts: doubts(run),
        rows: rows.into_iter().map(|(key, row)| (Arc::new(key), row)).collect(),
        repeats,
        work: work.collect(),
        losses,
        is_doubtful: false,
    }
}

/// What the report of the record prints beside its rows.
fn doubts(run: &RunRecord) -> Vec<Doubts> {
    let rows = run.matrix.iter().map(|row| Doubts {
        variant: row.variant.clone(),
        // The pair of a row of jitter is its victim and its aggressor.
        axis: match row.axis.as_str() {
            jitter if jitter == Axis::Jitter.as_str() => jitter.to_owned(),
            _ => row.axis_path(),
        },
        victim: row.victim.clone(),
        aggressor: row.aggressor.clone(),
        // That two levels are open is no doubt of the figure, and its parts are none either.
        texts: row
            .notes()
            .filter(|text| row.level.is_none() || Some(*text) != row.outcome.reason.as_ref())
            .filter(|text| !gpubench_judge::score::is_other_figure(text))
            .cloned()
            .collect(),
    });
    let faults = run.fault_tallies.iter().map(|tally| Doubts {
        variant: tally.variant.clone(),
        axis: format!("{}/{}", Axis::Fault.as_str(), tally.fault),
        victim: None,
        aggressor: None,
        texts: tally.doubt.clone().into_iter().collect(),
    });
    rows.chain(faults).filter(|row| !row.texts.is_empty()).collect()
}

// The comparison of one record with earlier ones, as a page for its report.

/// Compares the record in `after` with those in `before`, by the margins of `gpubench diff`. A
/// driver may differ.
pub fn comparison(before: &[PathBuf], after: &Path) -> Result<Page, ExpectedError> {
    let sessions: Result<Vec<_>, _> = before.iter().map(|dir| session(dir)).collect();
    let options = Options { vary: vec!["driver".to_owned()], ..Options::default() };
    let report = diff(&sessions?, &[session(after)?], &options);
    let report = report.map_err(ExpectedError::internal)?;
    Ok(diff_page(&report, Detail::Changes))
}
