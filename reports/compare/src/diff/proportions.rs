//! Rows of trials: k of n with the promised result on each side.
//!
//! The trials of all sessions of a side are taken together. Where sessions differ more than trials
//! of one proportion do, the counts are divided by the design effect (Rao and Scott, Biometrics
//! 48, 1992). The verdict follows from the interval of the difference, as for rates.

use std::collections::BTreeMap;

use gpubench_stats::proportion::{Trials, clopper_pearson, difference, fisher_p};
use gpubench_stats::{Confidence, Effect, NoEstimate};

use super::change::{Basis, Change};
use super::verdict::{Judged, POWER, Rule, SESSIONS_MAX, Verdict};
use crate::session::{Bounds, Count, RowKey};

/// Proportions of one variant and axis share the error of one primary row: the number of such rows,
/// by variant and axis.
pub(super) fn groups<'a>(
    keys: impl Iterator<Item = &'a RowKey>,
) -> BTreeMap<(&'a str, &'a str), u32> {
    let mut groups = BTreeMap::new();
    for key in keys.filter(|key| key.metric.is_proportion()) {
        *groups.entry(group_of(key)).or_insert(0) += 1;
    }
    groups
}

/// The variant and the axis without its sub-axis.
pub(super) fn group_of(key: &RowKey) -> (&str, &str) {
    let axis = key.axis.split('/').next().unwrap_or(&key.axis);
    (&key.variant, axis)
}

/// Judges the trials of both sides, one count for each session.
/// Fails when a side has no trial, or too many to compute with.
pub(super) fn judge(
    sides: [&[Count]; 2],
    unattributable: Option<&'static str>,
    rule: Rule,
) -> Result<(Judged, Change), NoEstimate> {
    let effect = design_effect(sides);
    let [before, after] = sides.map(|side| trials(side, effect));
    let ends = |confidence| -> Result<[f64; 2], NoEstimate> {
        let interval = difference(before, after, confidence)?;
        Ok([interval.lo, interval.hi])
    };
    let (family, equivalence) = (ends(rule.family)?, ends(Confidence::P90)?);
    let change = Change {
        effect: Effect {
            value: share(sides[1]) - share(sides[0]),
            se: 0.0,
            df: f64::from(before.trials) + f64::from(after.trials) - 2.0,
            n: before.trials.saturating_add(after.trials),
        },
        least: None,
        bounds: Bounds::default(),
        basis: Basis::Trials,
        unattributable,
        session_sd: None,
    };
    let p = fisher_p(before, after)?;
    let mut judged = Judged::undecided(family, equivalence, p, detectable(before, after, rule));
    judged.decide(&change, rule);
    if judged.verdict == Verdict::Inconclusive {
        judged.sessions_needed = sessions_needed(sides, effect, rule);
    }
    Ok((judged, change))
}

pub(super) fn share(side: &[Count]) -> f64 {
    let all = trials(side, 1.0);
    f64::from(all.successes) / f64::from(all.trials)
}

fn trials(side: &[Count], effect: f64) -> Trials {
    let sum = |of: fn(&Count) -> u32| side.iter().map(|one| f64::from(of(one))).sum::<f64>();
    Trials {
        successes: (sum(|one| one.good) / effect).round() as u32,
        trials: (sum(|one| one.trials) / effect).round().max(1.0) as u32,
    }
}

/// The variance between sessions over that of independent trials; at least 1.
fn design_effect(sides: [&[Count]; 2]) -> f64 {
    let (mut sum, mut df) = (0.0, 0.0);
    for side in sides {
        let share = share(side);
        let spread = share * (1.0 - share);
        if spread == 0.0 || side.len() < 2 {
            continue;
        }
        let squares = side.iter().filter(|one| one.trials > 0).map(|one| {
            let n = f64::from(one.trials);
            (f64::from(one.good) - n * share).powi(2) / (n * spread)
        });
        sum += squares.sum::<f64>();
        df += side.len() as f64 - 1.0;
    }
    if df > 0.0 { (sum / df).max(1.0) } else { 1.0 }
}

