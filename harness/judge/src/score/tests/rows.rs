//! Which rows a run has: the reference, the requested axes, and several pairs on one sub-axis.

use gpubench_record::{Condition, LostKind, MatrixRow, Outcome, OutcomeKind};

use super::lab::{Lab, QUOTA, SLICING, proof, rate, verdict};
use crate::figures::CellsError;
use crate::score::score;

/// A run with a second aggressor, beside which the victim keeps `part` of its solo rate.
fn with_second_aggressor(part: f64) -> Lab {
    let mut lab = Lab::slicing(1000.0, 1000.0, 500.0);
    let contended = |condition: Condition| condition.has_aggressor();
    let planned = lab.plan.cells.clone().into_iter();
    for mut cell in planned.filter(|cell| contended(cell.condition)) {
        cell.id.push_str("-second");
        cell.aggressor = Some("block-slots".to_owned());
        lab.plan.cells.push(cell);
    }
    let results = lab.cells.clone().into_iter();
    for mut cell in results.filter(|cell| contended(cell.cell.condition)) {
        cell.cell.id.push_str("-second");
        cell.cell.aggressor = Some("block-slots".to_owned());
        cell.figures.closed_rate_per_s = Some(1000.0 * part);
        lab.cells.push(cell);
    }
    lab.peak("block-slots", 1.0);
    lab
}

#[test]
fn every_aggressor_of_a_victim_has_a_row() {
    let rows = with_second_aggressor(0.25).score().matrix;
    let of = |aggressor: &str| {
        let row = rows
            .iter()
            .find(|row| row.axis == "compute" && row.aggressor.as_deref() == Some(aggressor));
        let row = row.expect("a row of that aggressor");
        assert_eq!(row.victim.as_deref(), Some("compute"));
        row.retention.as_ref().expect("a retention").value
    };
    assert!((of("fma-hog") - 0.5).abs() < 1e-9, "{}", of("fma-hog"));
    assert!((of("block-slots") - 0.25).abs() < 1e-9, "{}", of("block-slots"));
    let references = rows.iter().filter(|row| row.variant == "exclusive");
    assert_eq!(references.count(), 1, "one row for the native cells of the victim");
    // Jitter comes from the first pair of its sub-axis.
    let jitter = rows.iter().find(|row| row.axis == "jitter").expect("a row");
    assert_eq!(jitter.aggressor.as_deref(), Some("fma-hog"));
}

#[test]
fn a_pair_that_the_device_lacks_is_waived_and_changes_no_level() {
    let mut lab = with_second_aggressor(0.25);
    let before = lab.overall(SLICING);
    lab.cells.retain(|cell| cell.cell.aggressor.as_deref() != Some("block-slots"));
    let lacking = "it has no slots".to_owned();
    lab.calibration.waived.insert("block-slots".to_owned(), lacking);
    let scored = lab.score();
    let waived = scored.matrix.iter().find(|row| row.outcome.outcome == OutcomeKind::Waived);
    let reason = waived.and_then(|row| row.outcome.reason.clone());
    assert_eq!(reason.as_deref(), Some("block-slots: it has no slots"));
    assert_eq!(lab.overall(SLICING), before);
}

#[test]
fn the_reference_is_a_row_without_a_level() {
    let lab = Lab::slicing(1000.0, 1000.0, 500.0);
    let scored = lab.score();
    let row = &scored.matrix[0];
    assert_eq!((row.mechanism.as_str(), row.sub_axis.as_deref()), ("exclusive", Some("sm")));
    assert_eq!(verdict(row), (None, Some("reference")));
    assert!(row.outcome.is_measured(), "{:?}", row.outcome);
    let retention = row.retention.as_ref().expect("a figure");
    assert!((retention.value - 1.0).abs() < 1e-9, "{retention:?}");
    assert_eq!(scored.matrix.len(), 3, "reference, compute, jitter");
    assert!(scored.overall.iter().all(|row| row.mechanism != "exclusive"));
    let mut drifted = lab.clone();
    drifted.each(Condition::NAgain).for_each(|cell| {
        cell.figures.closed_rate_per_s = Some(1060.0);
    });
    let row = &drifted.score().matrix[0];
    assert_eq!(row.outcome.outcome, OutcomeKind::Inconclusive, "6 % exceeds the limit of 5 %");
}

#[test]
fn only_requested_axes_have_rows() {
    for (axes, want) in [
        (vec!["compute"], vec!["compute", "compute"]),
        (vec!["compute/sm"], vec!["compute", "compute"]),
        (vec!["jitter"], vec!["compute", "jitter"]),
        (vec!["bandwidth/dram"], vec![]),
        (vec![], vec!["compute", "compute", "jitter"]),
        (vec!["all"], vec!["compute", "compute", "jitter"]),
    ] {
        let mut lab = Lab::slicing(1000.0, 1000.0, 500.0);
        lab.plan.axes = axes.iter().map(|axis| (*axis).to_owned()).collect();
        let rows = lab.score().matrix;
        let found: Vec<&str> = rows.iter().map(|row| row.axis.as_str()).collect();
        assert_eq!(found, want, "{axes:?}");
    }
    let mut lab = Lab::slicing(1000.0, 1000.0, 500.0);
    lab.plan.axes = vec!["all".to_owned()];
    let overall = lab.overall(SLICING);
    assert_eq!(overall.unmeasured_axes, ["memory", "bandwidth", "fault"]);
    assert_eq!(overall.level.as_deref(), Some("L0"));
}

