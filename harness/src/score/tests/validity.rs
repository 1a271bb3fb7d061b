//! Rows that cannot be trusted have a reason and no level.

use gpubench_record::{Condition, MatrixRow, Outcome, OutcomeKind};

use super::lab::{Lab, QUOTA, SLICING, proof, rate};
use crate::gate::figure::CLOSED_RATE_PER_S;
use crate::score::{ScoreError, score};

fn valid() -> Lab {
    Lab::protected(QUOTA, [1000.0, 1000.0, 900.0, 500.0])
}

fn assert_doubt(row: &MatrixRow, kind: OutcomeKind, part: &str) {
    assert_eq!(row.outcome.outcome, kind, "{:?}", row.outcome);
    let reason = row.outcome.reason.clone().unwrap_or_default();
    assert!(reason.contains(part), "{reason:?} lacks {part:?}");
    assert_eq!((&row.level, &row.word), (&None, &None), "no score");
}

#[test]
fn a_cell_of_a_dead_aggressor_yields_no_score() {
    let mut lab = valid();
    let dead = Outcome::inconclusive("aggressor-alive: neighbour-1 did not live to the end");
    lab.each(Condition::C)
        .for_each(|cell| cell.outcome = dead.clone());
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
    lab.each(Condition::C)
        .take(1)
        .for_each(|cell| cell.outcome = killed.clone());
    let row = lab.row(QUOTA, "compute");
    assert_doubt(
        &row,
        OutcomeKind::Failed,
        "retention rests on 7 blocks, 8 are needed",
    );
    assert!(
        row.warnings
            .iter()
            .any(|w| w.contains("block 0: C the victim ended early"))
    );
    let mut spare = Lab::new(&[(QUOTA, Some("mps"))], 9, |_, condition, _| {
        rate(if condition == Condition::U {
            500.0
        } else {
            1000.0
        })
    });
    spare
        .each(Condition::C)
        .take(1)
        .for_each(|cell| cell.outcome = killed.clone());
    let row = spare.row(QUOTA, "compute");
    assert!(
        row.outcome.is_measured(),
        "eight blocks are left: {:?}",
        row.outcome
    );
    assert_eq!(row.retention.as_ref().map(|r| r.n), Some(8));
    assert!(
        row.warnings
            .iter()
            .any(|w| w.starts_with("retention leaves out block 0"))
    );
}

#[test]
fn a_block_is_left_out_of_the_figures_that_need_the_cell() {
    let mut lab = Lab::new(&[(QUOTA, Some("mps"))], 10, |_, condition, _| {
        rate(if condition == Condition::U {
            500.0
        } else {
            1000.0
        })
    });
    lab.each(Condition::S)
        .take(2)
        .for_each(|cell| cell.outcome = Outcome::inconclusive("drift"));
    let row = lab.row(QUOTA, "compute");
    let n = |figure: &Option<gpubench_record::Estimate>| figure.as_ref().map(|f| f.n);
    assert_eq!(n(&row.retention), Some(8));
    assert_eq!(n(&row.efficiency), Some(8));
    assert_eq!(n(&row.guarantee), Some(10));
    assert_eq!(
        n(&row.isolation_index),
        Some(8),
        "the blocks that R and U share"
    );
    assert!(row.outcome.is_measured(), "{:?}", row.outcome);
}

#[test]
fn a_cell_that_never_ran_is_named() {
    let mut lab = valid();
    let gone = lab
        .cells
        .iter()
        .position(|cell| cell.cell.condition == Condition::S);
    lab.cells.remove(gone.expect("there are S cells"));
    let row = lab.row(QUOTA, "compute");
    assert_doubt(&row, OutcomeKind::Inconclusive, "S did not run");
}

