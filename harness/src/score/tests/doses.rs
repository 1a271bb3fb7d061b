//! Dose curves: retention at each dose, area, and rises.

use gpubench_record::{Cell, Condition, DoseCurve, OutcomeKind, PlannedPair, SubAxis};

use super::lab::{Lab, QUOTA};

/// Blocks of a lab.
const BLOCKS: u32 = 8;

/// A lab with contended cells at these doses too; `retention` gives the rate over the solo rate by
/// dose and block.
fn lab(doses: &[f64], retention: impl Fn(f64, u32) -> f64) -> Lab {
    let mut lab = Lab::protected(QUOTA, [1000.0, 1000.0, 1000.0, 500.0]);
    let full: Vec<_> = lab.plan.cells.iter().cloned().zip(lab.cells.clone()).collect();
    let contended = |cell: &gpubench_record::Cell| cell.condition == Condition::C;
    for (planned, result) in full.iter().filter(|(cell, _)| contended(cell)) {
        for &dose in doses {
            let (mut planned, mut result) = (planned.clone(), result.clone());
            planned.id.push_str(&format!("-dose{dose}"));
            planned.dose = dose;
            result.cell = planned.clone();
            lab.plan.cells.push(planned);
            lab.cells.push(result);
        }
    }
    for result in lab.each(Condition::C) {
        let rate = 1000.0 * retention(result.cell.dose, result.cell.block);
        result.figures.closed_rate_per_s = Some(rate);
        result.figures.achieved_dose_ratio = Some(0.8 * result.cell.dose);
    }
    lab
}

fn curve(lab: &Lab) -> DoseCurve {
    let mut curves = lab.score().dose_curves;
    assert_eq!(curves.len(), 1, "{curves:?}");
    curves.remove(0)
}

/// A small spread between blocks, with a mean of 0.
fn noise(block: u32) -> f64 {
    [0.01, -0.01, 0.005, -0.005][block as usize % 4]
}

#[test]
fn the_area_is_the_trapezoid_mean_from_dose_0() {
    let lab = lab(&[0.25, 0.5, 0.75], |dose, block| 1.0 - 0.4 * dose + noise(block));
    let curve = curve(&lab);
    assert!(curve.outcome.is_measured(), "{:?}", curve.outcome);
    let offered: Vec<f64> = curve.points.iter().map(|point| point.offered).collect();
    assert_eq!(offered, [0.25, 0.5, 0.75, 1.0]);
    for point in &curve.points {
        let retention = point.retention.as_ref().expect("a figure");
        assert!((retention.value - (1.0 - 0.4 * point.offered)).abs() < 1e-3);
        let achieved = point.achieved.as_ref().expect("a figure");
        assert!((achieved.value - 0.8 * point.offered).abs() < 1e-12);
    }
    let area = curve.area.expect("an area");
    // The line from 1 to 0.6 has the mean 0.8.
    assert!((area.value - 0.8).abs() < 1e-6, "{area:?}");
    assert!(area.lo < 0.8 && 0.8 < area.hi && area.hi - area.lo < 0.02);
    assert_eq!((area.n, curve.rises.len()), (BLOCKS, 0));
}

#[test]
fn a_curve_that_rises_is_said() {
    // Isolated at full load only.
    let lab = lab(&[0.5], |dose, block| noise(block) + if dose < 1.0 { 0.6 } else { 0.9 });
    let curve = curve(&lab);
    let [rise] = &curve.rises[..] else {
        panic!("{:?}", curve.rises);
    };
    assert_eq!((rise.from, rise.to), (0.5, 1.0));
    assert!(rise.ratio.lo > 1.0 && (rise.ratio.value - 1.5).abs() < 0.01);
}

#[test]
fn noise_alone_is_no_rise() {
    let wide = |dose: f64, block: u32| {
        let sign = if block.is_multiple_of(2) == (dose < 1.0) { 1.0 } else { -1.0 };
        0.8 + 0.02 * dose + 0.1 * sign
    };
    assert_eq!(curve(&lab(&[0.5], wide)).rises, []);
}

#[test]
fn blocks_without_every_dose_do_not_count() {
    let mut lab = lab(&[0.5], |_, block| 0.7 + noise(block));
    let spoilt = lab.each(Condition::C).filter(|cell| cell.cell.dose < 1.0 && cell.cell.block >= 2);
    for cell in spoilt {
        cell.outcome = gpubench_record::Outcome::inconclusive("the aggressor ended early");
    }
    let curve = curve(&lab);
    assert_eq!(curve.outcome.outcome, OutcomeKind::Inconclusive);
    let reason = curve.outcome.reason.unwrap_or_default();
    assert!(reason.contains("2 blocks") && reason.contains("ended early"), "{reason}");
    assert_eq!(curve.area, None);
}

#[test]
fn one_dose_is_no_curve() {
    assert_eq!(lab(&[], |_, _| 0.7).score().dose_curves, []);
}

#[test]
fn cells_without_an_aggressor_serve_every_pair_of_their_victim() {
    let mut lab = Lab::protected(QUOTA, [1000.0, 1000.0, 900.0, 500.0]);
    lab.plan.axes.clear();
    lab.plan.pairs = [(SubAxis::Sm, "fma-hog"), (SubAxis::Power, "power-virus")]
        .map(|(sub_axis, aggressor)| PlannedPair {
            sub_axis,
            victim: "compute".to_owned(),
            aggressor: aggressor.to_owned(),
        })
        .to_vec();
    // The contended cells of a second pair, without N and S of their own.
    let contended = |cell: &&Cell| cell.condition.has_aggressor();
    let more: Vec<Cell> = lab.plan.cells.iter().filter(contended).cloned().collect();
    for mut cell in more {
        let known = lab.cells.iter().find(|result| result.cell.id == cell.id);
        let mut result = known.expect("it ran").clone();
        cell.id.push_str("-power");
        cell.sub_axis = SubAxis::Power;
        cell.aggressor = Some("power-virus".to_owned());
        result.cell = cell.clone();
        result.figures.closed_rate_per_s = result.figures.closed_rate_per_s.map(|rate| rate * 0.5);
        lab.plan.cells.push(cell);
        lab.cells.push(result);
    }
    let (sm, power) = (lab.row(QUOTA, "compute"), lab.row(QUOTA, "power"));
    let of = |row: &gpubench_record::MatrixRow| {
        let figures = [&row.retention, &row.guarantee, &row.effectiveness];
        figures.map(|figure| figure.as_ref().map(|one| (one.value * 1000.0).round()))
    };
    assert_eq!(of(&sm), [Some(900.0), Some(900.0), Some(500.0)]);
    assert_eq!(of(&power), [Some(450.0), Some(450.0), Some(250.0)]);
}
