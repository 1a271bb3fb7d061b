//! From what a run left behind to a scored record: every cell through the gates, all cells into the
//! matrix. The same for a run that just ended and for one that died years ago.

use std::collections::BTreeMap;
use std::path::Path;

use gpubench_record::{
    CalibrationEntry, Cell, CellResult, FaultResult, MechanismRow, Outcome, OutcomeKind, Plan,
    ProbeResult, Proof, RunEvent, RunRecord, SampleRow, Skip, TenantResult,
};
use gpubench_reports::store::{Record, StoreError, read_events};

use crate::gate::{self, ClockKind, GateError, Host, Observed};
use crate::score;

/// A record that cannot be judged.
#[derive(Debug, thiserror::Error)]
pub enum JudgeError {
    /// It cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Its cells contradict its plan.
    #[error(transparent)]
    Gate(#[from] GateError),
    /// The scoring rules refuse it.
    #[error(transparent)]
    Score(#[from] score::ScoreError),
}

/// How one cell ended, from its event.
#[derive(Debug, Clone)]
struct Ended {
    tenants: Vec<TenantResult>,
    failure: Option<String>,
    foreign: Option<Vec<u32>>,
    throttle_reasons: Option<u64>,
    xids: Option<Vec<u32>>,
    cpu_steal_ratio: Option<f64>,
}

/// Reads the folder of a run and scores what is there. Writes nothing.
///
/// # Errors
/// When the record cannot be read, or contradicts itself.
pub fn judge(dir: &Path) -> Result<(RunRecord, Vec<String>), JudgeError> {
    let record = Record::open(dir)?;
    let mut run = record.run().clone();
    let mut warnings = record.warnings().to_vec();
    let events = read_events(dir)?.events;
    let ended = endings(&events);
    let mut finished = None;
    if let Some(RunEvent::Ended {
        complete, reason, ..
    }) = events.last()
    {
        finished = Some((*complete, reason.clone()));
    }
    let proofs: BTreeMap<String, Vec<Proof>> = run
        .mechanisms
        .iter()
        .map(|row| (row.variant.clone(), row.proof.clone()))
        .collect();
    let mut cells = Vec::new();
    for cell in &run.plan.cells {
        let Some(end) = ended.get(&cell.id) else {
            cells.extend(run.cells.iter().find(|known| known.id == cell.id).cloned());
            continue;
        };
        cells.push(one(&record, &run, cell, end, &proofs)?);
    }
    run.cells = cells;
    run.probes = probes(&events);
    run.fault_trials = trials(&record, &run.plan, &events)?;
    run.fault_trials_stopped = stopped(&events);
    outcomes(&mut run);
    score_again(&mut run, &[])?;
    match finished {
        Some((true, _)) => {
            run.complete = true;
            run.incomplete_reason = None;
            // A rebuilt record warns that it is not scored; this one is.
            warnings.retain(|text| !text.contains("nothing is scored"));
        }
        Some((false, reason)) => {
            run.complete = false;
            run.incomplete_reason = reason.or(run.incomplete_reason);
        }
        None => run.complete = false,
    }
    Ok((run, warnings))
}

/// Scores a record whose cells and trials are judged, with the fault trials of other records
/// counted too.
///
/// # Errors
/// When the scoring rules refuse it.
pub fn score_again(
    run: &mut RunRecord,
    earlier: &[Vec<FaultResult>],
) -> Result<(), score::ScoreError> {
    let peaks = share_of_peak(run);
    let scored = score::score(&score::ScoreInput {
        plan: &run.plan,
        cells: &run.cells,
        fault_trials: &run.fault_trials,
        earlier_trials: earlier,
        fault_stop: run.fault_trials_stopped.as_deref(),
        mechanisms: &run.mechanisms,
        aggressor_peaks: &peaks,
        calibration: &run.calibration,
        probes: &run.probes,
        timer_floor_ns: run
            .provenance
            .timer_floor_ns
            .get("p99")
            .map(|&ns| ns as f64),
    })?;
    run.scoring = score::VERSION.to_owned();
    run.matrix = scored.matrix;
    run.overall = scored.overall;
    run.probe_figures = scored.probe_figures;
    run.fault_tallies = scored.fault_tallies;
    run.service = scored.service;
    run.tenant_limits = scored.tenant_limits;
    Ok(())
}

/// Why no further fault trial was held, if the device was in no state for more.
fn stopped(events: &[RunEvent]) -> Option<String> {
    let found = |event: &RunEvent| match event {
        RunEvent::FaultTrialsStopped { id, reason } => Some(format!("{reason} (seen in {id})")),
        _ => None,
    };
    events.iter().find_map(found)
}

/// By aggressor, what it reaches alone over its resource's measured peak. One that was not held
/// against a peak is not in there, and its gate says so.
fn share_of_peak(run: &RunRecord) -> BTreeMap<String, f64> {
    let peaks = run.calibration.peaks.iter();
    peaks
        .filter(|(_, peak)| peak.peak_per_s > 0.0)
        .map(|(name, peak)| (name.clone(), peak.alone_per_s / peak.peak_per_s))
        .collect()
}

fn probes(events: &[RunEvent]) -> Vec<ProbeResult> {
    let found = |event: &RunEvent| match event {
        RunEvent::Probed { result } => Some(result.clone()),
        _ => None,
    };
    events.iter().filter_map(found).collect()
}

/// The fault trials that ended, judged. One that was never held has no result, and its row says so.
fn trials(
    record: &Record,
    plan: &Plan,
    events: &[RunEvent],
) -> Result<Vec<FaultResult>, JudgeError> {
    let mut results = Vec::new();
    for event in events {
        let RunEvent::FaultTrialEnded { id, seen } = event else {
            continue;
        };
        let mut planned = plan.fault_trials.iter();
        let Some(trial) = planned.find(|trial| trial.cell.id == *id) else {
            continue;
        };
        let mut rows = Vec::new();
        for victim in &seen.victims {
            rows.push(match record.samples(id, &victim.tenant) {
                Ok(rows) => rows,
                // One that logged nothing is judged by that.
                Err(StoreError::NoSamples { .. }) => Vec::new(),
                Err(error) => return Err(error.into()),
            });
        }
        results.push(gate::judge_trial(trial, seen, &rows));
    }
    Ok(results)
}

fn endings(events: &[RunEvent]) -> BTreeMap<String, Ended> {
    let mut out = BTreeMap::new();
    for event in events {
        if let RunEvent::CellEnded {
            id,
            tenants,
            failure,
            foreign_processes,
            throttle_reasons,
            xids,
            cpu_steal_ratio,
            ..
        } = event
        {
            let ended = Ended {
                tenants: tenants.clone(),
                failure: failure.clone(),
                foreign: foreign_processes.clone(),
                throttle_reasons: *throttle_reasons,
                xids: xids.clone(),
                cpu_steal_ratio: *cpu_steal_ratio,
            };
            out.insert(id.clone(), ended);
        }
    }
    out
}

fn one(
    record: &Record,
    run: &RunRecord,
    cell: &Cell,
    end: &Ended,
    proofs: &BTreeMap<String, Vec<Proof>>,
) -> Result<CellResult, JudgeError> {
    if end.tenants.len() != cell.tenants.len() {
        // It never started: somebody could not get ready.
        let reason = end
            .failure
            .clone()
            .unwrap_or_else(|| "it never started".to_owned());
        return Ok(not_started(run, cell, end, reason));
    }
    let mut rows: Vec<Vec<SampleRow>> = Vec::new();
    for tenant in &end.tenants {
        rows.push(match record.samples(&cell.id, &tenant.tenant) {
            Ok(rows) => rows,
            // A tenant that died before its log was made has none; its death says why.
            Err(StoreError::NoSamples { .. }) if tenant.death.is_some() => Vec::new(),
            Err(error) => return Err(error.into()),
        });
    }
    let tenants: Vec<gate::Tenant<'_>> = end
        .tenants
        .iter()
        .zip(&rows)
        .map(|(tenant, rows)| gate::Tenant {
            name: &tenant.tenant,
            role: tenant.role,
            workload: tenant.workload.as_deref(),
            rows,
            schedule_hash: tenant.schedule_hash.as_deref(),
            death: tenant.death.as_deref(),
            unlogged: tenant.unlogged,
            overloaded: tenant.overloaded,
            sched: tenant.sched.as_deref(),
        })
        .collect();
    let entry = |name: &String| run.calibration.entries.get(name);
    // A program of the user's may have followed no schedule, and was then offered nothing.
    let has_schedule = end
        .tenants
        .iter()
        .any(|tenant| tenant.schedule_hash.is_some());
    let none = Vec::new();
    let host = Host {
        foreign_pids: end.foreign.as_deref(),
        throttle_reasons: end.throttle_reasons,
        xids: end.xids.as_deref(),
        steal: end.cpu_steal_ratio,
        proofs: proofs.get(&cell.variant).unwrap_or(&none),
    };
    let clock = if run.provenance.clock == "virtual" {
        ClockKind::Virtual
    } else {
        ClockKind::Wall
    };
    Ok(gate::judge(&Observed {
        cell,
        durations: &run.plan.durations_of(cell),
        thresholds: &run.plan.thresholds,
        clock,
        tenants: &tenants,
        offered_per_s: entry(&cell.victim)
            .filter(|_| has_schedule)
            .map(|entry| offered_per_s(&run.plan, entry)),
        bursts: run.plan.bursts,
        slo_ns: run.plan.slo_ns,
        aggressor_peak_per_s: cell
            .aggressor
            .as_ref()
            .and_then(entry)
            .map(|entry| entry.native_rate_per_s),
        failure: end.failure.as_deref(),
        host,
    })?)
}

/// Rate of a victim's arrival schedule.
fn offered_per_s(plan: &Plan, entry: &CalibrationEntry) -> f64 {
    entry.native_rate_per_s * plan.load
}

fn not_started(run: &RunRecord, cell: &Cell, end: &Ended, reason: String) -> CellResult {
    let waived = |row: &&MechanismRow| {
        row.variant == cell.variant && row.outcome.outcome == OutcomeKind::Waived
    };
    // Whoever cannot run here has no cells that failed.
    let outcome = match run.mechanisms.iter().find(waived) {
        Some(row) => row.outcome.clone(),
        None => Outcome::failed(reason),
    };
    CellResult {
        id: cell.id.clone(),
        block: cell.block,
        group: cell.group.clone(),
        mechanism: cell.mechanism.clone(),
        variant: cell.variant.clone(),
        victim: cell.victim.clone(),
        condition: cell.condition,
        aggressor: cell.aggressor.clone(),
        dose: cell.dose,
        rates: BTreeMap::new(),
        requests: BTreeMap::new(),
        outcome,
        gates: Vec::new(),
        tenants: end.tenants.clone(),
    }
}

/// A mechanism whose proof does not hold was not in force, whatever its cells say; one that was
/// skipped is in the record with its reason.
fn outcomes(run: &mut RunRecord) {
    outcomes_of(&mut run.mechanisms, &run.plan.skips);
}

/// The same of the rows of mechanisms alone.
pub(super) fn outcomes_of(mechanisms: &mut Vec<MechanismRow>, skips: &[Skip]) {
    for row in mechanisms.iter_mut() {
        let broken = row.proof.iter().find(|proof| !proof.holds);
        if let Some(proof) = broken
            && row.outcome.outcome == OutcomeKind::Measured
        {
            row.outcome = Outcome::failed(format!("not in force: {}", proof.evidence));
        }
    }
    for skip in skips.iter().filter(|skip| skip.axis.is_none()) {
        let known = mechanisms
            .iter()
            .any(|row| row.variant == skip.mechanism || row.name == skip.mechanism);
        if !known {
            mechanisms.push(MechanismRow {
                name: skip
                    .mechanism
                    .split('[')
                    .next()
                    .unwrap_or_default()
                    .to_owned(),
                variant: skip.mechanism.clone(),
                outcome: Outcome::waived(skip.reason.clone()),
                remedy: skip.remedy.clone(),
                proof: Vec::new(),
            });
        }
    }
}
