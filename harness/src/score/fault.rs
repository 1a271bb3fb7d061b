//! The fault axis: one row for each fault under each mechanism, from the trials that count.
//!
//! A trial is contained if no victim noticed. The level follows from one-sided Clopper-Pearson
//! bounds of the part that is contained: few trials leave several levels open, and the row says how
//! many more would decide. Without its two controls (one that must hurt nobody, one that must
//! always be seen) no trial of a variant counts.

use gpubench_record::{Axis, Estimate, Fate, FaultResult, MechanismRow, Plan};
use gpubench_stats::Confidence;
use gpubench_stats::proportion::{lower_bound, trials_for_lower_bound};
use gpubench_workloads::fault::{CANARY, Class, PLACEBO};

use super::Context;
use super::level::{Level, LevelRange};
use super::row::Row;
use super::word::{self, Evidence};

/// Bounds of the part that is contained for L3 and L2 (`scoring-v1`).
const L3: f64 = 0.95;
const L2: f64 = 0.80;

/// The rows of one mechanism, from benign to severe.
pub(super) fn rows(context: &Context<'_>, mechanism: &MechanismRow) -> Vec<Row> {
    let trials: Vec<&FaultResult> = context
        .input
        .fault_trials
        .iter()
        .filter(|trial| trial.variant == mechanism.variant)
        .collect();
    let doubt = controls(&trials);
    let mut rows = Vec::new();
    for (fault, class) in planned(context.input.plan, &mechanism.variant) {
        let own: Vec<&FaultResult> = trials
            .iter()
            .copied()
            .filter(|t| t.fault == fault)
            .collect();
        rows.push(row(
            context,
            mechanism,
            (&fault, &class),
            &own,
            doubt.as_deref(),
        ));
    }
    // No fault contained is L0; some contained and others not is L1 for the axis (`scoring-v1`).
    let any_contained = rows
        .iter()
        .filter_map(|row| row.range)
        .any(|range| range.worst > Level::L0);
    if any_contained {
        for range in rows.iter_mut().filter_map(|row| row.range.as_mut()) {
            range.worst = range.worst.max(Level::L1);
            range.best = range.best.max(Level::L1);
        }
    }
    rows.into_iter().map(Row::finish).collect()
}

/// Each planned fault with its class, in order, without the controls.
fn planned(plan: &Plan, variant: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let trials = plan.fault_trials.iter();
    for trial in trials.filter(|trial| trial.cell.variant == variant) {
        let one = (trial.fault.clone(), trial.class.clone());
        if trial.class != Class::Control.as_str() && !found.contains(&one) {
            found.push(one);
        }
    }
    found
}

/// What is wrong with the instrument, if the controls say so.
fn controls(trials: &[&FaultResult]) -> Option<String> {
    let of = |name: &'static str| {
        trials
            .iter()
            .filter(move |trial| trial.fault == name && trial.outcome.is_measured())
    };
    let (placebos, canaries) = (of(PLACEBO).count(), of(CANARY).count());
    if placebos == 0 || canaries == 0 {
        return Some(format!(
            "no control counts: {placebos} placebos, {canaries} canaries"
        ));
    }
    let hurt = of(PLACEBO).filter(|trial| !trial.is_contained()).count();
    if hurt > 0 {
        return Some(format!(
            "the placebo was seen in {hurt} of {placebos} trials"
        ));
    }
    let dead = |trial: &&&FaultResult| trial.victims.iter().any(|v| v.fate == Fate::Dead);
    let missed = canaries - of(CANARY).filter(dead).count();
    (missed > 0).then(|| format!("the canary was missed in {missed} of {canaries} trials"))
}

