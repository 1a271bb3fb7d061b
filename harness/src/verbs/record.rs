//! From the folder of a run to a scored record: each cell is judged by the gates, and all cells are
//! scored. A run that just ended and a run that crashed take the same path.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

use gpubench_judge::figures::CellsError;
use gpubench_judge::gate::{
    CellObservation, CellXid, ClockKind, GateError, Host, Proofs, XidReading, assign_xids,
};
use gpubench_judge::{claims, gate, score};
use gpubench_plan::{PlanError, ledger};
use gpubench_record::{
    Cell, CellFigures, CellResult, FaultResult, GateScope, MechanismRow, Outcome, OutcomeKind,
    Plan, ProbeResult, Proof, RunEvent, RunRecord, SampleRow, Surroundings, TenantResult,
};
use gpubench_store::{Record, StoreError, read_events};

use super::{capabilities, device_session};

/// A record that cannot be judged.
#[derive(Debug, thiserror::Error)]
pub enum JudgeError {
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The tenants of a cell are not those of the plan.
    #[error(transparent)]
    Gate(#[from] GateError),
    #[error(transparent)]
    Score(#[from] CellsError),
    /// The claims ledger of this build cannot be read.
    #[error(transparent)]
    Ledger(#[from] PlanError),
}

/// Reads the folder of a run and scores it; also returns the warnings. Writes nothing.
pub(super) fn score_folder(dir: &Path) -> Result<(RunRecord, Vec<String>), JudgeError> {
    score_opened(&Record::open(dir)?)
}

/// Scores an opened record; also returns its warnings. Writes nothing.
/// Fails as [`score_folder`].
pub(super) fn score_opened(record: &Record) -> Result<(RunRecord, Vec<String>), JudgeError> {
    Ok((scored(judged(record, record.run().clone())?)?, record.warnings().to_vec()))
}

/// The record that events and samples give, whatever its `record.json` says.
pub(super) fn score_events(record: &Record) -> Result<RunRecord, JudgeError> {
    scored(judged(record, record.from_events()?)?)
}

fn scored(Judged { mut run, ended }: Judged) -> Result<RunRecord, JudgeError> {
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
    Ok(run)
}

/// A record whose cells and trials are judged and not scored.
pub(super) struct Judged {
    pub run: RunRecord,
    /// Whether its last event says that it is complete, and why it is not; `None` without one.
    ended: Option<(bool, Option<String>)>,
}

/// Judges the cells and trials of a record by its events and samples.
pub(super) fn judged(record: &Record, mut run: RunRecord) -> Result<Judged, JudgeError> {
    let events = read_events(record.dir())?.events;
    let endings = endings(&events);
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
        judged.push(judged_cells(record, &run, cell, end, &evidence)?);
    }
    run.cells = judged;
    run.probes = probes(&events);
    run.device_speed = device_session::of_run(&run.plan, &events);
    run.fault_trials = judged_trials(record, &run.plan, &events)?;
    run.fault_trials_stopped = stopped(&events);
    capabilities::settle(&mut run.mechanisms, &run.plan.skips);
    Ok(Judged { run, ended })
}

/// Scores a record with judged cells and trials, and counts fault trials of other records with its
/// own.
pub fn rescore(run: &mut RunRecord, earlier: &[Vec<FaultResult>]) -> Result<(), JudgeError> {
    settle_outcomes(&mut run.cells);
    // A plan of format 1.0 has neither claims nor published words; those of this version count.
    if run.plan.claims.is_empty() && run.plan.claimed.is_empty() {
        let names: Vec<&str> = run.mechanisms.iter().map(|row| row.name.as_str()).collect();
        run.plan.claimed = ledger()?.words_of(&names);
    }
    let scored = score::score(&input(run, earlier))?;
    run.scoring = score::VERSION.to_owned();
    run.matrix = scored.matrix;
    run.overall = scored.overall;
    run.probe_figures = scored.probe_figures;
    run.fault_tallies = scored.fault_tallies;
    run.service = scored.service;
    run.transients = scored.transients;
    run.energy = scored.energy;
    run.attribution = scored.attribution;
    run.tenant_limits = scored.tenant_limits;
    run.dose_curves = scored.dose_curves;
    run.operator = scored.operator;
    run.notices = Vec::from_iter(run.plan.thresholds.notice());
    // A plan of format 1.0 has no ledger; that of this version is used.
    run.claims = if run.plan.claims.is_empty() {
        claims::evaluate(&ledger()?.claims, run)
    } else {
        claims::evaluate(&run.plan.claims, run)
    };
    Ok(())
}

/// The record as reports show it: that of a profile that decides nothing has no level, no word and
/// no verdict on a claim.
pub fn shown(run: &RunRecord) -> Cow<'_, RunRecord> {
    if run.plan.decides {
        return Cow::Borrowed(run);
    }
    let mut run = run.clone();
    without_verdicts(&mut run);
    Cow::Owned(run)
}

/// The same in place.
pub fn without_verdicts(run: &mut RunRecord) {
    if run.plan.decides {
        return;
    }
    let reference = run.plan.reference.clone();
    for row in run.matrix.iter_mut().filter(|row| row.variant != reference) {
        (row.level, row.word) = (None, None);
    }
    for row in &mut run.overall {
        (row.level, row.weakest_axis) = (None, None);
    }
    run.claims.clear();
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
    }
}

