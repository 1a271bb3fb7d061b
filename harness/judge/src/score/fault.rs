//! The fault axis: one row for each fault under each mechanism, from the trials that count.
//!
//! A trial is contained if no victim was harmed. The level follows from the printed interval of the
//! proportion contained (Clopper-Pearson, two-sided, 95 %): few trials leave several levels open,
//! and the row says how many more would decide. Trials of other records may count as well. No trial
//! of a record's variant counts without both controls: the placebo, which must harm no victim, and
//! the self-test fault, which must kill one.

use gpubench_record::{
    Axis, Control, Estimate, FaultResult, FaultTally, Harm, MechanismRow, Outcome, Plan, counted,
};
use gpubench_stats::{Confidence, NoEstimate, proportion};

use super::level::{Level, LevelRange};
use super::row::Row;
use super::tally::{in_words, more_trials, tally};
use super::word::{Bound, Evidence};
use super::{Context, word};
use crate::figures::printed;
use crate::gate::raised_nothing;

pub(super) fn rows(context: &Context<'_>, mechanism: &MechanismRow) -> Vec<Row> {
    let sources = Sources::of(context, &mechanism.variant);
    let mut rows: Vec<Row> = planned(context.input.plan, &mechanism.variant)
        .into_iter()
        .filter(|planned| !planned.is_control)
        .map(|planned| row(context, mechanism, &planned, &sources))
        .collect();
    // L0 only where the mechanism contains no fault at all; L1 where it contains some
    // (since `scoring-v3`).
    let any_contained =
        rows.iter().filter_map(|row| row.range).any(|range| range.worst > Level::L0);
    if any_contained {
        for range in rows.iter_mut().filter_map(|row| row.range.as_mut()) {
            range.worst = range.worst.max(Level::L1);
            range.best = range.best.max(Level::L1);
        }
    }
    rows.into_iter().map(Row::finish).collect()
}

pub(super) fn tallies(context: &Context<'_>, mechanism: &MechanismRow) -> Vec<FaultTally> {
    let sources = Sources::of(context, &mechanism.variant);
    let of = |planned: Planned| FaultTally {
        doubt: sources.doubt.clone(),
        ..tally(&sources.of_fault(&planned.fault))
    };
    let tallies = planned(context.input.plan, &mechanism.variant);
    let tallies = tallies.into_iter().map(of);
    tallies.filter(|tally| !tally.fault.is_empty()).collect()
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Planned {
    fault: String,
    class: String,
    is_control: bool,
    trials: usize,
}

/// Each planned fault, in order.
fn planned(plan: &Plan, variant: &str) -> Vec<Planned> {
    let mut found: Vec<Planned> = Vec::new();
    let trials = plan.fault_trials.iter();
    for trial in trials.filter(|trial| trial.variant == variant) {
        match found.iter_mut().find(|one| one.fault == trial.fault) {
            Some(known) => known.trials += 1,
            None => found.push(Planned {
                fault: trial.fault.clone(),
                class: trial.class.clone(),
                is_control: trial.facts.control.is_some(),
                trials: 1,
            }),
        }
    }
    found
}

/// The trials of one variant, in this record and in every other record that counts.
struct Sources<'a> {
    records: Vec<Vec<&'a FaultResult>>,
    /// Why the controls of this record leave its trials in doubt.
    doubt: Option<String>,
    /// Why the trials of other records do not count.
    dropped: Vec<String>,
}

impl<'a> Sources<'a> {
    fn of(context: &Context<'a>, variant: &str) -> Self {
        let of_variant = |trials: &'a [FaultResult]| -> Vec<&'a FaultResult> {
            let own = trials.iter().filter(|trial| trial.planned.variant == variant);
            own.collect()
        };
        let own = of_variant(context.input.fault_trials);
        let doubt = controls(&own);
        let mut sources = Self { records: vec![own], doubt, dropped: Vec::new() };
        for earlier in context.input.earlier_trials {
            let trials = of_variant(earlier);
            if trials.is_empty() {
                continue;
            }
            match controls(&trials) {
                None => sources.records.push(trials),
                Some(why) => {
                    let count = counted(trials.len(), "trial");
                    let text = format!("{count} of another record not counted: {why}");
                    sources.dropped.push(text);
                }
            }
        }
        sources
    }

