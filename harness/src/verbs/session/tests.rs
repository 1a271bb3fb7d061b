//! The index of nights, their removal, and the sessions of runs of a rotation.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use gpubench_compare::diff::{Conclusion, DiffRow, Options, Report, Verdict, diff};
use gpubench_compare::render::{Detail, Format};
use gpubench_compare::{Row, RowKey, render};
use gpubench_plan::profile::Overrides;
use gpubench_record::{CellFigures, CellResult, Condition, Ends, Gate, GateState, Json, Outcome};
use gpubench_stats::ScheduleRng;
use gpubench_store::Record;
use gpubench_store::{EVENTS_FILE, RECORD_FILE, SAMPLES_FILE};
use gpubench_virtual_gpu::machine::{BUILT_IN, Machine};

use super::*;
use crate::verbs::capabilities;
use crate::verbs::profile::load;
use crate::verbs::tests::complete_host;

type TestResult = Result<(), Box<dyn std::error::Error>>;

/// A folder of copies of a published record with its first cells, one a night.
fn nights_of(count: usize, cells: usize) -> Result<tempfile::TempDir, Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let example = "../reports/examples/h100_580.159.04_matrix";
    let record = Record::open(&Path::new(env!("CARGO_MANIFEST_DIR")).join(example))?;
    for night in 0..count {
        let mut run = record.run().clone();
        run.cells.truncate(cells);
        run.plan.cells.truncate(cells);
        run.provenance.started_at = format!("2026-01-{:02}T00:00:00Z", night + 1);
        let dir = folder.path().join(format!("n{night}"));
        std::fs::create_dir(&dir)?;
        std::fs::write(dir.join(RECORD_FILE), run.to_json()?)?;
    }
    Ok(folder)
}

fn read_all(folder: &Path) -> Result<Vec<Session>, ExpectedError> {
    Ok(nights(&[folder.to_owned()])?.sessions)
}

#[test]
fn the_index_gives_what_records_give_and_is_made_again_when_they_change() -> TestResult {
    let folder = nights_of(2, 40)?;
    let by_records = sessions(&[folder.path().to_owned()])?.sessions;
    assert!(!folder.path().join(folders::FOLDER).exists());
    assert_eq!(read_all(folder.path())?, by_records);
    let entry = folder.path().join(folders::FOLDER).join("n0.json");
    let first = std::fs::read(&entry)?;
    assert_eq!(read_all(folder.path())?, by_records);
    assert_eq!(std::fs::read(&entry)?, first);

    // The index is what is read while the record is as it was.
    let dir = folder.path().join("n0");
    let sources = || folders::Sources::of(&dir).ok_or("no sources");
    let mut planted = by_records[0].clone();
    planted.started_at = "planted".to_owned();
    folders::store(&dir, sources()?, &planted);
    assert_eq!(read_all(folder.path())?[1].started_at, "planted");
    // Damage of the index, and a change of the record, are seen.
    let damaged = std::fs::read_to_string(&entry)?.replace("planted", "plAnted");
    std::fs::write(&entry, damaged)?;
    assert_eq!(read_all(folder.path())?, by_records);
    folders::store(&dir, sources()?, &planted);
    let record = std::fs::read_to_string(dir.join(RECORD_FILE))?;
    let mut before = folders::Sources::of(&dir);
    let changed = record.replace("2026-01-01T00:00:00Z", "2026-01-09T00:00:00Z");
    assert_eq!(changed.len(), record.len());
    std::fs::write(dir.join(RECORD_FILE), changed)?;
    assert_eq!(read_all(folder.path())?[1].started_at, "2026-01-09T00:00:00Z");

    // Also that of a file of which no session is made.
    let samples = dir.join(SAMPLES_FILE);
    for bytes in ["damaged", "Damaged"] {
        std::fs::write(&samples, bytes)?;
        let known = folders::Sources::of(&dir);
        assert!(known.is_some() && known != before, "{bytes}");
        before = known;
    }

    // Without the index, and without a folder for it, records are read.
    std::fs::remove_dir_all(folder.path().join(folders::FOLDER))?;
    std::fs::write(folder.path().join(folders::FOLDER), "a file")?;
    assert_eq!(read_all(folder.path())?.len(), 2);
    Ok(())
}

