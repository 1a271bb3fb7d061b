//! Which rows a run has: the reference, the requested axes, and several pairs on one sub-axis.

use gpubench_record::{Condition, OutcomeKind};

use super::lab::{Lab, SLICING, verdict};

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
