//! Rows of trials: victims of faults that were unharmed, and promises of memory that were kept.

use std::collections::BTreeMap;

use gpubench_compare::session::Count;
use gpubench_compare::{Metric, Row, RowKey};
use gpubench_record::{Axis, FaultTrial, MatrixRow, OutcomeKind, RunRecord};

/// Every row of trials that the record planned.
pub(super) fn of(run: &RunRecord) -> BTreeMap<RowKey, Row> {
    let mut rows = faults(run);
    rows.extend(run.matrix.iter().filter_map(memory));
    rows
}

/// One row for each variant and fault: the trials of its tally in which no victim was harmed.
/// Controls test the instrument and have none.
fn faults(run: &RunRecord) -> BTreeMap<RowKey, Row> {
    let mut rows = BTreeMap::new();
    let scored = |trial: &FaultTrial| trial.facts.control.is_none();
    for trial in run.fault_trials_not_held().filter(|trial| scored(trial)) {
        let why = run.fault_trials_stopped.as_deref();
        let why = why.unwrap_or("the trial did not run");
        rows.insert(key(trial), Row::NotMeasured(why.to_owned()));
    }
    for trial in run.fault_trials.iter().filter(|one| scored(&one.planned)) {
        let of = &trial.planned;
        let mut tallies = run.fault_tallies.iter();
        let tally = tallies.find(|one| (&one.variant, &one.fault) == (&of.variant, &of.fault));
        let row = match tally.filter(|tally| tally.trials > 0) {
            Some(tally) => Row::Counted(Count { good: tally.contained, trials: tally.trials }),
            None => {
                let why = trial.outcome.reason.as_deref();
                Row::Invalid(why.unwrap_or("the trial does not count").to_owned())
            }
        };
        rows.insert(key(of), row);
    }
    rows
}

fn key(trial: &FaultTrial) -> RowKey {
    RowKey {
        variant: trial.variant.clone(),
        axis: format!("{}/{}", Axis::Fault.as_str(), trial.fault),
        victim: trial.victim.clone(),
        aggressor: None,
        dose: None,
        metric: Metric::Survival,
    }
}

/// The proportion of a row of the memory axis as counts.
fn memory(row: &MatrixRow) -> Option<(RowKey, Row)> {
    if row.axis != Axis::Memory.as_str() {
        return None;
    }
    let share = row.survival.as_ref()?;
    let key = RowKey {
        variant: row.variant.clone(),
        axis: format!("{}/{}", row.axis, row.sub_axis.as_deref().unwrap_or("-")),
        victim: row.victim.clone().unwrap_or_else(|| "-".to_owned()),
        aggressor: row.aggressor.clone(),
        dose: None,
        metric: Metric::Survival,
    };
    let counts = row.outcome.outcome == OutcomeKind::Measured;
    let found = if counts {
        Row::Counted(Count {
            good: (share.value * f64::from(share.n)).round() as u32,
            trials: share.n,
        })
    } else {
        let why = row.outcome.reason.as_deref();
        Row::Invalid(why.unwrap_or("the row does not count").to_owned())
    };
    Some((key, found))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows_of(json: &str) -> Result<BTreeMap<RowKey, Row>, Box<dyn std::error::Error>> {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(json);
        let record = gpubench_reports::Record::open(&path)?;
        Ok(of(record.run()))
    }

    /// The trials of the published records of an H100, as its report counts them.
    #[test]
    fn trials_of_a_real_gpu_are_counted() -> Result<(), Box<dyn std::error::Error>> {
        let folder = "../reports/examples/h100_580.159.04_faults-mps";
        let rows = rows_of(folder)?;
        assert!(!rows.is_empty());
        let counts: Vec<Count> = rows.values().filter_map(Row::count).collect();
        let trials: u32 = counts.iter().map(|one| one.trials).sum();
        let good: u32 = counts.iter().map(|one| one.good).sum();
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
        let record = gpubench_reports::Record::open(&path)?;
        let scored = record.run().fault_trials.iter();
        let scored = scored.filter(|one| one.planned.facts.control.is_none());
        let measured: Vec<bool> = scored
            .filter(|one| one.outcome.is_measured())
            .map(gpubench_record::FaultResult::is_contained)
            .collect();
        assert_eq!(trials as usize, measured.len());
        assert_eq!(good as usize, measured.iter().filter(|one| **one).count());
        assert!(good < trials && good > 0, "{good} of {trials}");
        Ok(())
    }
}