/// Cells of older formats were excluded for disturbances that exclude none today: where no failed
/// gate spoils the cell as a whole, it is measured.
pub fn settle_outcomes(cells: &mut [CellResult]) {
    for cell in cells {
        let excluded = cell.outcome.outcome == OutcomeKind::Inconclusive && !cell.gates.is_empty();
        if excluded && cell.failed_gates(GateScope::Cell).next().is_none() {
            cell.outcome = Outcome::measured();
        }
    }
}

// Judges one cell of a run from its event and its samples.

/// The end of a cell, from its event.
#[derive(Debug, Clone)]
pub(super) struct Ended {
    tenants: Vec<TenantResult>,
    failure: Option<String>,
    other_pids: Option<Vec<u32>>,
    throttle_reasons: Option<u64>,
    xids: Option<Vec<CellXid>>,
    cpu_steal_ratio: Option<f64>,
    surroundings: Surroundings,
    speed_ln: Option<[f64; 2]>,
}

impl Ended {
    /// Host and device while the cell ran, with its proofs.
    fn host<'a>(&'a self, proofs: Proofs<'a>) -> Host<'a> {
        Host {
            other_pids: self.other_pids.as_deref(),
            throttle_reasons: self.throttle_reasons,
            xids: self.xids.as_deref(),
            ecc: self.surroundings.ecc,
            other_clocks: self.surroundings.other_clocks.as_deref(),
            unobserved: &self.surroundings.unobserved,
            sm_clock_khz: self.surroundings.sm_clock_khz,
            event: self.surroundings.event.as_ref(),
            meters: &self.surroundings.meters,
            steal: self.cpu_steal_ratio,
            speed_ln: self.speed_ln,
            proofs,
        }
    }
}

/// The end of each cell, by the id of the cell.
pub(super) fn endings(events: &[RunEvent]) -> BTreeMap<String, Ended> {
    let mut out = BTreeMap::new();
    // The clock of each start begins anew.
    let mut xids = device_session::starts(events).flat_map(xids);
    let brackets = device_session::brackets(events);
    for event in events {
        if let RunEvent::CellEnded {
            id,
            tenants,
            failure,
            other_processes,
            throttle_reasons,
            cpu_steal_ratio,
            surroundings,
            ..
        } = event
        {
            let ended = Ended {
                tenants: tenants.clone(),
                failure: failure.clone(),
                other_pids: other_processes.clone(),
                throttle_reasons: *throttle_reasons,
                xids: xids.next().flatten(),
                cpu_steal_ratio: *cpu_steal_ratio,
                surroundings: (**surroundings).clone(),
                speed_ln: brackets.get(id.as_str()).copied(),
            };
            out.insert(id.clone(), ended);
        }
    }
    out
}

#[derive(Debug, Clone, Default)]
pub(super) struct Evidence {
    of_cells: BTreeMap<String, Vec<Proof>>,
    /// By variant: all that a record up to format 2.1 has.
    pooled: BTreeMap<String, Vec<Proof>>,
}

impl Evidence {
    pub(super) fn of_record(run: &RunRecord, events: &[RunEvent]) -> Self {
        let mut of_cells: BTreeMap<String, Vec<Proof>> = BTreeMap::new();
        for event in events {
            if let RunEvent::Proved { cell: Some(cell), proof, .. } = event {
                of_cells.entry(cell.clone()).or_default().push(proof.clone());
            }
        }
        let rows = run.mechanisms.iter();
        Self {
            of_cells,
            pooled: rows.map(|row| (row.variant.clone(), row.proof.clone())).collect(),
        }
    }

    fn of<'a>(&'a self, run: &'a RunRecord, cell: &Cell) -> Proofs<'a> {
        let known = |all: Option<&'a Vec<Proof>>| all.map_or(&[][..], Vec::as_slice);
        match &run.plan.required_proofs {
            None => Proofs::Pooled(known(self.pooled.get(&cell.variant))),
            Some(required) => Proofs::OfCell {
                taken: known(self.of_cells.get(&cell.id)),
                required: required.get(&cell.variant).map(Vec::as_slice),
            },
        }
    }
}

/// The Xids of each cell that ended, in the order of the events.
fn xids(events: &[RunEvent]) -> Vec<Option<Vec<CellXid>>> {
    let mut readings = Vec::new();
    for event in events {
        if let RunEvent::CellEnded { id, xids, xid_lines, surroundings, .. } = event {
            readings.push(XidReading {
                cell: id,
                span: surroundings.span,
                numbers: xids.as_deref(),
                lines: xid_lines.as_deref().unwrap_or_default(),
            });
        }
    }
    assign_xids(&readings)
}