// Rows that cannot be trusted have a reason and no level.

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

// Rows whose blocks have two modes.

/// Blocks in two modes, the other in one of five.
fn two_modes(blocks: u32, usual: f64, other: f64) -> MatrixRow {
    let lab = Lab::new(&[(QUOTA, Some("mps"))], blocks, |_, condition, block| {
        rate(match condition {
            Condition::C if block % 5 >= 4 => other,
            Condition::C => usual + f64::from(block),
            Condition::U => 300.0,
            _ => 1000.0,
        })
    });
    lab.row(QUOTA, "compute")
}

#[test]
fn two_modes_leave_no_level_unless_both_have_the_same() {
    // The t interval alone would lie above the bound of L2.
    let row = two_modes(10, 900.0, 790.0);
    assert!(row.retention.as_ref().is_some_and(|retention| retention.lo > 0.83), "{row:?}");
    let says = "bimodal: 0.790 in 2 blocks, 0.904 in 8, which leave L1..L2 open";
    assert_doubt(&row, OutcomeKind::Inconclusive, says);
    assert!(row.retention.is_some(), "the figure stands beside the doubt");
    let row = two_modes(10, 900.0, 830.0);
    assert_eq!((row.level.as_deref(), row.outcome.is_measured()), (Some("L2"), true));
    let warned = row.warnings.iter().any(|text| text.ends_with("; both are at L2"));
    assert!(warned, "{:?}", row.warnings);
}

/// Of fewer than six blocks two on either side of a gap are no evidence.
#[test]
fn modes_are_asked_from_six_blocks_on() {
    for (blocks, bimodal) in [(5, false), (6, true)] {
        let lab = Lab::new(&[(SLICING, Some(SLICING))], blocks, |_, condition, block| {
            rate(match condition {
                Condition::C if block < 2 => 300.0,
                Condition::C => 500.0 + f64::from(block),
                _ => 1000.0,
            })
        });
        let text = format!("{:?}", lab.row(SLICING, "compute"));
        assert_eq!(text.contains("bimodal"), bimodal, "{blocks}: {text}");
    }
}

// CPU time that victims lost widens the ends that it can have moved.

#[test]
fn lost_cpu_time_widens_the_ends_that_it_can_have_moved() {
    let with = |condition: Option<Condition>| {
        let mut lab = Lab::slicing(1000.0, 1000.0, 500.0);
        for cell in &mut lab.cells {
            if Some(cell.cell.condition) == condition {
                cell.figures.closed_rate_loss_max_ln = Some(1.04_f64.ln());
            }
        }
        let row = lab.row(SLICING, "compute");
        (row.retention.expect("a retention"), row.warnings)
    };
    let (exact, warnings) = with(None);
    assert_eq!(warnings, Vec::<String>::new());
    let (of_solo, warnings) = with(Some(Condition::S));
    assert!(warnings.iter().any(|text| text.contains("-3.8 % and +0.0 %")), "{warnings:?}");
    assert!((of_solo.lo - exact.lo / 1.04).abs() < 1e-9);
    assert_eq!((of_solo.value, of_solo.hi), (exact.value, exact.hi));
    let (beside, _) = with(Some(Condition::C));
    assert!((beside.hi - exact.hi * 1.04).abs() < 1e-9);
    assert_eq!((beside.value, beside.lo), (exact.value, exact.lo));
}

/// Both logarithms may lie anywhere within their parts: up to a retention of 0.73 beside an
/// effectiveness of 0.48.
#[test]
fn lost_cpu_time_widens_the_index_to_its_corners() {
    let mut lab = Lab::protected(QUOTA, [1000.0, 1000.0, 700.0, 500.0]);
    for condition in [Condition::C, Condition::N] {
        for cell in lab.each(condition) {
            cell.figures.closed_rate_loss_max_ln = Some(1.04_f64.ln());
        }
    }
    let index = lab.row(QUOTA, "compute").isolation_index.expect("an index");
    let at = |r: f64, u: f64| 1.0 - r.ln() / u.ln();
    for (found, want) in [
        (index.value, at(0.7, 0.5)),
        (index.lo, at(0.7, 0.5)),
        (index.hi, at(0.7 * 1.04, 0.5 / 1.04)),
    ] {
        assert!((found - want).abs() < 1e-9, "{index:?}, want {want}");
    }
    let parts = index.parts.expect("the parts");
    assert_eq!(parts.sys_lo, Some(0.0));
}
