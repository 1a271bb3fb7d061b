//! Rows that cannot be trusted have a reason and no level.

use gpubench_record::{Condition, LostKind, MatrixRow, Outcome, OutcomeKind};

use super::lab::{Lab, QUOTA, SLICING, proof, rate};
use crate::figures::CellsError;
use crate::score::score;

pub(super) fn valid() -> Lab {
    Lab::protected(QUOTA, [1000.0, 1000.0, 900.0, 500.0])
}

pub(super) fn assert_doubt(row: &MatrixRow, kind: OutcomeKind, part: &str) {
    assert_eq!(row.outcome.outcome, kind, "{:?}", row.outcome);
    let reason = row.outcome.reason.clone().unwrap_or_default();
    assert!(reason.contains(part), "{reason:?} lacks {part:?}");
    assert_eq!((&row.level, &row.word), (&None, &None), "no score");
}

#[test]
fn a_cell_of_a_dead_aggressor_yields_no_score() {
    let mut lab = valid();
    let dead = Outcome::inconclusive("aggressor-alive: neighbour-1 did not live to the end");
    lab.each(Condition::C).for_each(|cell| cell.outcome = dead.clone());
    for axis in ["compute", "jitter"] {
        let row = lab.row(QUOTA, axis);
        assert_doubt(&row, OutcomeKind::Inconclusive, "neighbour-1 did not live");
        assert!(row.retention.is_none() && row.jitter.is_none());
    }
    assert_eq!(lab.overall(QUOTA).level, None);
    assert_eq!(lab.overall(QUOTA).unmeasured_axes, ["compute", "jitter"]);
}

#[test]
fn a_killed_victim_fails_a_row_with_too_few_blocks() {
    let mut lab = valid();
    let killed = Outcome::failed("the victim ended early: SIGKILL");
    let kill = |lab: &mut Lab, blocks: usize| {
        let cells = lab.each(Condition::C).take(blocks);
        cells.for_each(|cell| cell.outcome = killed.clone());
        lab.row(QUOTA, "compute")
    };
    let row = kill(&mut lab, 6);
    assert_doubt(&row, OutcomeKind::Failed, "retention rests on 2 blocks, 3 are needed");
    let warning = "6 of 8 blocks are left out: block 0: C the victim ended early";
    assert!(row.warnings.iter().any(|w| w.starts_with(warning)), "{:?}", row.warnings);
    // Three blocks have an interval, and more than half were lost.
    let row = kill(&mut valid(), 5);
    assert_doubt(&row, OutcomeKind::Failed, "retention has 5 of 8 blocks with a cell that is not");
    assert_eq!(row.retention.as_ref().map(|r| r.n), Some(3));
    for (blocks, warned) in [(4, true), (2, true), (1, false)] {
        let row = kill(&mut valid(), blocks);
        assert!(row.outcome.is_measured(), "{blocks}: {:?}", row.outcome);
        let named = row.warnings.iter().any(|w| w.contains("blocks are left out"));
        assert_eq!(named, warned, "{blocks}: {:?}", row.warnings);
        let lost = row.blocks_lost.expect("lost blocks");
        assert_eq!((lost.planned, lost.lost.len()), (8, blocks));
        assert_eq!(lost.lost[0].kind, LostKind::Validity);
    }
}

#[test]
fn a_block_is_left_out_of_the_figures_that_need_the_cell() {
    let mut lab = Lab::new(&[(QUOTA, Some("mps"))], 10, |_, condition, _| {
        rate(if condition == Condition::U { 500.0 } else { 1000.0 })
    });
    lab.each(Condition::S).take(2).for_each(|cell| cell.outcome = Outcome::inconclusive("drift"));
    let row = lab.row(QUOTA, "compute");
    let n = |figure: &Option<gpubench_record::Estimate>| figure.as_ref().map(|f| f.n);
    assert_eq!(n(&row.retention), Some(8));
    assert_eq!(n(&row.efficiency), Some(8));
    assert_eq!(n(&row.guarantee), Some(10));
    assert_eq!(n(&row.isolation_index), Some(8), "the blocks that R and U share");
    assert!(row.outcome.is_measured(), "{:?}", row.outcome);
}

#[test]
fn a_cell_that_never_ran_is_named() {
    let mut lab = valid();
    let gone = lab.cells.iter().position(|cell| cell.cell.condition == Condition::S);
    lab.cells.remove(gone.expect("there are S cells"));
    let row = lab.row(QUOTA, "compute");
    let lost = row.blocks_lost.expect("a lost block").lost;
    assert_eq!((lost[0].kind, lost[0].reason.as_str()), (LostKind::NotMeasured, "S did not run"));
    lab.cells.retain(|cell| cell.cell.condition != Condition::S);
    let row = lab.row(QUOTA, "compute");
    assert_doubt(&row, OutcomeKind::Inconclusive, "S did not run");
}

