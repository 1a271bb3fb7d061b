//! A resumed run: the finished and the remaining parts of its plan.

use std::collections::{BTreeMap, BTreeSet};

use gpubench_record::{
    Cell, FORMAT_VERSION, FaultTrial, Interruption, Left, Outcome, Plan, RunEvent,
};
use gpubench_reports::store::reopen;

use super::recorder::Recorder;
use super::{RunError, Setup};

/// What of a run is done. Its plan is that of the set-up, without what an interruption cut.
#[derive(Debug, Clone)]
pub struct Continued {
    pub interruption: Interruption,
    /// What it left of the plan.
    pub left: Left,
    /// Ids of the cells that are done.
    pub cells: BTreeSet<String>,
    /// Outcomes of the variants that failed or cannot run.
    pub ended: BTreeMap<String, Outcome>,
    /// How many findings there are, by variant and name of the probe.
    pub found: BTreeMap<(String, String), usize>,
    /// Ids of the fault trials that are done.
    pub trials: BTreeSet<String>,
    /// Whether the device cannot run further fault trials.
    pub trials_stopped: bool,
}

impl Setup {
    /// The planned cells that did not run yet.
    pub fn cells_left(&self) -> Vec<Cell> {
        let is_left = |cell: &&Cell| {
            let done = self.continued.as_ref().map(|run| &run.cells);
            done.is_none_or(|done| !done.contains(&cell.id))
        };
        self.plan.cells.iter().filter(is_left).cloned().collect()
    }

    /// The planned fault trials that did not run yet.
    pub fn trials_left(&self) -> Vec<FaultTrial> {
        let is_left = |trial: &&FaultTrial| {
            let run = self.continued.as_ref();
            run.is_none_or(|run| !run.trials_stopped && !run.trials.contains(&trial.id))
        };
        let trials = self.plan.fault_trials.iter();
        trials.filter(is_left).cloned().collect()
    }

    /// The plan with only what did not run yet, for the progress display.
    #[must_use]
    pub fn plan_left(&self) -> Plan {
        Plan { cells: self.cells_left(), fault_trials: self.trials_left(), ..self.plan.clone() }
    }

    /// How many findings a probe has of an earlier start, under a variant.
    pub fn findings(&self, variant: &str, probe: &str) -> usize {
        let run = self.continued.as_ref();
        let found = run.and_then(|run| run.found.get(&(variant.to_owned(), probe.to_owned())));
        found.copied().unwrap_or(0)
    }
}

/// Begins the record, or goes on with that of an interrupted run, and writes the first event.
pub(super) fn recorder(setup: &Setup) -> Result<Recorder, RunError> {
    let (recorder, event) = match &setup.continued {
        None => (
            Recorder::create(&setup.out)?,
            RunEvent::Began {
                format_version: FORMAT_VERSION,
                plan: Box::new(setup.plan.clone()),
                device: Box::new(setup.identity.clone()),
                provenance: Box::new(setup.provenance.clone()),
                settings: setup.settings.clone().map(Box::new),
            },
        ),
        Some(run) => {
            reopen(&setup.out)?;
            let event = RunEvent::Resumed {
                interruption: Box::new(run.interruption.clone()),
                left: run.left.clone(),
            };
            (Recorder::reopen(&setup.out)?, event)
        }
    };
    recorder.event(&event)?;
    Ok(recorder)
}