#[test]
fn a_figure_that_overflows_leaves_its_blocks_out() -> TestResult {
    let folder = nights_of(1, usize::MAX)?;
    let dir = folder.path().join("n0");
    let mut run = Record::open(&dir)?.run().clone();
    for cell in &mut run.cells {
        match cell.cell.condition {
            Condition::C => cell.figures.open_latency_p99_ns = Some(1e300),
            _ => cell.figures.open_latency_p50_ns = Some(1e-300),
        }
    }
    std::fs::write(dir.join(RECORD_FILE), run.to_json()?)?;
    let rows = session(&dir)?.rows;
    let mut jitter = rows.iter().filter(|(key, _)| key.metric == Metric::Jitter);
    assert!(jitter.any(|(_, row)| matches!(row, Row::Invalid(_))));
    let mut series = rows.values().filter_map(Row::series);
    assert!(series.all(|one| one.blocks.iter().all(|value| value.is_finite())));
    Ok(())
}

/// What a report adds to an interval for disturbances and starved victims, a comparison adds too.
#[test]
fn a_comparison_has_every_bound_of_the_report() -> TestResult {
    let folder = nights_of(1, usize::MAX)?;
    let dir = folder.path().join("n0");
    let mut run = Record::open(&dir)?.run().clone();
    for (number, cell) in run.cells.iter_mut().enumerate() {
        let part = 0.001 * (number % 7) as f64;
        let figures = &mut cell.figures;
        figures.closed_rate_loss_max_ln = Some(part);
        (figures.closed_halves_ln, figures.closed_halves_error_ln) = (Some(9.0 * part), Some(0.0));
        figures.device_speed_ln =
            Some(if cell.cell.condition == Condition::C { 0.02 } else { 0.0 });
        if cell.cell.condition == Condition::C {
            figures.aggressor_idle_closed_ratio = Some(part);
        }
        figures.open_latency_p50_lower_ns = figures.open_latency_p50_ns.map(|ns| 0.97 * ns);
        figures.open_latency_p99_lower_ns = figures.open_latency_p99_ns.map(|ns| 0.97 * ns);
    }
    crate::verbs::rescore(&mut run, &[])?;
    std::fs::write(dir.join(RECORD_FILE), run.to_json()?)?;
    let session = session(&dir)?;
    let (mut compared, mut bounds) = (0, 0);
    for row in &run.matrix {
        for (metric, figure) in [
            (Metric::Retention, &row.retention),
            (Metric::Guarantee, &row.guarantee),
            (Metric::Efficiency, &row.efficiency),
        ] {
            let same = |key: &RowKey| {
                let beside = metric == Metric::Efficiency || key.aggressor == row.aggressor;
                let victim = Some(&key.victim) == row.victim.as_ref();
                let axis = key.axis == row.axis_path() && key.variant == row.variant;
                key.metric == metric && key.dose.is_none() && axis && beside && victim
            };
            let found = session.rows.iter().find(|(key, _)| same(key));
            let series = found.and_then(|(_, row)| row.series());
            let (Some(figure), Some(series)) = (figure, series) else {
                continue;
            };
            if series.is_bound {
                assert_eq!(figure.ends, Ends::AtMost);
                bounds += 1;
                continue;
            }
            let parts = figure.parts.ok_or("no parts")?;
            let (down, up) = ((parts.stat_lo / figure.lo).ln(), (figure.hi / parts.stat_hi).ln());
            let own = series.bounds;
            let error = (own.down - down).abs().max((own.up - up).abs());
            assert!(error < 1e-9, "{metric:?} of {row:?}: {own:?}, {down} and {up} in the report");
            compared += 1;
        }
    }
    assert!(compared > 60, "{compared}");
    // Retention and guarantee beside the PCIe aggressor, under two mechanisms.
    assert_eq!(bounds, 4);
    Ok(())
}