fn row(
    context: &Context<'_>,
    mechanism: &MechanismRow,
    (fault, class): (&str, &str),
    trials: &[&FaultResult],
    doubt: Option<&str>,
) -> Row {
    let mut row = Row::of_mechanism(context, mechanism, Axis::Fault, None);
    row.matrix.sub_axis = Some(class.to_owned());
    row.matrix.aggressor = Some(fault.to_owned());
    if !row.matrix.outcome.is_measured() {
        return row;
    }
    if let Some(doubt) = doubt {
        row.doubt(doubt);
    }
    let counting: Vec<&FaultResult> = trials
        .iter()
        .copied()
        .filter(|trial| trial.outcome.is_measured())
        .collect();
    if let Some(left_out) = trials.iter().find(|trial| !trial.outcome.is_measured()) {
        let count = trials.len() - counting.len();
        let reason = left_out.outcome.reason.as_deref().unwrap_or("no reason");
        row.warn(format!(
            "leaves out {count} of {} trials: {reason}",
            trials.len()
        ));
    }
    if counting.is_empty() {
        row.doubt(format!("none of {} trials counts", trials.len()));
        return row;
    }
    let n = u32::try_from(counting.len()).unwrap_or(u32::MAX);
    let contained = counting.iter().filter(|trial| trial.is_contained()).count();
    let k = u32::try_from(contained).unwrap_or(u32::MAX);
    row.warn(in_words(&counting));
    let Some((survival, range)) = row_level(k, n) else {
        row.doubt(format!("no interval for {k} of {n} trials"));
        return row;
    };
    row.matrix.survival = Some(survival);
    row.set_range(range, vec![more_trials(k, n)]);
    if row.is_doubtful() {
        return row;
    }
    if let Some(level) = range.decided() {
        let evidence = Evidence::of(mechanism);
        row.matrix.word = Some(word::of_resource(level, evidence).to_owned());
    }
    row
}

/// The proportion with its bound, and the levels that it leaves open.
fn row_level(k: u32, n: u32) -> Option<(Estimate, LevelRange)> {
    let lo = lower_bound(k, n, Confidence::P95).ok()?.lo;
    // By symmetry, what is not contained has the lower bound that is 1 less the upper one.
    let hi = 1.0 - lower_bound(n - k, n, Confidence::P95).ok()?.lo;
    let level = |p: f64| {
        if p >= L3 {
            Level::L3
        } else if p >= L2 {
            Level::L2
        } else {
            Level::L1
        }
    };
    let range = if k == 0 {
        LevelRange::at(Level::L0)
    } else {
        LevelRange {
            worst: level(lo),
            best: level(hi),
        }
    };
    let survival = Estimate {
        value: f64::from(k) / f64::from(n),
        lo,
        hi,
        n,
        unit: "proportion".to_owned(),
    };
    Some((survival, range))
}

/// How many more trials would decide, if all of them went as well.
fn more_trials(k: u32, n: u32) -> String {
    let need = |bound: f64| trials_for_lower_bound(bound, Confidence::P95).unwrap_or(u32::MAX);
    let (two, three) = (need(L2), need(L3));
    if k < n {
        return format!("{k} of {n} trials contained");
    }
    if n < two {
        format!("{k} of {n} trials contained, {} more for L2", two - n)
    } else {
        format!(
            "L2 or better, {} more trials for L3",
            three.saturating_sub(n)
        )
    }
}

