//! The fault axis: one row for each fault under each mechanism, from the trials that count.
//!
//! A trial is contained if no victim was harmed. The level follows from one-sided Clopper-Pearson
//! bounds of the proportion contained: few trials leave several levels open, and the row says how
//! many more would decide. Trials of other records may count as well. No trial of a record's
//! variant counts without both controls: the placebo, which must harm no victim, and the self-test
//! fault, which must kill one.

#[cfg(test)]
mod tests;

use gpubench_record::{Axis, Control, FaultResult, FaultTally, Harm, MechanismRow, Plan, counted};

use super::Context;
use super::level::{Level, LevelRange};
use super::proportion::Bounds;
use super::row::Row;
use super::tally::{in_words, more_trials, tally};
use super::word::{self, Bound, Evidence};

/// The rows of one mechanism, from benign to severe.
pub(super) fn rows(context: &Context<'_>, mechanism: &MechanismRow) -> Vec<Row> {
    let sources = Sources::of(context, &mechanism.variant);
    let mut rows: Vec<Row> = planned(context.input.plan, &mechanism.variant)
        .into_iter()
        .filter(|planned| !planned.is_control)
        .map(|planned| row(context, mechanism, &planned, &sources))
        .collect();
    // L0 only where the mechanism contains no fault at all; L1 where it contains some
    // (`scoring-v3`).
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

/// The tallies of one mechanism, the controls first.
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

/// One planned fault.
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
    if let Some(left_out) = all.find(|trial| !trial.outcome.is_measured()) {
        let tally = tally(&records);
        let reason = left_out.outcome.reason.as_deref().unwrap_or("no reason");
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
        row.doubt(format!("none of {} counts", counted(tally.left_out, "trial")));
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

/// The levels that the bounds leave open.
fn range(tally: &FaultTally) -> Option<LevelRange> {
    Some(Bounds::of(tally.contained, tally.trials).ok()?.levels())
}
