//! Several pairs of victim and aggressor on one sub-axis.

use gpubench_record::{Condition, OutcomeKind};

use super::lab::{Lab, SLICING};
use crate::gate::figure::CLOSED_RATE_PER_S;

/// A run with a second aggressor beside the same victim, which keeps `part` of its solo rate.
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
        cell.rates
            .insert(CLOSED_RATE_PER_S.to_owned(), 1000.0 * part);
        lab.cells.push(cell);
    }
    lab.peaks.insert("block-slots".to_owned(), 1.0);
    lab
}

#[test]
fn aggressors_of_one_victim_have_rows_of_their_own() {
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
    assert!(
        (of("block-slots") - 0.25).abs() < 1e-9,
        "{}",
        of("block-slots")
    );
    let references = rows.iter().filter(|row| row.variant == "exclusive");
    assert_eq!(
        references.count(),
        1,
        "the victim's native cells count once"
    );
    // Jitter is read beside the usual aggressor.
    let jitter = rows.iter().find(|row| row.axis == "jitter").expect("a row");
    assert_eq!(jitter.aggressor.as_deref(), Some("fma-hog"));
}

#[test]
fn what_the_device_lacks_is_waived_and_takes_no_level_away() {
    let mut lab = with_second_aggressor(0.25);
    let before = lab.overall(SLICING);
    lab.cells
        .retain(|cell| cell.cell.aggressor.as_deref() != Some("block-slots"));
    let lacking = "it has no slots".to_owned();
    lab.calibration
        .waived
        .insert("block-slots".to_owned(), lacking);
    let scored = lab.score();
    let waived = scored
        .matrix
        .iter()
        .find(|row| row.outcome.outcome == OutcomeKind::Waived);
    let reason = waived.and_then(|row| row.outcome.reason.clone());
    assert_eq!(reason.as_deref(), Some("block-slots: it has no slots"));
    assert_eq!(lab.overall(SLICING), before);
}
