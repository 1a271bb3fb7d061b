//! Rows whose blocks have two modes.

use gpubench_record::{Condition, MatrixRow, OutcomeKind};

use super::lab::{Lab, QUOTA, SLICING, rate};
use super::validity::assert_doubt;

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