/// The cell with its figures, its gates and its outcome.
pub(super) fn judged_cells(
    record: &Record,
    run: &RunRecord,
    cell: &Cell,
    end: &Ended,
    evidence: &Evidence,
) -> Result<CellResult, JudgeError> {
    if end.tenants.len() != cell.tenants.len() {
        // The cell never started, because a tenant did not get ready.
        let reason = end.failure.clone().unwrap_or_else(|| "it never started".to_owned());
        return Ok(not_started(run, cell, end, reason));
    }
    let mut rows: Vec<Vec<SampleRow>> = Vec::new();
    for tenant in &end.tenants {
        rows.push(match record.samples(&cell.id, &tenant.planned.tenant) {
            Ok(rows) => rows,
            // A tenant that died before it made its log has no samples. Its death has the reason.
            Err(StoreError::NoSamples { .. }) if tenant.death.is_some() => Vec::new(),
            Err(error) => return Err(error.into()),
        });
    }
    let tenants: Vec<gate::Tenant<'_>> = end
        .tenants
        .iter()
        .zip(&rows)
        .map(|(result, rows)| {
            let workload = result.planned.workload.as_ref();
            let facts = workload.and_then(|name| run.plan.workloads.get(name));
            gate::Tenant {
                result,
                rows,
                answering_codes: facts.map_or(&[], |facts| facts.answering_codes.as_slice()),
            }
        })
        .collect();
    let entry = |name: &String| run.calibration.entries.get(name);
    // The user's program may follow no schedule. Then no rate was offered.
    let has_schedule = end.tenants.iter().any(|tenant| tenant.schedule_hash.is_some());
    let clock =
        if run.provenance.clock == "virtual" { ClockKind::Virtual } else { ClockKind::Wall };
    Ok(gate::judge(&CellObservation {
        cell,
        durations: &run.plan.durations_of(cell),
        thresholds: &run.plan.thresholds,
        clock,
        tenants: &tenants,
        offered_per_s: entry(&cell.victim)
            .filter(|_| has_schedule)
            .map(|entry| entry.native_rate_per_s * run.plan.load_of(cell)),
        bursts: run.plan.bursts,
        slo_ns: run.plan.slo_ns,
        aggressor_peak_per_s: cell
            .aggressor
            .as_ref()
            .and_then(entry)
            .map(|entry| entry.native_rate_per_s),
        calibrated_service_ns: entry(&cell.victim).map(|entry| entry.service_ns),
        is_user_victim: run.plan.user_victim.is_some(),
        failure: end.failure.as_deref(),
        host: end.host(evidence.of(run, cell)),
    })?)
}

fn not_started(run: &RunRecord, cell: &Cell, end: &Ended, reason: String) -> CellResult {
    let waived = |row: &&MechanismRow| {
        row.variant == cell.variant && row.outcome.outcome == OutcomeKind::Waived
    };
    // A mechanism that cannot run here has no failed cells.
    let outcome = match run.mechanisms.iter().find(waived) {
        Some(row) => row.outcome.clone(),
        None => Outcome::failed(reason),
    };
    CellResult {
        lone_ns: Vec::new(),
        meters: Vec::new(),
        cell: cell.clone(),
        figures: CellFigures::default(),
        requests: BTreeMap::new(),
        outcome,
        gates: Vec::new(),
        tenant_results: end.tenants.clone(),
    }
}

// The fault trials and probes of a run, from its events and its samples.

/// Why the fault trials stopped early; `None` where they did not.
pub(super) fn stopped(events: &[RunEvent]) -> Option<String> {
    let found = |event: &RunEvent| match event {
        RunEvent::FaultTrialsStopped { id, reason } => Some(format!("{reason} (in trial {id})")),
        _ => None,
    };
    events.iter().find_map(found)
}

pub(super) fn probes(events: &[RunEvent]) -> Vec<ProbeResult> {
    let found = |event: &RunEvent| match event {
        RunEvent::Probed { result } => Some(result.clone()),
        _ => None,
    };
    events.iter().filter_map(found).collect()
}

/// The judged fault trials. A trial that did not run has no result; the row of its fault names the
/// number of missing trials.
pub(super) fn judged_trials(
    record: &Record,
    plan: &Plan,
    events: &[RunEvent],
) -> Result<Vec<FaultResult>, JudgeError> {
    let mut results = Vec::new();
    for event in events {
        let RunEvent::FaultTrialEnded { id, observed } = event else {
            continue;
        };
        let mut planned = plan.fault_trials.iter();
        let Some(trial) = planned.find(|trial| trial.id == *id) else {
            continue;
        };
        let mut rows: Vec<Vec<SampleRow>> = Vec::new();
        for victim in &observed.victims {
            rows.push(match record.samples(id, &victim.planned.tenant) {
                Ok(rows) => rows,
                // A victim without samples is judged as one that completed nothing.
                Err(StoreError::NoSamples { .. }) => Vec::new(),
                Err(error) => return Err(error.into()),
            });
        }
        // Rows that a torn file lost are no evidence of harm: the trial counts as missing.
        let mut victims = observed.victims.iter().zip(&rows);
        if victims.all(|(victim, rows)| rows.len() as u64 >= victim.rows || !record.is_torn()) {
            results.push(gate::judge_trial(trial, observed, &rows));
        }
    }
    Ok(results)
}