#[test]
fn starved_windows_of_n_and_of_n_plus_1_completions_have_no_verdict() -> TestResult {
    let folder = nights_of(2, usize::MAX)?;
    let [one, two] = ["n0", "n1"].map(|name| folder.path().join(name));
    let mut run = Record::open(&two)?.run().clone();
    let mut windows = 0;
    for cell in &mut run.cells {
        let is_starved = cell.gate_state(&Gate::ClosedRate) == Some(GateState::NotEvaluated);
        if let (Some(rate), true) = (&mut cell.figures.closed_rate_per_s, is_starved) {
            // The rate of n completions is that of n + 1: the most that it can have been.
            let completed = cell.requests.entry("closed".to_owned()).or_default();
            *rate *= (*completed + 2) as f64 / (*completed + 1) as f64;
            *completed += 1;
            windows += 1;
        }
    }
    assert_eq!(windows, 16);
    std::fs::write(two.join(RECORD_FILE), run.to_json()?)?;
    let report = compared(session(&one)?, session(&two)?)?;
    // Retention, guarantee and contended rate beside the PCIe aggressor, under two mechanisms.
    let of_bounds: Vec<&DiffRow> = report.rows.iter().filter(|row| row.bounds).collect();
    assert_eq!(of_bounds.len(), 6);
    for row in of_bounds {
        assert!(row.figures.as_ref().is_some_and(|figures| figures.change > 0.5), "{row:?}");
        assert!(row.verdict == Verdict::Inconclusive && !row.primary && !row.differs, "{row:?}");
    }
    assert_eq!(report.conclusion, Conclusion::Open);
    Ok(())
}

#[test]
fn sessions_share_the_keys_of_their_rows() -> TestResult {
    let folder = nights_of(2, 40)?;
    let [one, two] = &read_all(folder.path())?[..] else {
        return Err("not two sessions".into());
    };
    assert!(!one.rows.is_empty());
    let mut pairs = one.rows.keys().zip(two.rows.keys());
    assert!(pairs.all(|(one, two)| Arc::ptr_eq(one, two)));
    Ok(())
}

#[test]
fn means_are_those_of_all_blocks() -> TestResult {
    let folder = nights_of(1, usize::MAX)?;
    let whole = read_all(folder.path())?;
    let means = night_means(&[folder.path().to_owned()], Metric::is_primary)?;
    let mut rows = 0;
    for (key, row) in &means.sessions[0].rows {
        let (Some(mean), Some(all)) = (row.series(), whole[0].rows[key].series()) else {
            continue;
        };
        rows += 1;
        assert_eq!(mean.blocks, [gpubench_stats::summary::mean(&all.blocks)?]);
    }
    assert!(means.sessions[0].rows.len() < whole[0].rows.len());
    assert!(rows > 0);
    Ok(())
}

#[test]
fn nights_of_a_dataset_are_those_of_their_folders() -> TestResult {
    let folder = nights_of(2, usize::MAX)?;
    let folders = [folder.path().to_owned()];
    let dir = tempfile::tempdir()?;
    each_night(&folders, |found| {
        for session in &found.sessions {
            let head = head_of(session)?;
            let figures = figures_of(&session.name, &head, session)?;
            gpubench_store::dataset::add(dir.path(), figures).expect("a dataset");
        }
        Ok(())
    })?;
    let (own, found) = (
        night_means(&folders, Metric::is_primary)?,
        night_means(&[dir.path().to_owned()], Metric::is_primary)?,
    );
    let mut rows = 0;
    for (own, found) in own.sessions.iter().zip(&found.sessions) {
        let head = |one: &Session| {
            (one.started_at.clone(), one.facts.clone(), one.labels.clone(), one.margins, one.kind)
        };
        assert_eq!(head(own), head(found));
        for (key, row) in own.rows.iter().filter(|(_, row)| row.is_measured()) {
            let [own, found] = [Some(row), found.rows.get(key)].map(|row| row?.series());
            let (own, found) = own.zip(found).ok_or("no row")?;
            assert!((own.blocks[0] - found.blocks[0]).abs() < 1e-12, "{key:?}");
            assert_eq!((own.bounds, own.is_bound), (found.bounds, found.is_bound));
            rows += 1;
        }
    }
    assert_eq!((own.sessions.len(), found.sessions.len()), (2, 2));
    assert!(rows > 0);
    Ok(())
}

