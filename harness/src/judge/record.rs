//! From the folder of a run to a scored record: each cell is judged by the gates, and all cells are
//! scored. A run that just ended and a run that crashed take the same path.

use std::path::Path;

use gpubench_record::{
    CellResult, FaultResult, GateScope, Outcome, OutcomeKind, Provenance, RunEvent, RunRecord,
};
use gpubench_reports::store::{Record, StoreError, read_events};

use super::cells::Evidence;
use super::{cells, device_speed, fault_trials, mechanism_rows, timer};
use crate::claims;
use crate::figures::CellsError;
use crate::gate::GateError;
use crate::plan::{PlanError, ledger};
use crate::score;

/// A record that cannot be judged.
#[derive(Debug, thiserror::Error)]
pub enum JudgeError {
    /// It cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The tenants of a cell are not those of the plan.
    #[error(transparent)]
    Gate(#[from] GateError),
    /// The scoring rules refuse it.
    #[error(transparent)]
    Score(#[from] CellsError),
    /// The claims ledger of this build cannot be read.
    #[error(transparent)]
    Ledger(#[from] PlanError),
}

/// Reads the folder of a run and scores it; also returns the warnings. Writes nothing.
///
/// # Errors
/// When the record cannot be read, or contradicts itself.
pub(super) fn score_folder(dir: &Path) -> Result<(RunRecord, Vec<String>), JudgeError> {
    score_opened(&Record::open(dir)?)
}

/// Scores an opened record; also returns its warnings. Writes nothing.
///
/// # Errors
/// As [`score_folder`].
pub(super) fn score_opened(record: &Record) -> Result<(RunRecord, Vec<String>), JudgeError> {
    let Judged { mut run, ended } = judged(record)?;
    rescore(&mut run, &[])?;
    match ended {
        Some((true, _)) => {
            run.complete = true;
            run.incomplete_reason = None;
        }
        Some((false, reason)) => {
            run.complete = false;
            run.incomplete_reason = reason.or(run.incomplete_reason);
        }
        None => run.complete = false,
    }
    Ok((run, record.warnings().to_vec()))
}

/// A record whose cells and trials are judged and not scored.
pub(super) struct Judged {
    pub run: RunRecord,
    /// Whether its last event says that it is complete, and why it is not; `None` without one.
    ended: Option<(bool, Option<String>)>,
}

/// Judges the cells and trials of a record by its events and samples.
pub(super) fn judged(record: &Record) -> Result<Judged, JudgeError> {
    let mut run = record.run().clone();
    let events = read_events(record.dir())?.events;
    let endings = cells::endings(&events);
    let ended = match events.last() {
        Some(RunEvent::Ended { complete, reason, .. }) => Some((*complete, reason.clone())),
        _ => None,
    };
    let evidence = Evidence::of_record(&run, &events);
    let mut judged = Vec::new();
    for cell in &run.plan.cells {
        let Some(end) = endings.get(&cell.id) else {
            judged.extend(run.cells.iter().find(|known| known.cell.id == cell.id).cloned());
            continue;
        };
        judged.push(cells::judged(record, &run, cell, end, &evidence)?);
    }
    run.cells = judged;
    run.probes = fault_trials::probes(&events);
    run.device_speed = device_speed::of_run(&run.plan, &events);
    run.fault_trials = fault_trials::judged(record, &run.plan, &events)?;
    run.fault_trials_stopped = fault_trials::stopped(&events);
    mechanism_rows::settle(&mut run.mechanisms, &run.plan.skips);
    Ok(Judged { run, ended })
}

/// Scores a record with judged cells and trials, and counts fault trials of other records with its
/// own.
///
/// # Errors
/// When the scoring rules refuse it.
pub fn rescore(run: &mut RunRecord, earlier: &[Vec<FaultResult>]) -> Result<(), JudgeError> {
    settle_outcomes(&mut run.cells);
    let scored = score::score(&input(run, earlier))?;
    run.scoring = score::VERSION.to_owned();
    run.matrix = scored.matrix;
    run.overall = scored.overall;
    run.probe_figures = scored.probe_figures;
    run.fault_tallies = scored.fault_tallies;
    run.service = scored.service;
    run.tenant_limits = scored.tenant_limits;
    run.dose_curves = scored.dose_curves;
    run.operator = scored.operator;
    judge_claims(run)
}

/// The rows of a run so far, by its judged cells.
pub(super) fn look(run: &RunRecord) -> Result<score::Look, CellsError> {
    score::look(&input(run, &[]))
}

fn input<'a>(run: &'a RunRecord, earlier: &'a [Vec<FaultResult>]) -> score::ScoreInput<'a> {
    score::ScoreInput {
        plan: &run.plan,
        cells: &run.cells,
        fault_trials: &run.fault_trials,
        earlier_trials: earlier,
        fault_stop: run.fault_trials_stopped.as_deref(),
        mechanisms: &run.mechanisms,
        calibration: &run.calibration,
        probes: &run.probes,
        timer_floor_ns: timer_floor_ns(&run.provenance),
    }
}

/// Compares the scored record with the ledger of its plan; a plan of format 1.0 has none, and
/// the ledger of this version is used.
fn judge_claims(run: &mut RunRecord) -> Result<(), JudgeError> {
    run.claims = if run.plan.claims.is_empty() {
        claims::evaluate(&ledger()?.claims, run)
    } else {
        claims::evaluate(&run.plan.claims, run)
    };
    Ok(())
}

/// Cells of older formats were excluded for disturbances that exclude none today: where no failed
/// gate spoils the cell as a whole, it is measured.
fn settle_outcomes(cells: &mut [CellResult]) {
    for cell in cells {
        let excluded = cell.outcome.outcome == OutcomeKind::Inconclusive && !cell.gates.is_empty();
        if excluded && cell.failed_gates(GateScope::Cell).next().is_none() {
            cell.outcome = Outcome::measured();
        }
    }
}

/// The timer floor of a run on the wall clock.
fn timer_floor_ns(provenance: &Provenance) -> Result<Option<f64>, &str> {
    let floor_ns = provenance.timer_floor_ns.get("p99").map(|&ns| ns as f64);
    if floor_ns.is_some() || provenance.clock == "virtual" {
        return Ok(floor_ns);
    }
    let reason = provenance.host.get(timer::SELF_TEST_KEY);
    Err(reason.map_or("the record has none", String::as_str))
}