/// The smallest loss that is found with 80 % power, the side before being as it is; `None` where
/// no outcome of the side after would show one.
fn detectable(before: Trials, after: Trials, rule: Rule) -> Option<f64> {
    let share = f64::from(before.successes) / f64::from(before.trials);
    let is_found = |good: u32| {
        let group = Trials { successes: good, ..after };
        let loss = share - f64::from(good) / f64::from(after.trials);
        let interval = difference(before, group, rule.family);
        loss >= rule.margin && interval.is_ok_and(|interval| interval.hi < 0.0)
    };
    // Fewer good trials are a larger loss, so the most that still show one are found by halving.
    if !is_found(0) {
        return None;
    }
    let (mut found, mut hidden) = (0, after.trials);
    while hidden - found > 1 {
        let middle = found.midpoint(hidden);
        if is_found(middle) {
            found = middle;
        } else {
            hidden = middle;
        }
    }
    // The proportion at which more than that many have the probability that the power leaves, which
    // is one tail of the interval.
    let confidence = Confidence::from_alpha(2.0 * (1.0 - POWER)).ok()?;
    let good = clopper_pearson(found + 1, after.trials, confidence).ok()?;
    Some(share - good.lo)
}

/// Sessions a side that would decide, if proportions and trials of a session stayed as they are.
fn sessions_needed(sides: [&[Count]; 2], effect: f64, rule: Rule) -> Option<u32> {
    let distance = (share(sides[1]) - share(sides[0])).abs();
    let of = |side: &[Count], sessions: u32| {
        let all = trials(side, effect);
        let scale = f64::from(sessions) / side.len() as f64;
        let trials = (f64::from(all.trials) * scale).round().max(1.0);
        Trials { successes: (trials * share(side)).round() as u32, trials: trials as u32 }
    };
    let decides = |sessions: u32| {
        let [one, two] = sides.map(|side| of(side, sessions));
        let confidence = if distance >= rule.margin { rule.family } else { Confidence::P90 };
        difference(one, two, confidence).is_ok_and(|found| {
            if distance >= rule.margin {
                found.lo > 0.0 || found.hi < 0.0
            } else {
                -rule.margin < found.lo && found.hi < rule.margin
            }
        })
    };
    super::verdict::fewest(decides, SESSIONS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn count(good: u32, trials: u32) -> Count {
        Count { good, trials }
    }

    fn rule() -> Rule {
        Rule { worse: -1.0, margin: 0.1, family: Confidence::from_alpha(0.002).unwrap() }
    }

    fn verdict(before: &[Count], after: &[Count]) -> Judged {
        judge([before, after], None, rule()).unwrap().0
    }

    #[test]
    fn worse_outcomes_regress_and_few_trials_decide_nothing() {
        let all = [count(14, 14); 4];
        for (after, expected) in [
            ([count(0, 14); 4], Verdict::Regressed),
            ([count(14, 14); 4], Verdict::Unchanged),
            ([count(13, 14); 4], Verdict::Inconclusive),
        ] {
            let found = verdict(&all, &after);
            assert_eq!(found.verdict, expected, "{found:?}");
            let mirrored = match expected {
                Verdict::Regressed => Verdict::Improved,
                same => same,
            };
            assert_eq!(verdict(&after, &all).verdict, mirrored);
        }
        let one = [count(1, 1)];
        let found = verdict(&one, &[count(0, 1)]);
        assert_eq!((found.verdict, found.detectable), (Verdict::Inconclusive, None));
        // What the row says it needs is enough.
        let few = [count(3, 3); 4];
        let needed = verdict(&few, &few).sessions_needed.unwrap();
        let enough = vec![count(3, 3); needed as usize];
        assert_eq!(verdict(&enough, &enough).verdict, Verdict::Unchanged);
        assert!(verdict(&enough[1..], &enough[1..]).verdict == Verdict::Inconclusive);
    }

    #[test]
    fn sessions_that_differ_among_themselves_count_for_fewer_trials() {
        let even = [count(7, 14); 4];
        let apart = [count(14, 14), count(0, 14), count(14, 14), count(0, 14)];
        let lost = [count(0, 14); 4];
        assert_eq!(design_effect([&even, &lost]), 1.0);
        assert!(design_effect([&apart, &lost]) > 10.0);
        assert_eq!(verdict(&even, &lost).verdict, Verdict::Regressed);
        assert_eq!(verdict(&apart, &lost).verdict, Verdict::Inconclusive);
    }

    #[test]
    fn the_detectable_loss_is_found_in_four_of_five() {
        let (before, after) = (trials(&[count(56, 56)], 1.0), trials(&[count(56, 56)], 1.0));
        let loss = detectable(before, after, rule()).unwrap();
        let share = 1.0 - loss;
        let mut found = 0.0;
        let mut probability = (1.0 - share).powi(56);
        for good in 0..=56 {
            let judged = verdict(&[count(56, 56)], &[count(good, 56)]);
            if judged.verdict == Verdict::Regressed {
                found += probability;
            }
            let left = f64::from(56 - good) / f64::from(good + 1);
            probability *= left * share / (1.0 - share);
        }
        assert!((found - 0.8).abs() < 1e-6, "{found}");
    }
}
