//! Levels, words and controls of fault trials.

use gpubench_record::{ExpectedAnswer, FaultFacts, FaultTrial};

use super::*;

/// `k` of `n` trials in each of several records.
fn pooled(records: &[(u32, u32)]) -> FaultTally {
    let trials: Vec<Vec<FaultResult>> = records
        .iter()
        .map(|&(k, n)| {
            let harm = |i| if i < k { Harm::Unharmed } else { Harm::Dead };
            (0..n).map(|i| trial(None, &[harm(i)], true)).collect()
        })
        .collect();
    let sources: Vec<Vec<&FaultResult>> = trials.iter().map(|t| t.iter().collect()).collect();
    tally(&sources)
}

#[test]
fn levels_follow_from_the_bounds_and_no_contained_trial_is_l0() {
    for (k, n, want) in [
        (0, 14, "L0"),
        (0, 1, "L0"),
        (3, 3, "L1..L3"),
        (13, 13, "L1..L3"),
        (14, 14, "L2..L3"),
        (58, 58, "L2..L3"),
        (59, 59, "L3"),
        (1, 14, "L1"),
        (10, 14, "L1..L2"),
    ] {
        let tally = pooled(&[(k, n)]);
        let range = range(&tally).expect("a bound");
        let survival = tally.survival.expect("a bound");
        assert_eq!(range.to_string(), want, "{k}/{n}: {survival:?}");
        assert!(survival.lo <= survival.value && survival.value <= survival.hi);
    }
}

#[test]
fn a_tally_says_how_many_more_trials_are_needed() {
    for (records, want) in [
        (&[(14, 14)][..], "L2 or better, 45 more trials for L3"),
        (&[(3, 3)], "3 of 3 trials contained, 11 more for L2"),
        (&[(2, 3)], "2 of 3 trials contained"),
        (&[(14, 14), (14, 14)], "L2 or better, 31 more trials for L3"),
    ] {
        assert_eq!(more_trials(&pooled(records)), want);
    }
}

#[test]
fn trials_of_several_records_count_together() {
    let record = (14, 14);
    let five = pooled(&[record, record, record, record, (3, 3)]);
    assert_eq!((five.trials, five.records), (59, 5));
    assert_eq!(range(&five).map(|r| r.to_string()).as_deref(), Some("L3"));
    let words = in_words(&five);
    assert!(
        words.starts_with("59 of 59 trials of 5 records contained: at least 0.950 of them"),
        "{words}"
    );
    let one_bad = pooled(&[record, record, record, record, (2, 3)]);
    assert_eq!(range(&one_bad).map(|r| r.to_string()).as_deref(), Some("L2..L3"));
    assert_eq!((one_bad.more_for_l2, one_bad.more_for_l3), (None, None));
}

fn trial(control: Option<Control>, harms: &[Harm], counts: bool) -> FaultResult {
    let victim = |harm: &Harm| gpubench_record::VictimOutcome {
        tenant: "victim".to_owned(),
        harm: *harm,
        code: None,
        rate_ratio: 1.0,
        gap_ns: 0,
        next_good_ns: None,
    };
    FaultResult {
        planned: FaultTrial {
            id: "f0000".to_owned(),
            group: "plain".to_owned(),
            mechanism: "time-slicing".to_owned(),
            variant: "time-slicing".to_owned(),
            fault: "some-fault".to_owned(),
            class: "some-class".to_owned(),
            facts: FaultFacts {
                control,
                answer: ExpectedAnswer::Either,
                by_coordinator: false,
                leaves_waiting: false,
            },
            trial: 1,
            victim: "compute".to_owned(),
            tenants: Vec::new(),
            schedule_seed: 1,
            at_ns: 0,
            until_ns: 0,
            from_ns: 0,
            window_ns: 0,
        },
        outcome: if counts {
            gpubench_record::Outcome::measured()
        } else {
            gpubench_record::Outcome::inconclusive("no baseline")
        },
        victims: harms.iter().map(victim).collect(),
        detected_after_ns: None,
        observed: gpubench_record::FaultObservation::default(),
    }
}

#[test]
fn nothing_counts_without_both_controls() {
    use Harm::{Dead, Slowed, Unharmed};
    let placebo = |harm| trial(Some(Control::Placebo), &[Unharmed, harm], true);
    let self_test = |harm| trial(Some(Control::SelfTest), &[harm, Unharmed], true);
    for (trials, doubt) in [
        (vec![placebo(Unharmed), self_test(Dead)], None),
        (vec![placebo(Slowed), self_test(Dead)], Some("placebo harmed a victim in 1 of 1")),
        (vec![placebo(Unharmed), self_test(Slowed)], Some("self-test fault was missed in 1 of 1")),
        (vec![placebo(Unharmed)], Some("1 placebos, 0 self-test")),
        (vec![self_test(Dead)], Some("0 placebos, 1 self-test")),
        (
            vec![trial(Some(Control::Placebo), &[Unharmed], false), self_test(Dead)],
            Some("0 placebos, 1 self-test"),
        ),
    ] {
        let trials: Vec<&FaultResult> = trials.iter().collect();
        let found = controls(&trials);
        match doubt {
            None => assert_eq!(found, None),
            Some(doubt) => assert!(found.is_some_and(|found| found.contains(doubt)), "{doubt}"),
        }
    }
}