    fn of_fault(&self, fault: &str) -> Vec<Vec<&'a FaultResult>> {
        let own = |record: &Vec<&'a FaultResult>| {
            let trials = record.iter().copied();
            trials.filter(|trial| trial.planned.fault == fault).collect()
        };
        self.records.iter().map(own).collect()
    }
}

/// Why the controls leave the trials in doubt; `None` where both controls came out as they must.
fn controls(trials: &[&FaultResult]) -> Option<String> {
    let of = |control: Control| {
        trials.iter().filter(move |trial| {
            trial.planned.facts.control == Some(control) && trial.outcome.is_measured()
        })
    };
    let (placebos, self_tests) = (of(Control::Placebo).count(), of(Control::SelfTest).count());
    if placebos == 0 || self_tests == 0 {
        return Some(format!(
            "no control counts: {placebos} placebos, {self_tests} self-test faults"
        ));
    }
    let harmed = of(Control::Placebo).filter(|trial| !trial.is_contained()).count();
    if harmed > 0 {
        return Some(format!("the placebo harmed a victim in {harmed} of {placebos} trials"));
    }
    let dead = |trial: &&&FaultResult| trial.victims.iter().any(|v| v.harm == Harm::Dead);
    let missed = self_tests - of(Control::SelfTest).filter(dead).count();
    (missed > 0)
        .then(|| format!("the self-test fault was missed in {missed} of {self_tests} trials"))
}

fn row(
    context: &Context<'_>,
    mechanism: &MechanismRow,
    planned: &Planned,
    sources: &Sources<'_>,
) -> Row {
    let mut row = Row::of_mechanism(context, mechanism, Axis::Fault, None);
    row.matrix.sub_axis = Some(planned.class.clone());
    row.matrix.aggressor = Some(planned.fault.clone());
    if !row.matrix.outcome.is_measured() {
        return row;
    }
    if let Some(doubt) = &sources.doubt {
        row.doubt(doubt.clone());
    }
    let records = sources.of_fault(&planned.fault);
    let held = records.first().map_or(0, Vec::len);
    if held < planned.trials {
        let why = context.input.fault_stop.unwrap_or("the run ended before");
        row.warn(format!("{held} of {} planned trials were held: {why}", planned.trials));
    }
    let mut all = records.iter().flatten();
    let left_out = all.find(|trial| !trial.outcome.is_measured());
    let left_out = left_out.map(|trial| trial.outcome.reason.as_deref().unwrap_or("no reason"));
    if let Some(reason) = left_out {
        let tally = tally(&records);
        row.warn(format!(
            "leaves out {} of {}: {reason}",
            tally.left_out,
            counted(tally.left_out + tally.trials, "trial")
        ));
    }
    for dropped in &sources.dropped {
        row.warn(dropped.clone());
    }
    let tally = tally(&records);
    let (Some(survival), Some(range)) = (tally.survival.clone(), range(&tally)) else {
        let all = counted(tally.left_out, "trial");
        if !row.is_doubtful() && all_raised_nothing(&records) {
            let reason = format!("{} raises no error on this device ({all})", planned.fault);
            row.matrix.outcome = Outcome::waived(reason);
            row.cannot_run_here = true;
        } else {
            let why = left_out.map_or(String::new(), |reason| format!(": {reason}"));
            row.doubt(format!("none of {all} counts{why}"));
        }
        return row;
    };
    row.warn(in_words(&tally));
    row.matrix.survival = Some(survival);
    row.set_range(range, vec![more_trials(&tally).into()]);
    if row.is_doubtful() {
        return row;
    }
    if let Some(level) = range.decided() {
        let word = word::of_resource(level, Evidence::of(mechanism), Bound::Partition);
        row.matrix.word = Some(word.to_owned());
    }
    row
}

/// Whether no trial raised the fault, so that the axis is complete without it.
fn all_raised_nothing(records: &[Vec<&FaultResult>]) -> bool {
    let mut all = records.iter().flatten().peekable();
    all.peek().is_some() && all.all(|trial| raised_nothing(trial))
}

