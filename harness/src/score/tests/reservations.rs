//! Rows of a victim with answering codes.

use gpubench_record::{Condition, MatrixRow, Outcome, OutcomeKind, SubAxis, WorkloadFacts};

use super::lab::{Lab, MIG, QUOTA, SLICING};
use crate::gate::{ANSWERED_REQUESTS, CLOSED_REQUESTS, HONOURED_REQUESTS};

/// Answered requests of each cell.
const ANSWERED: u64 = 400;

/// The row of a run whose cells honour this many of [`ANSWERED`] requests, by condition and block.
fn row(mut lab: Lab, variant: &str, honoured: impl Fn(Condition, u32) -> u64) -> MatrixRow {
    lab.plan.axes = vec!["memory/capacity".to_owned()];
    let facts = WorkloadFacts { answering_codes: vec![2] };
    lab.plan.workloads.insert("reserve".to_owned(), facts);
    for (planned, result) in lab.plan.cells.iter_mut().zip(&mut lab.cells) {
        planned.sub_axis = SubAxis::Capacity;
        planned.victim = "reserve".to_owned();
        planned.aggressor = planned.aggressor.take().map(|_| "memory-hog".to_owned());
        result.cell.victim.clone_from(&planned.victim);
        result.cell.aggressor.clone_from(&planned.aggressor);
        let kept = honoured(planned.condition, planned.block);
        let counts =
            [(ANSWERED_REQUESTS, ANSWERED), (HONOURED_REQUESTS, kept), (CLOSED_REQUESTS, kept)];
        result.requests.extend(counts.map(|(name, count)| (name.to_owned(), count)));
    }
    lab.row(variant, "memory")
}

/// Time-slicing, which is its own unprotected form.
fn slicing() -> Lab {
    Lab::slicing(900.0, 900.0, 900.0)
}

/// A mechanism with another one as its unprotected form.
fn protected(variant: &str) -> Lab {
    Lab::protected(variant, [900.0; 4])
}

#[test]
fn a_hog_that_takes_everything_is_measured_as_l0() {
    let row = row(
        slicing(),
        SLICING,
        |condition, _| {
            if condition.has_aggressor() { 0 } else { ANSWERED }
        },
    );
    assert_eq!(row.outcome.outcome, OutcomeKind::Measured, "{row:?}");
    assert_eq!(row.level.as_deref(), Some("L0"));
    assert_eq!(row.word.as_deref(), Some("None"));
    let share = row.survival.expect("a figure");
    assert_eq!((share.value, u64::from(share.n)), (0.0, 8 * ANSWERED));
    assert!(share.hi < 0.01);
}

#[test]
fn as_much_as_the_unprotected_form_honours_is_no_protection() {
    let quarter = |condition: Condition, _| {
        if condition.has_aggressor() { ANSWERED / 4 } else { ANSWERED }
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
        Condition::U => ANSWERED / 4,
        Condition::C => ANSWERED / 2,
        _ => ANSWERED,
    });
    assert_eq!(row.level.as_deref(), Some("L1"), "{row:?}");
    assert_eq!(row.word.as_deref(), Some("Partial"));
}

#[test]
fn honoured_reservations_are_l3_with_their_counts() {
    let row = row(protected(MIG), MIG, |condition, _| match condition {
        Condition::U => 0,
        _ => ANSWERED,
    });
    assert_eq!(row.level.as_deref(), Some("L3"), "{row:?}");
    let share = row.survival.clone().expect("a figure");
    assert_eq!((share.value, u64::from(share.n)), (1.0, 8 * ANSWERED));
    assert!(share.lo > 0.998, "{share:?}");
    let warns = |what: &str| row.warnings.iter().any(|warning| warning == what);
    assert!(warns("beside the hog 3200 of 3200 requests honoured"));
    assert!(warns("unprotected 0 of 3200 requests honoured"), "{row:?}");
}

#[test]
fn different_blocks_widen_the_interval() {
    // With independent requests the interval around 88 % would be narrow.
    let uneven = |condition: Condition, block: u32| match (condition, block % 2) {
        (Condition::U, _) => 0,
        (Condition::C, 0) => ANSWERED * 3 / 4,
        _ => ANSWERED,
    };
    let row = row(protected(MIG), MIG, uneven);
    let share = row.survival.as_ref().expect("a figure");
    assert!((share.value - 0.875).abs() < 1e-9, "{share:?}");
    assert!(share.lo < 0.80 && share.hi > 0.95, "{share:?}");
    assert_eq!(row.outcome.outcome, OutcomeKind::Inconclusive);
    assert_eq!(row.level.as_deref(), Some("L1..L3"));
}

#[test]
fn a_hog_that_takes_nothing_unprotected_leaves_no_level() {
    let row = row(protected(MIG), MIG, |_, _| ANSWERED);
    assert_eq!(row.outcome.outcome, OutcomeKind::Inconclusive, "{row:?}");
    let reason = row.outcome.reason.unwrap_or_default();
    assert!(reason.contains("too weak to show anything"), "{reason}");
}

#[test]
fn a_victim_that_is_refused_without_the_hog_leaves_no_level() {
    let row = row(protected(MIG), MIG, |condition, _| match condition {
        Condition::U => 0,
        _ => ANSWERED / 2,
    });
    assert_eq!(row.outcome.outcome, OutcomeKind::Inconclusive, "{row:?}");
    let reason = row.outcome.reason.unwrap_or_default();
    assert!(reason.contains("refused without the hog as well"), "{reason}");
}

#[test]
fn without_an_unprotected_form_l2_is_the_best_level() {
    let mut lab = protected(MIG);
    for planned in &mut lab.plan.mechanisms {
        planned.unprotected = None;
    }
    let row = row(lab, MIG, |_, _| ANSWERED);
    assert_eq!(row.level.as_deref(), Some("L2"), "{row:?}");
}

#[test]
fn an_unprotected_form_of_few_blocks_leaves_no_level() {
    let honoured = |condition: Condition, _| match condition {
        Condition::U => 0,
        _ => ANSWERED,
    };
    let mut lab = protected(MIG);
    for result in lab.each(Condition::U).skip(1) {
        result.outcome = Outcome::inconclusive("xid: 13");
    }
    let row = row(lab, MIG, honoured);
    assert_eq!(row.outcome.outcome, OutcomeKind::Inconclusive, "{row:?}");
    let reason = row.outcome.reason.unwrap_or_default();
    assert!(reason.contains("unprotected rests on 1 blocks, 3 are needed"), "{reason}");
}