#[test]
fn old_nights_go_and_pinned_unfinished_and_foreign_files_stay() -> TestResult {
    let folder = nights_of(5, 40)?;
    let night = |name: &str| folder.path().join(name);
    pin(folder.path(), "golden", &[night("n1")], "2026-01-31T00:00:00Z".to_owned())?;
    std::fs::create_dir(night("running"))?;
    std::fs::write(night("running").join(EVENTS_FILE), "")?;
    let names = |pruning: &Pruning| -> Vec<String> {
        let paths = pruning.remove.iter().map(|old| old.record.file_name());
        paths.flatten().map(|name| name.to_string_lossy().into_owned()).collect()
    };
    let since = Keep::Since("2026-01-04T00:00:00Z".to_owned());
    assert_eq!(names(&pruning(folder.path(), &since)?), ["n0", "n2"]);
    // A start that the calendar does not have sorts anywhere: it decides nothing.
    let (record, copy) = (night("n0").join("record.json"), folder.path().join("copy"));
    std::fs::copy(&record, &copy)?;
    let damaged = std::fs::read_to_string(&record)?.replace("2026-01-01T", "2026-00-01T");
    std::fs::write(&record, damaged)?;
    let found = pruning(folder.path(), &since)?;
    assert_eq!(names(&found), ["n2"]);
    assert!(found.stay.join("\n").contains("n0: its record has no valid time of its start"));
    std::fs::rename(&copy, &record)?;
    let found = pruning(folder.path(), &Keep::Last(2))?;
    assert_eq!(names(&found), ["n0", "n2"]);
    let stay = found.stay.join("\n");
    assert!(stay.contains("n1: a pinned baseline has it"), "{stay}");
    assert!(stay.contains("running"), "{stay}");

    std::fs::write(night("n2").join("notes.txt"), "mine")?;
    let gone: Result<Vec<bool>, _> = found.remove.iter().map(|old| remove(&old.record)).collect();
    assert_eq!(gone?, [true, false]);
    assert!(!night("n0").exists() && night("n2/notes.txt").exists());
    let left: Vec<PathBuf> =
        read_all(folder.path())?.iter().map(|session| PathBuf::from(&session.name)).collect();
    assert_eq!(left, ["n1", "n3", "n4"].map(night));
    assert!(!folder.path().join(folders::FOLDER).join("n0.json").exists());
    Ok(())
}

// Runs of a rotation: what they share compares, and the doses of one only are not planned.

/// The session of a run of the built-in profile `nightly`, whose doses are 0.25, 0.5, 0.75 and 1:
/// every planned cell is measured, and a victim loses 40 % beside an aggressor at full dose.
fn night(rotation: u32) -> Result<Session, Box<dyn std::error::Error>> {
    rotation_session("nightly", rotation)
}

/// The same of any built-in profile. Another service time has another calibration.
fn rotation_session(name: &str, rotation: u32) -> Result<Session, Box<dyn std::error::Error>> {
    let overrides = Overrides { rotation: Some(rotation), ..Overrides::default() };
    let profile = load(name, &overrides)?;
    let (path, text) =
        BUILT_IN.iter().find(|(name, _)| *name == "h200").ok_or("no such machine")?;
    let facts = complete_host(&Machine::parse(path, text)?);
    let plan = gpubench_plan::plan(&profile, &capabilities(&facts, &profile), "ptx")?;
    let example = "../reports/examples/h100_580.159.04_matrix";
    let record = Record::open(&Path::new(env!("CARGO_MANIFEST_DIR")).join(example))?;
    let mut run = record.run().clone();
    run.provenance.started_at = format!("2026-01-{:02}T00:00:00Z", rotation + 1);
    run.mechanisms.clear();
    run.matrix.clear();
    run.fault_trials.clear();
    let mut rng = ScheduleRng::new(u64::from(rotation));
    run.cells = plan
        .cells
        .iter()
        .map(|cell| {
            let dose = if cell.aggressor.is_some() { cell.dose } else { 0.0 };
            let noise = 1e-3 * (rng.uniform() - 0.5);
            let rate_per_s = 1000.0 * (1.0 - 0.4 * dose + noise);
            CellResult {
                lone_ns: Vec::new(),
                meters: Vec::new(),
                cell: cell.clone(),
                figures: CellFigures {
                    closed_rate_per_s: Some(rate_per_s),
                    ..CellFigures::default()
                },
                requests: std::collections::BTreeMap::new(),
                outcome: Outcome::measured(),
                gates: Vec::new(),
                tenant_results: Vec::new(),
            }
        })
        .collect();
    run.calibration.hash = format!("for requests of {} ns", plan.service_ns);
    run.plan = plan;
    let name = format!("{name}-{rotation}");
    Ok(of_record(Path::new(&name), &run, &[], Vec::new()))
}

