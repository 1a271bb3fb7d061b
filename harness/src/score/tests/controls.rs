//! A/A pairs: what a difference between two equal measurements does to a row.

use gpubench_record::{Condition, OutcomeKind};

use super::lab::{Lab, QUOTA, SLICING, rate};
use super::validity::{assert_doubt, valid};

#[test]
fn an_a_a_pair_that_differs_is_a_warning() {
    let again = |rate: f64| {
        let mut lab = valid();
        lab.each(Condition::SAgain).for_each(|cell| {
            cell.figures.closed_rate_per_s = Some(rate);
        });
        lab.row(QUOTA, "compute")
    };
    let row = again(991.0);
    // One of one pair: chance does that once in twenty runs.
    assert!(row.outcome.is_measured(), "{:?}", row.outcome);
    assert_eq!(row.warnings.len(), 1, "{:?}", row.warnings);
    assert!(row.warnings[0].starts_with("A/A: solo against itself is 0.991 [0.991, 0.991] ratio"));
    assert_doubt(&again(989.0), OutcomeKind::Inconclusive, "A/A: solo against itself is 0.989");
    assert_eq!(again(999.5).warnings, Vec::<String>::new());
}

/// Three of three pairs exclude 1, each by less than 1 %.
#[test]
fn more_a_a_pairs_than_chance_allows_leave_no_level() {
    let variants = [(SLICING, Some(SLICING)), (QUOTA, Some(SLICING)), ("mps", Some(SLICING))];
    let rows = |fire: usize| {
        let lab = Lab::new(&variants, 8, |variant, condition, _| {
            let place = variants.iter().position(|(one, _)| *one == variant);
            let fires = place.is_some_and(|place| place < fire);
            rate(match condition {
                Condition::SAgain if fires => 994.0,
                Condition::C | Condition::U => 500.0,
                _ => 1000.0,
            })
        });
        let rows = lab.score().matrix;
        let compute = rows.into_iter().filter(|row| row.axis == "compute");
        compute.filter(|row| row.word.as_deref() != Some("reference")).collect::<Vec<_>>()
    };
    assert!(rows(1).iter().all(|row| row.outcome.is_measured()));
    for (place, row) in rows(2).iter().enumerate() {
        if place < 2 {
            assert_doubt(row, OutcomeKind::Inconclusive, "A/A: 2 of 3 solo cells differ");
        } else {
            assert!(row.outcome.is_measured(), "its own pair agrees: {:?}", row.outcome);
        }
    }
}
