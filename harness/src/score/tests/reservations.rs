//! Rows of a victim that answers by being refused.

use gpubench_record::{Condition, MatrixRow, OutcomeKind, SubAxis, WorkloadFacts};

use super::lab::{Lab, MIG, QUOTA, SLICING};
use crate::gate::{ASKED_REQUESTS, CLOSED_REQUESTS, HONOURED_REQUESTS};

/// Requests of each cell.
const ASKED: u64 = 400;

/// The row of a run in whose cells so many of [`ASKED`] requests were honoured, by condition and
/// block.
fn row(mut lab: Lab, variant: &str, honoured: impl Fn(Condition, u32) -> u64) -> MatrixRow {
    lab.plan.axes = vec!["memory/capacity".to_owned()];
    let facts = WorkloadFacts {
        answering_codes: vec![2],
    };
    lab.plan.workloads.insert("reserve".to_owned(), facts);
    for (planned, result) in lab.plan.cells.iter_mut().zip(&mut lab.cells) {
        planned.sub_axis = SubAxis::Capacity;
        planned.victim = "reserve".to_owned();
        planned.aggressor = planned.aggressor.take().map(|_| "memory-hog".to_owned());
        result.cell.victim.clone_from(&planned.victim);
        result.cell.aggressor.clone_from(&planned.aggressor);
        let kept = honoured(planned.condition, planned.block);
        let counts = [
            (ASKED_REQUESTS, ASKED),
            (HONOURED_REQUESTS, kept),
            (CLOSED_REQUESTS, kept),
        ];
        result
            .requests
            .extend(counts.map(|(name, count)| (name.to_owned(), count)));
    }
    lab.row(variant, "memory")
}

/// Time-slicing, which is its own unprotected form.
fn slicing() -> Lab {
    Lab::slicing(900.0, 900.0, 900.0)
}

/// A mechanism whose unprotected form is another.
fn protected(variant: &str) -> Lab {
    Lab::protected(variant, [900.0; 4])
}

#[test]
fn a_hog_that_leaves_nothing_is_a_figure_and_no_failure() {
    let row = row(slicing(), SLICING, |condition, _| {
        if condition.has_aggressor() { 0 } else { ASKED }
    });
    assert_eq!(row.outcome.outcome, OutcomeKind::Measured, "{row:?}");
    assert_eq!(row.level.as_deref(), Some("L0"));
    assert_eq!(row.word.as_deref(), Some("None"));
    let share = row.survival.expect("a figure");
    assert_eq!((share.value, u64::from(share.n)), (0.0, 8 * ASKED));
    assert!(share.hi < 0.01);
}

#[test]
fn what_the_unprotected_form_leaves_over_is_no_protection() {
    let quarter = |condition: Condition, _| {
        if condition.has_aggressor() {
            ASKED / 4
        } else {
            ASKED
        }
    };
    let itself = row(slicing(), SLICING, quarter);
    assert_eq!(itself.level.as_deref(), Some("L0"), "{itself:?}");
    assert_eq!(itself.u_kind.as_deref(), Some("time-slicing (identity)"));
    let another = row(protected(QUOTA), QUOTA, quarter);
    assert_eq!(another.level.as_deref(), Some("L0"), "{another:?}");
    assert_eq!(another.u_kind.as_deref(), Some("mps"));
}

#[test]
fn more_than_the_unprotected_form_honours_is_some_protection() {
    let row = row(protected(QUOTA), QUOTA, |condition, _| match condition {
        Condition::U => ASKED / 4,
        Condition::C => ASKED / 2,
        _ => ASKED,
    });
    assert_eq!(row.level.as_deref(), Some("L1"), "{row:?}");
    assert_eq!(row.word.as_deref(), Some("Partial"));
}

#[test]
fn a_reservation_that_is_kept_is_strong_and_says_how_many() {
    let row = row(protected(MIG), MIG, |condition, _| match condition {
        Condition::U => 0,
        _ => ASKED,
    });
    assert_eq!(row.level.as_deref(), Some("L3"), "{row:?}");
    let share = row.survival.clone().expect("a figure");
    assert_eq!((share.value, u64::from(share.n)), (1.0, 8 * ASKED));
    assert!(share.lo > 0.999, "one-sided: {share:?}");
    let told = |what: &str| row.warnings.iter().any(|warning| warning == what);
    assert!(told("beside the hog 3200 of 3200 requests honoured"));
    assert!(told("unprotected 0 of 3200 requests honoured"), "{row:?}");
}

#[test]
fn blocks_that_differ_widen_the_interval() {
    // Independent requests would leave no doubt of 88 %.
    let uneven = |condition: Condition, block: u32| match (condition, block % 2) {
        (Condition::U, _) => 0,
        (Condition::C, 0) => ASKED * 3 / 4,
        _ => ASKED,
    };
    let row = row(protected(MIG), MIG, uneven);
    let share = row.survival.as_ref().expect("a figure");
    assert!((share.value - 0.875).abs() < 1e-9, "{share:?}");
    assert!(share.lo < 0.80 && share.hi > 0.95, "{share:?}");
    assert_eq!(row.outcome.outcome, OutcomeKind::Inconclusive);
    assert_eq!(row.level.as_deref(), Some("L1..L3"));
}

#[test]
fn a_hog_that_takes_nothing_unprotected_shows_nothing() {
    let row = row(protected(MIG), MIG, |_, _| ASKED);
    assert_eq!(row.outcome.outcome, OutcomeKind::Inconclusive, "{row:?}");
    let reason = row.outcome.reason.unwrap_or_default();
    assert!(reason.contains("too weak to show anything"), "{reason}");
}

#[test]
fn a_victim_that_is_refused_alone_tells_nothing_of_the_hog() {
    let row = row(protected(MIG), MIG, |condition, _| match condition {
        Condition::U => 0,
        _ => ASKED / 2,
    });
    assert_eq!(row.outcome.outcome, OutcomeKind::Inconclusive, "{row:?}");
    let reason = row.outcome.reason.unwrap_or_default();
    assert!(reason.contains("alone not all is honoured"), "{reason}");
}

#[test]
fn without_an_unprotected_form_l2_is_the_most() {
    let mut lab = protected(MIG);
    for planned in &mut lab.plan.mechanisms {
        planned.unprotected = None;
    }
    let row = row(lab, MIG, |_, _| ASKED);
    assert_eq!(row.level.as_deref(), Some("L2"), "{row:?}");
}