/// The levels that the interval leaves open.
fn range(tally: &FaultTally) -> Option<LevelRange> {
    tally.survival.as_ref().map(LevelRange::of_proportion)
}

// Counts of independent units that came out as promised: release events, reservations, trials.

/// Trials that came out as promised, over all findings of a sub-axis.
#[derive(Debug, Default)]
pub(super) struct Proportion {
    unit: &'static str,
    good: u64,
    trials: u64,
}

impl Proportion {
    pub(super) fn add(&mut self, unit: &'static str, good: u64, trials: u64) {
        self.unit = unit;
        self.good += good;
        self.trials += trials;
    }

    /// Good trials and all trials.
    pub(super) const fn counts(&self) -> (u64, u64) {
        (self.good, self.trials)
    }

    /// The proportion with its two-sided Clopper-Pearson interval.
    pub(super) fn estimate(&self) -> Result<Estimate, NoEstimate> {
        let (good, trials) = self.narrow();
        let found = proportion::clopper_pearson(good, trials, Confidence::P95);
        found.map(|found| printed(found, self.unit))
    }

    fn narrow(&self) -> (u32, u32) {
        let narrow = |count| u32::try_from(count).unwrap_or(u32::MAX);
        (narrow(self.good), narrow(self.trials))
    }
}

#[cfg(test)]
mod tests {
    use gpubench_record::ExpectedAnswer;

    use super::*;
    use crate::gate::fixture::fault_trial;

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
            (0, 17, "L0"),
            (0, 1, "L0..L3"),
            (3, 3, "L1..L3"),
            (16, 16, "L1..L3"),
            (17, 17, "L2..L3"),
            (71, 71, "L2..L3"),
            (72, 72, "L3"),
            (1, 17, "L1"),
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
            (&[(17, 17)][..], "L2 or better, 55 more trials for L3"),
            (&[(3, 3)], "3 of 3 trials contained, 14 more for L2"),
            (&[(0, 1)], "failed once"),
            (&[(2, 3)], "2 of 3 trials contained"),
            (&[(14, 14), (14, 14)], "L2 or better, 44 more trials for L3"),
        ] {
            assert_eq!(more_trials(&pooled(records)), want);
        }
    }

    #[test]
    fn trials_of_several_records_count_together() {
        let record = (17, 17);
        let five = pooled(&[record, record, record, record, (4, 4)]);
        assert_eq!((five.trials, five.records), (72, 5));
        assert_eq!(range(&five).map(|r| r.to_string()).as_deref(), Some("L3"));
        let words = in_words(&five);
        assert!(
            words.starts_with("72 of 72 trials of 5 records contained: 0.950 to 1.000 of them"),
            "{words}"
        );
        let one_bad = pooled(&[record, record, record, record, (3, 4)]);
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
            planned: fault_trial("some-fault", control, ExpectedAnswer::Either),
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
    fn a_device_lacks_a_fault_that_no_trial_raised_and_no_victim_felt() {
        let trial = |harm, answer| {
            let mut trial = trial(None, &[harm], false);
            trial.planned.facts.answer = answer;
            let (tenant, role) = ("victim".to_owned(), gpubench_record::Role::Victim);
            let tenant = gpubench_record::CellTenant { tenant, role, workload: None };
            trial.observed.victims.push(gpubench_record::TenantResult::ready(&tenant, None));
            trial
        };
        use ExpectedAnswer::{Either, Error};
        let absent = || trial(Harm::Unharmed, Error);
        for (trials, want) in [
            (vec![absent(), absent()], true),
            (vec![absent(), trial(Harm::Dead, Error)], false),
            (vec![absent(), trial(Harm::Unharmed, Either)], false),
            (vec![], false),
        ] {
            let records = [trials.iter().collect()];
            assert_eq!(all_raised_nothing(&records), want, "{trials:?}");
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
            (
                vec![placebo(Unharmed), self_test(Slowed)],
                Some("self-test fault was missed in 1 of 1"),
            ),
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
}
