//! Runs of a rotation: what they share compares, and the doses of one only are not planned.

use std::collections::BTreeSet;

use gpubench_compare::Metric;
use gpubench_compare::diff::{DiffRow, Options, Report, Verdict, diff};
use gpubench_compare::render::{self, Detail, Format};
use gpubench_record::{CellFigures, CellResult, Outcome};
use gpubench_stats::ScheduleRng;
use gpubench_virtual_gpu::machine::{BUILT_IN, Machine};

use super::*;
use crate::judge::capabilities;
use crate::judge::tests::hosts::complete_host;
use crate::profile::{Overrides, load};

/// The session of a run of the built-in profile `nightly`, whose doses are 0.25, 0.5, 0.75 and 1:
/// every planned cell is measured, and a victim loses 40 % beside an aggressor at full dose.
fn night(rotation: u32) -> Result<Session, Box<dyn std::error::Error>> {
    session("nightly", rotation)
}

/// The same of any built-in profile. Another service time has another calibration.
fn session(name: &str, rotation: u32) -> Result<Session, Box<dyn std::error::Error>> {
    let overrides = Overrides { rotation: Some(rotation), ..Overrides::default() };
    let profile = load(name, &overrides)?;
    let (path, text) =
        BUILT_IN.iter().find(|(name, _)| *name == "h200").ok_or("no such machine")?;
    let facts = complete_host(&Machine::parse(path, text)?);
    let plan = crate::plan::plan(&profile, &capabilities(&facts, &profile), "ptx")?;
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
        let sides = [session("weekly", one)?, session("weekly", two)?];
        Ok(diff(&sides[..1], &sides[1..], &Options::default())?)
    };
    let other = of(0, 1)?;
    assert!(!other.comparable);
    let facts: Vec<&str> = other.differences.iter().map(|one| &*one.fact).collect();
    assert_eq!(facts, ["rotation", "calibration"]);
    let text = render::diff(&other, Format::Text, Detail::Changes)?;
    let line = "differs, and must not: rotation requests of 1 ms -> requests of 0.1 ms";
    assert!(text.contains(line), "{text}");
    assert!(of(0, 3)?.comparable, "both have requests of 1 ms");
    Ok(())
}