#[test]
fn an_aggressor_that_is_too_weak_leaves_no_level() {
    let row = Lab::protected(QUOTA, [1000.0, 1000.0, 990.0, 920.0]).row(QUOTA, "compute");
    assert_doubt(&row, OutcomeKind::Inconclusive, "too weak to show anything: effectiveness 0.920");
    let mut lab = valid();
    lab.peak("fma-hog", 0.59);
    assert_doubt(
        &lab.row(QUOTA, "compute"),
        OutcomeKind::Inconclusive,
        "0.59 of its resource's peak (hardware: 2.000e12 operations per s, clock x width), 0.6 are \
         needed",
    );
    lab.peak("fma-hog", 0.79);
    let row = lab.row(QUOTA, "compute");
    assert!(row.outcome.is_measured());
    assert!(row.warnings[0].contains("0.79 of its"), "{row:?}");
    lab.calibration.peaks.clear();
    let row = lab.row(QUOTA, "compute");
    assert!(row.outcome.is_measured());
    assert_eq!(row.warnings, ["not evaluated: fma-hog against its resource's peak"]);
}

#[test]
fn no_score_without_proof() {
    let mut lab = valid();
    lab.mechanisms[1].proof.clear();
    assert_doubt(
        &lab.row(QUOTA, "compute"),
        OutcomeKind::Inconclusive,
        "no proof that mps-quota[pct=50]",
    );
    assert_doubt(
        &lab.row(QUOTA, "jitter"),
        OutcomeKind::Inconclusive,
        "no proof that mps-quota[pct=50]",
    );
    lab.mechanisms[1].proof = vec![proof(true), proof(false)];
    assert_doubt(&lab.row(QUOTA, "compute"), OutcomeKind::Inconclusive, "was not in force");
    let mut lab = valid();
    lab.mechanisms[0].proof = vec![proof(false)];
    assert_doubt(
        &lab.row(QUOTA, "compute"),
        OutcomeKind::Inconclusive,
        "the reference: exclusive was not",
    );
    let mut lab = valid();
    lab.mechanisms.remove(0);
    let reference = &lab.score().matrix[0];
    assert_eq!(reference.outcome.outcome, OutcomeKind::Inconclusive);
}

#[test]
fn a_mechanism_that_did_not_run_gives_its_reason_on_every_axis() {
    for outcome in [Outcome::waived("no MPS here"), Outcome::failed("daemon died")] {
        let mut lab = valid();
        lab.mechanisms[1].outcome = outcome.clone();
        for axis in ["compute", "jitter"] {
            let row = lab.row(QUOTA, axis);
            assert_eq!(row.outcome, outcome);
            assert_eq!((row.level, row.retention), (None, None));
            assert!(!row.claimed.is_empty());
        }
    }
}

/// Cells are compared within a block, so a native rate that drifts over blocks is a warning.
#[test]
fn a_native_rate_that_drifts_is_a_warning() {
    for (step, warned) in [(1.006, false), (1.008, true)] {
        let lab = Lab::new(&[(QUOTA, Some("mps"))], 8, |_, condition, block| {
            let drift = f64::powi(step, i32::try_from(block).unwrap_or(0));
            rate(drift * if condition == Condition::U { 500.0 } else { 1000.0 })
        });
        let row = lab.row(QUOTA, "compute");
        assert!(row.outcome.is_measured(), "{step}: {:?}", row.outcome);
        let warning = "the native rate moved by +0.056";
        let named = row.warnings.iter().any(|text| text.starts_with(warning));
        assert_eq!(named, warned, "{:?}", row.warnings);
    }
}

#[test]
fn a_profile_that_decides_nothing_shows_its_level_with_a_warning() {
    let mut lab = Lab::new(&[(SLICING, Some(SLICING))], 6, |_, condition, _| {
        rate(if condition == Condition::C { 500.0 } else { 1000.0 })
    });
    lab.plan.decides = false;
    lab.plan.profile = "smoke".to_owned();
    let row = lab.row(SLICING, "compute");
    assert_eq!((row.level.as_deref(), row.word.as_deref()), (Some("L0"), Some("None")));
    assert_eq!(row.warnings, ["profile smoke decides nothing"]);
    lab.cells.retain(|cell| cell.cell.block < 2);
    assert_doubt(&lab.row(SLICING, "compute"), OutcomeKind::Inconclusive, "2 blocks, 3 are needed");
}

#[test]
fn a_record_that_contradicts_itself_is_refused() {
    let mut lab = valid();
    let mut stray = lab.cells[0].clone();
    lab.cells.push(stray.clone());
    assert!(matches!(score(&lab.input()), Err(CellsError::Twice { .. })));
    lab.cells.pop();
    stray.cell.id = "9999".to_owned();
    lab.cells.push(stray);
    assert!(matches!(score(&lab.input()), Err(CellsError::NotPlanned { id }) if id == "9999"));
}
