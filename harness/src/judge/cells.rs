//! Judges one cell of a run from its event and its samples.

use std::collections::BTreeMap;

use gpubench_record::{
    CalibrationEntry, Cell, CellFigures, CellResult, MechanismRow, Outcome, OutcomeKind, Plan,
    Proof, RunEvent, RunRecord, SampleRow, Surroundings, TenantResult,
};
use gpubench_reports::store::{Record, StoreError};

use super::device_speed;
use super::record::JudgeError;
use crate::gate::{
    self, CellObservation, CellXid, ClockKind, Host, Proofs, XidReading, assign_xids,
};

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
    let mut xids = device_speed::starts(events).flat_map(xids);
    let brackets = device_speed::brackets(events);
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

/// The proofs of a record.
#[derive(Debug, Clone, Default)]
pub(super) struct Evidence {
    of_cells: BTreeMap<String, Vec<Proof>>,
    /// By variant: all that a record up to format 2.1 has.
    pooled: BTreeMap<String, Vec<Proof>>,
}

impl Evidence {
    /// The proofs in the events and the mechanism rows of a record.
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
pub(super) fn judged(
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
                answering_codes: facts.map_or(&[], |facts| &facts.answering_codes),
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
            .map(|entry| offered_per_s(&run.plan, entry)),
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

/// Rate of a victim's arrival schedule.
fn offered_per_s(plan: &Plan, entry: &CalibrationEntry) -> f64 {
    entry.native_rate_per_s * plan.load
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
        cell: cell.clone(),
        figures: CellFigures::default(),
        requests: BTreeMap::new(),
        outcome,
        gates: Vec::new(),
        tenant_results: end.tenants.clone(),
    }
}
