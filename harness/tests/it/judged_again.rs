//! The matrix of a real GPU, judged by the rules of today from the figures that its run left in
//! format 1.0. By the rules of that format 7 of its 30 contested rows were decided.

use std::path::Path;

use crate::support::{Error, TestResult, finish, gpubench};
use gpubench::judge::rescore;
use gpubench_record::{Json, MatrixRow, OutcomeKind, RunRecord};
use gpubench_reports::store::Record;

const MATRIX: &str = "../reports/examples/h100_580.159.04_matrix";

/// The rows that the rules of format 1.0 decided, with their levels.
const DECIDED: [(&str, &str, &str); 7] = [
    ("time-slicing[slice=default]", "l2", "L0"),
    ("mps", "dram", "L0"),
    ("mps", "l2", "L0"),
    ("mps-quota[pct=50]", "dram", "L1"),
    ("mps-quota[pct=50]", "l2", "L0"),
    ("hami[memory=50,sm=50]", "l2", "L0"),
    ("green-context", "l2", "L0"),
];

/// The rows whose intervals straddle the bound of `Negligible`.
const OPEN: [&str; 2] = ["mps-quota[pct=50]", "green-context"];

fn judged() -> Result<RunRecord, Error> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(MATRIX);
    let mut run = Record::open(&path)?.run().clone();
    rescore(&mut run, &[])?;
    Ok(run)
}

fn contested(run: &RunRecord) -> Vec<&MatrixRow> {
    let waived = |row: &&MatrixRow| row.outcome.outcome == OutcomeKind::Waived;
    let rows = run.matrix.iter().filter(|row| row.variant != "exclusive");
    rows.filter(|row| !waived(row)).collect()
}

#[test]
fn nearly_all_rows_of_the_h100_are_decided_and_none_changes_its_level() -> TestResult {
    let run = judged()?;
    let rows = contested(&run);
    assert_eq!(rows.len(), 30);
    let open: Vec<&str> = rows
        .iter()
        .filter(|row| !row.outcome.is_measured())
        .map(|row| {
            assert_eq!(row.axis, "jitter", "{:?}", row.outcome);
            row.variant.as_str()
        })
        .collect();
    assert_eq!(open, OPEN);
    for (variant, sub_axis, level) in DECIDED {
        let mut rows = rows.iter();
        let row =
            rows.find(|row| row.variant == variant && row.sub_axis.as_deref() == Some(sub_axis));
        let row = row.ok_or("no such row")?;
        assert_eq!(row.level.as_deref(), Some(level), "{variant} {sub_axis}");
    }
    Ok(())
}

/// Its format counts no gaps, so nothing is known about disturbances beyond the blocks' spread.
#[test]
fn its_intervals_have_a_statistical_part_only_and_say_so() -> TestResult {
    for row in contested(&judged()?) {
        let Some(figure) = row.retention.as_ref().or(row.jitter.as_ref()) else {
            continue;
        };
        let parts = figure.parts.ok_or("no parts")?;
        assert_eq!((parts.sys_lo, parts.sys_hi), (None, None));
        assert_eq!(parts.stat_hi, figure.hi);
        // A count of few completions needs no count of disturbances.
        let has_starved = row.warnings.iter().any(|text| text.contains("starved"));
        assert_eq!(parts.stat_lo > figure.lo, has_starved);
        assert!(parts.stat_lo >= figure.lo);
        let said = row.warnings.iter().filter(|text| text.contains("statistical part only"));
        assert_eq!(said.count(), 1, "{:?}", row.warnings);
    }
    Ok(())
}

/// A cell with 0.82 % of stolen CPU time cost this row its sixth block, and the level with it.
#[test]
fn a_cell_of_format_1_0_that_was_excluded_for_stolen_time_counts() -> TestResult {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = path.join("../reports/examples/h100_580.159.04_faults-mps");
    let stored = Record::open(&path)?.run().clone();
    let mut run = stored.clone();
    rescore(&mut run, &[])?;
    let of_mps = |run: &RunRecord| {
        let mut rows = run.matrix.iter();
        let row = rows.find(|row| row.variant == "mps" && row.axis == "compute");
        row.cloned().ok_or("a row of MPS")
    };
    let (before, after) = (of_mps(&stored)?, of_mps(&run)?);
    assert_eq!((before.level, before.retention.map(|r| r.n)), (None, Some(5)));
    assert_eq!((after.level.as_deref(), after.retention.map(|r| r.n)), (Some("L0"), Some(6)));
    let says = "cpu-steal in 1 cells, first 0021-b04-mps-compute-C-fma-hog: 0.82 %";
    assert!(after.warnings.iter().any(|text| text.starts_with(says)), "{:?}", after.warnings);
    Ok(())
}

#[test]
fn a_report_of_older_rules_is_scored_again_and_says_so_once() -> TestResult {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut command = gpubench(["report", "--format", "json"]);
    command.arg(path.join("../reports/examples/h100_580.159.04_faults-mps"));
    let done = finish(command)?.ended_with(0)?;
    let run = RunRecord::from_json(done.stdout.as_bytes())?;
    assert_eq!(run.scoring, "scoring-v3");
    let said = "scored again by scoring-v3: scoring-v1 scored it before";
    assert_eq!(done.stderr.matches(said).count(), 1, "{}", done.stderr);
    Ok(())
}