fn compared(before: Session, after: Session) -> Result<Report, Box<dyn std::error::Error>> {
    let report = diff(&[before], &[after], &Options::default())?;
    assert!(report.comparable, "{:?}", report.differences);
    Ok(report)
}

fn of(report: &Report, metric: Metric) -> impl Iterator<Item = &DiffRow> {
    let rows = report.rows.iter();
    rows.filter(move |row| row.key.metric == metric)
}

#[test]
fn two_runs_of_a_rotation_compare_what_they_share_and_other_doses_are_not_planned() -> TestResult {
    let report = compared(night(0)?, night(1)?)?;
    for metric in [Metric::Retention, Metric::NativeRate] {
        assert!(of(&report, metric).count() > 0);
        for row in of(&report, metric) {
            assert!(row.figures.is_some(), "{row:?}");
            assert_ne!(row.verdict, Verdict::NotMeasured);
        }
    }
    let reasons: BTreeSet<&str> = of(&report, Metric::DoseRetention)
        .map(|row| {
            assert!(!row.primary && row.verdict == Verdict::NotMeasured);
            row.reason.as_deref().unwrap_or_default()
        })
        .collect();
    let both = ["after: not planned", "before: not planned"];
    assert_eq!(reasons, BTreeSet::from(both));
    // Three doses below 1 of one pair for each side.
    let one_sided = of(&report, Metric::DoseRetention).filter(|row| row.key.variant == "mps");
    assert_eq!(one_sided.count(), 6);
    // A row that is not primary is not missed.
    assert_eq!(report.counts.lost, 0);
    Ok(())
}

#[test]
fn doses_of_the_same_run_of_a_rotation_compare() -> TestResult {
    let report = compared(night(0)?, night(5)?)?;
    let beside: BTreeSet<String> = of(&report, Metric::DoseRetention)
        .map(|row| {
            let figures = row.figures.as_ref().ok_or("a dose has no figures")?;
            let dose = row.key.dose.ok_or("no dose")?.0;
            let planted = 1.0 - 0.4 * dose;
            assert!((figures.before - planted).abs() < 2e-3, "{row:?}");
            row.key.beside().ok_or("no aggressor")
        })
        .collect::<Result<_, &str>>()?;
    assert_eq!(beside.len(), 3, "{beside:?}");
    assert!(beside.iter().all(|name| name.ends_with(" %")), "{beside:?}");
    Ok(())
}

/// Weeks have requests of 1 ms, 0.1 ms and 10 ms in turn.
#[test]
fn weeks_with_other_requests_are_refused_by_the_rotation_first() -> TestResult {
    let of = |one: u32, two: u32| -> Result<Report, Box<dyn std::error::Error>> {
        let sides = [rotation_session("weekly", one)?, rotation_session("weekly", two)?];
        Ok(diff(&sides[..1], &sides[1..], &Options::default())?)
    };
    let other = of(0, 1)?;
    assert!(!other.comparable);
    let facts: Vec<&str> = other.differences.iter().map(|one| &*one.fact).collect();
    assert_eq!(facts, ["rotation", "calibration"]);
    let text = render::diff(&other, Format::Text, Detail::Changes, gpubench_show::Look::PIPED)?;
    let line = "differs, and must not: rotation requests of 1 ms -> requests of 0.1 ms";
    assert!(text.contains(line), "{text}");
    assert!(of(0, 3)?.comparable, "both have requests of 1 ms");
    Ok(())
}