/// What became of the victims, how long it took, and what the driver said.
fn in_words(trials: &[&FaultResult]) -> String {
    let mut parts = Vec::new();
    let victims: Vec<_> = trials.iter().flat_map(|trial| &trial.victims).collect();
    for fate in [Fate::Unharmed, Fate::Slowed, Fate::Stalled, Fate::Dead] {
        let of: Vec<_> = victims
            .iter()
            .filter(|victim| victim.fate == fate)
            .collect();
        if of.is_empty() {
            continue;
        }
        let codes = list(of.iter().filter_map(|victim| victim.code));
        let codes = codes.map_or(String::new(), |codes| format!(" with CUresult {codes}"));
        parts.push(format!(
            "{} of {} victims {}{codes}",
            of.len(),
            victims.len(),
            fate.as_str()
        ));
    }
    let own = list(trials.iter().filter_map(|trial| trial.seen.struck.code));
    parts.extend(own.map(|codes| format!("itself CUresult {codes}")));
    let xids = trials.iter().filter_map(|trial| trial.seen.xids.as_ref());
    parts.extend(list(xids.flatten().map(|&xid| xid as i32)).map(|xids| format!("Xid {xids}")));
    let most = |times: Vec<u64>| times.into_iter().max();
    let of = |pick: fn(&FaultResult) -> Option<u64>| {
        most(trials.iter().filter_map(|t| pick(t)).collect())
    };
    let mut took = |what: &str, ns: Option<u64>| {
        parts.extend(ns.map(|ns| format!("{what} after at most {:.1} ms", ns as f64 / 1e6)));
    };
    took("detected", of(|trial| trial.detected_after_ns));
    let next = victims.iter().filter_map(|victim| victim.next_good_ns);
    took("next good request", most(next.collect()));
    took(
        "new client",
        of(|trial| trial.seen.new_client?.accepted_after_ns),
    );
    let refused = |trial: &&&FaultResult| {
        trial
            .seen
            .new_client
            .is_some_and(|client| client.accepted_after_ns.is_none())
    };
    let refused = trials.iter().filter(refused).count();
    if refused > 0 {
        parts.push(format!("no new client accepted in {refused} trials"));
    }
    let left = |trial: &&&FaultResult| {
        trial
            .seen
            .left_behind
            .as_ref()
            .is_some_and(|l| !l.is_empty())
    };
    let left = trials.iter().filter(left).count();
    if left > 0 {
        parts.push(format!("processes left on the device in {left} trials"));
    }
    parts.join(", ")
}

/// Distinct numbers in order; none if there are none.
fn list(numbers: impl Iterator<Item = i32>) -> Option<String> {
    let mut all: Vec<i32> = numbers.collect();
    all.sort_unstable();
    all.dedup();
    let texts: Vec<String> = all.iter().map(ToString::to_string).collect();
    (!texts.is_empty()).then(|| texts.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_follow_from_the_bounds_and_zero_is_none() {
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
            let (survival, range) = row_level(k, n).expect("a bound");
            assert_eq!(range.to_string(), want, "{k}/{n}: {survival:?}");
            assert!(survival.lo <= survival.value && survival.value <= survival.hi);
        }
    }

    #[test]
    fn a_night_of_trials_says_how_many_more_are_needed() {
        assert_eq!(more_trials(14, 14), "L2 or better, 45 more trials for L3");
        assert_eq!(more_trials(3, 3), "3 of 3 trials contained, 11 more for L2");
        assert_eq!(more_trials(2, 3), "2 of 3 trials contained");
    }

    fn trial(fault: &str, fates: &[Fate], counts: bool) -> FaultResult {
        let victim = |fate: &Fate| gpubench_record::VictimFate {
            tenant: "victim".to_owned(),
            fate: *fate,
            code: None,
            rate_ratio: 1.0,
            gap_ns: 0,
            next_good_ns: None,
        };
        FaultResult {
            id: "f0000".to_owned(),
            mechanism: "time-slicing".to_owned(),
            variant: "time-slicing".to_owned(),
            fault: fault.to_owned(),
            class: "control".to_owned(),
            trial: 1,
            outcome: if counts {
                gpubench_record::Outcome::measured()
            } else {
                gpubench_record::Outcome::inconclusive("no baseline")
            },
            victims: fates.iter().map(victim).collect(),
            detected_after_ns: None,
            seen: gpubench_record::FaultSeen::default(),
        }
    }

    #[test]
    fn nothing_counts_without_both_controls() {
        use Fate::{Dead, Slowed, Unharmed};
        let placebo = |fate| trial(PLACEBO, &[Unharmed, fate], true);
        let canary = |fate| trial(CANARY, &[fate, Unharmed], true);
        for (trials, doubt) in [
            (vec![placebo(Unharmed), canary(Dead)], None),
            (
                vec![placebo(Slowed), canary(Dead)],
                Some("placebo was seen in 1 of 1"),
            ),
            (
                vec![placebo(Unharmed), canary(Slowed)],
                Some("canary was missed in 1 of 1"),
            ),
            (vec![placebo(Unharmed)], Some("1 placebos, 0 canaries")),
            (vec![canary(Dead)], Some("0 placebos, 1 canaries")),
            (
                vec![trial(PLACEBO, &[Unharmed], false), canary(Dead)],
                Some("0 placebos, 1 canaries"),
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
}