#[test]
fn an_aggressor_that_is_too_weak_leaves_no_level() {
    let row = Lab::protected(QUOTA, [1000.0, 1000.0, 990.0, 920.0]).row(QUOTA, "compute");
    assert_doubt(
        &row,
        OutcomeKind::Inconclusive,
        "too weak to show anything: effectiveness 0.920",
    );
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
    assert_eq!(
        row.warnings,
        ["not evaluated: fma-hog against its resource's peak"]
    );
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
    assert_doubt(
        &lab.row(QUOTA, "compute"),
        OutcomeKind::Inconclusive,
        "was not in force",
    );
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
    for outcome in [
        Outcome::waived("no MPS here"),
        Outcome::failed("daemon died"),
    ] {
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

#[test]
fn two_modes_leave_no_level() {
    let lab = Lab::new(&[(SLICING, Some(SLICING))], 10, |_, condition, block| {
        rate(match condition {
            Condition::C if block % 5 == 4 => 300.0,
            Condition::C => 500.0 + f64::from(block),
            _ => 1000.0,
        })
    });
    let row = lab.row(SLICING, "compute");
    assert_doubt(
        &row,
        OutcomeKind::Inconclusive,
        "bimodal: 0.300 in 2 blocks, 0.50",
    );
    assert!(
        row.retention.is_some(),
        "the figure stands beside the doubt"
    );
}

#[test]
fn a_native_rate_that_drifts_leaves_no_level() {
    for (step, measured) in [(1.006, true), (1.008, false)] {
        let lab = Lab::new(&[(QUOTA, Some("mps"))], 8, |_, condition, block| {
            let drift = f64::powi(step, i32::try_from(block).unwrap_or(0));
            rate(
                drift
                    * if condition == Condition::U {
                        500.0
                    } else {
                        1000.0
                    },
            )
        });
        let row = lab.row(QUOTA, "compute");
        assert_eq!(
            row.outcome.is_measured(),
            measured,
            "{step}: {:?}",
            row.outcome
        );
        if !measured {
            assert_doubt(
                &row,
                OutcomeKind::Inconclusive,
                "the native rate moved by +0.056",
            );
        }
    }
}

#[test]
fn an_a_a_pair_that_differs_is_a_warning() {
    let mut lab = valid();
    lab.each(Condition::SAgain).for_each(|cell| {
        cell.rates.insert(CLOSED_RATE_PER_S.to_owned(), 990.0);
    });
    let row = lab.row(QUOTA, "compute");
    assert!(row.outcome.is_measured());
    assert_eq!(row.warnings.len(), 1, "{:?}", row.warnings);
    assert!(row.warnings[0].starts_with("A/A: solo against itself is 0.990 [0.990, 0.990] ratio"));
}

#[test]
fn a_profile_that_decides_nothing_shows_its_level_with_a_warning() {
    let mut lab = Lab::new(&[(SLICING, Some(SLICING))], 6, |_, condition, _| {
        rate(if condition == Condition::C {
            500.0
        } else {
            1000.0
        })
    });
    assert_doubt(
        &lab.row(SLICING, "compute"),
        OutcomeKind::Inconclusive,
        "6 blocks, 8 are needed",
    );
    lab.plan.decides = false;
    lab.plan.profile = "smoke".to_owned();
    let row = lab.row(SLICING, "compute");
    assert_eq!(
        (row.level.as_deref(), row.word.as_deref()),
        (Some("L0"), Some("None"))
    );
    assert_eq!(row.warnings, ["profile smoke decides nothing"]);
    lab.cells.retain(|cell| cell.cell.block < 5);
    assert_doubt(
        &lab.row(SLICING, "compute"),
        OutcomeKind::Inconclusive,
        "5 blocks, 6 are needed",
    );
}

#[test]
fn a_record_that_contradicts_itself_is_refused() {
    let mut lab = valid();
    let mut stray = lab.cells[0].clone();
    lab.cells.push(stray.clone());
    assert!(matches!(score(&lab.input()), Err(ScoreError::Twice { .. })));
    lab.cells.pop();
    stray.cell.id = "9999".to_owned();
    lab.cells.push(stray);
    assert!(matches!(score(&lab.input()), Err(ScoreError::NotPlanned { id }) if id == "9999"));
}
