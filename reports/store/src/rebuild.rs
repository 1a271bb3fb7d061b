//! Rebuilds the record of a run that left no `record.json` from its events and logs.
//!
//! Nothing is scored here: figures are absent and every cell states why. `judge` scores the record
//! from its plan, events and samples.

use std::collections::BTreeMap;
use std::path::Path;

use gpubench_record::Calibration;
use gpubench_record::run::ProfileRef;
use gpubench_record::{
    Cell, CellFigures, CellResult, DeviceIdentity, FormatVersion, Interruption, Left, MechanismRow,
    Outcome, Plan, Proof, Provenance, RunEvent, RunRecord, SpentTime, TenantResult, counted,
};

use super::error::StoreError;
use super::sample_file::SampleLog;
use super::{Events, log_path};

/// Value of `scoring` in an unscored record.
pub const UNSCORED: &str = "none";

/// Builds the record and adds to the warnings of `events`.
pub(super) fn rebuild(
    dir: &Path,
    events: Events,
    being_written: bool,
) -> Result<(RunRecord, Vec<String>), StoreError> {
    let mut warnings = events.warnings;
    let mut events = events.events.into_iter();
    let Some(RunEvent::Began { format_version, plan, device, provenance, .. }) = events.next()
    else {
        return Err(StoreError::NoRecord { dir: dir.to_path_buf() });
    };
    let mut run = unscored(format_version, *plan, *device, *provenance);
    let mut end = None;
    let mut open_cell = None;
    for event in events {
        match event {
            // `judge` reads trials, and the speed of the device, from the events.
            RunEvent::Began { .. }
            | RunEvent::TenantStarted { .. }
            | RunEvent::TenantEnded { .. }
            | RunEvent::FaultTrialBegan { .. }
            | RunEvent::FaultTrialEnded { .. }
            | RunEvent::FaultTrialsStopped { .. }
            | RunEvent::Heated { .. }
            | RunEvent::KeptWarm { .. }
            | RunEvent::SpeedChecked { .. } => {}
            RunEvent::Calibrated { calibration, device } => {
                run.calibration = calibration;
                if let Some(device) = device {
                    run.device = *device;
                }
            }
            RunEvent::Mechanism { row } => upsert(&mut run.mechanisms, row),
            RunEvent::TenantSeen { variant, tenant, process } => {
                let mut rows = run.mechanisms.iter_mut();
                if let Some(row) = rows.find(|row| row.variant == variant) {
                    row.tenants.entry(tenant).or_insert(process);
                }
            }
            RunEvent::Proved { variant, proof, .. } => {
                proved(&mut run, &mut warnings, &variant, proof);
            }
            RunEvent::CellBegan { id } => open_cell = Some(id),
            RunEvent::CellEnded { id, tenants, failure, .. } => {
                open_cell = None;
                end_cell(&mut run, &mut warnings, &id, tenants, failure);
            }
            RunEvent::ToppedUp { top_up, cells } => run.plan.extend(top_up, cells),
            RunEvent::Resumed { interruption, left } => {
                cut_cell(dir, &mut run, &mut warnings, open_cell.take())?;
                resume(&mut run, *interruption, &left);
                end = None;
            }
            RunEvent::TimeSpent { time } => add_time(&mut run.time, time),
            RunEvent::Probed { result } => run.probes.push(result),
            RunEvent::Warning { text } => warnings.push(text),
            RunEvent::Ended { reason, at, .. } => {
                run.provenance.ended_at = Some(at);
                end = Some(reason);
            }
        }
    }
    cut_cell(dir, &mut run, &mut warnings, open_cell)?;
    add_mechanisms_never_set_up(&mut run);
    run.incomplete_reason = Some(why_incomplete(&run, end, being_written));
    Ok((run, warnings))
}

/// Adds a proof to the row of its variant, unless the row has an equal one.
fn proved(run: &mut RunRecord, warnings: &mut Vec<String>, variant: &str, proof: Proof) {
    match run.mechanisms.iter_mut().find(|row| row.variant == variant) {
        Some(row) if row.proof.iter().any(|known| known.agrees_with(&proof)) => {}
        Some(row) => row.proof.push(proof),
        None => warnings.push(format!("an event has a proof of {variant}, which was never set up")),
    }
}

/// The time of a further start of the run.
fn add_time(sum: &mut Vec<SpentTime>, time: Vec<SpentTime>) {
    for more in time {
        match sum.iter_mut().find(|known| known.part == more.part) {
            Some(known) => known.ns += more.ns,
            None => sum.push(more),
        }
    }
    sum.sort_by_key(|one| one.part);
}

fn cut_cell(
    dir: &Path,
    run: &mut RunRecord,
    warnings: &mut Vec<String>,
    id: Option<String>,
) -> Result<(), StoreError> {
    if let Some(cell) = id.and_then(|id| find_cell(&run.plan, &id).cloned()) {
        let tenants = tenants_from_logs(dir, &cell, warnings)?;
        let outcome = Outcome::inconclusive("the run ended during this cell");
        run.cells.push(result(&cell, tenants, outcome));
    }
    Ok(())
}

/// The run goes on: what was measured in blocks that were cut does not count.
fn resume(run: &mut RunRecord, interruption: Interruption, left: &Left) {
    run.plan.resume(left);
    let counts = |one: &CellResult| find_cell(&run.plan, &one.cell.id).is_some();
    let (counting, mut cut): (Vec<_>, Vec<_>) =
        std::mem::take(&mut run.cells).into_iter().partition(counts);
    run.cells = counting;
    for one in &mut cut {
        one.outcome = Outcome::inconclusive(MEASURED_AGAIN);
    }
    run.superseded.extend(cut);
    run.interruptions.push(interruption);
    run.provenance.ended_at = None;
}

/// Why a cell of a cut block does not count.
const MEASURED_AGAIN: &str =
    "an interruption of the run cut its block, which was measured again as a whole";

/// The record of a run without events.
fn unscored(
    format_version: FormatVersion,
    plan: Plan,
    device: DeviceIdentity,
    provenance: Provenance,
) -> RunRecord {
    RunRecord {
        format_version,
        scoring: UNSCORED.to_owned(),
        complete: false,
        incomplete_reason: None,
        device,
        provenance,
        profile: ProfileRef { name: plan.profile.clone(), hash: plan.profile_hash.clone() },
        calibration: Calibration::default(),
        seed: plan.seed,
        plan,
        mechanisms: Vec::new(),
        matrix: Vec::new(),
        overall: Vec::new(),
        cells: Vec::new(),
        superseded: Vec::new(),
        interruptions: Vec::new(),
        probes: Vec::new(),
        service: Vec::new(),
        transients: Vec::new(),
        energy: Vec::new(),
        attribution: Vec::new(),
        tenant_limits: Vec::new(),
        dose_curves: Vec::new(),
        probe_figures: Vec::new(),
        fault_trials: Vec::new(),
        fault_trials_stopped: None,
        fault_tallies: Vec::new(),
        records_left_out: Vec::new(),
        operator: Vec::new(),
        device_speed: None,
        time: Vec::new(),
        claims: Vec::new(),
        problems: Vec::new(),
        notices: Vec::new(),
    }
}

fn why_incomplete(run: &RunRecord, end: Option<Option<String>>, being_written: bool) -> String {
    let ran = format!("{} of {} ran", run.cells.len(), counted(run.plan.cells.len(), "cell"));
    match end {
        _ if being_written => format!("the run has not ended; {ran}"),
        None => format!("the run crashed; {ran}"),
        Some(None) => format!("the run ended before it was scored; {ran}"),
        Some(Some(reason)) => format!("{reason}; {ran}"),
    }
}

/// Replaces an earlier row of the same variant and keeps its other proofs.
fn upsert(rows: &mut Vec<MechanismRow>, mut row: MechanismRow) {
    let Some(known) = rows.iter_mut().find(|known| known.variant == row.variant) else {
        rows.push(row);
        return;
    };
    let mut proof = std::mem::take(&mut known.proof);
    row.proof.retain(|new| !proof.contains(new));
    proof.append(&mut row.proof);
    let tenants = std::mem::take(&mut known.tenants);
    *known = MechanismRow { proof, tenants, ..row };
}

fn add_mechanisms_never_set_up(run: &mut RunRecord) {
    for planned in &run.plan.mechanisms {
        if !run.mechanisms.iter().any(|row| row.variant == planned.variant) {
            run.mechanisms.push(MechanismRow {
                name: planned.name.clone(),
                variant: planned.variant.clone(),
                outcome: Outcome::inconclusive("the run ended before it was set up"),
                remedy: None,
                proof: Vec::new(),
                tenants: BTreeMap::new(),
            });
        }
    }
}

fn end_cell(
    run: &mut RunRecord,
    warnings: &mut Vec<String>,
    id: &str,
    tenants: Vec<TenantResult>,
    failure: Option<String>,
) {
    let Some(cell) = find_cell(&run.plan, id) else {
        warnings.push(format!("an event names cell {id}, which is not in the plan"));
        return;
    };
    let outcome = match failure {
        Some(reason) => Outcome::failed(reason),
        None => Outcome::inconclusive("not scored: the run left no record.json"),
    };
    let result = result(cell, tenants, outcome);
    run.cells.push(result);
}

fn find_cell<'a>(plan: &'a Plan, id: &str) -> Option<&'a Cell> {
    plan.cells.iter().find(|cell| cell.id == id)
}

fn result(cell: &Cell, tenant_results: Vec<TenantResult>, outcome: Outcome) -> CellResult {
    CellResult {
        lone_ns: Vec::new(),
        meters: Vec::new(),
        cell: cell.clone(),
        figures: CellFigures::default(),
        requests: BTreeMap::new(),
        outcome,
        gates: Vec::new(),
        tenant_results,
    }
}

fn tenants_from_logs(
    dir: &Path,
    cell: &Cell,
    warnings: &mut Vec<String>,
) -> Result<Vec<TenantResult>, StoreError> {
    let mut tenants = Vec::new();
    for tenant in &cell.tenants {
        let path = log_path(dir, &cell.id, &tenant.tenant)?;
        let mut rows = 0;
        if path.exists() {
            match SampleLog::open(&path) {
                Ok(log) => rows = log.committed(),
                Err(error) => warnings.push(error.to_string()),
            }
        }
        tenants.push(TenantResult { rows, ..TenantResult::ready(tenant, None) });
    }
    Ok(tenants)
}

#[cfg(test)]
mod tests {
    use gpubench_record::{SpentTime, TimePart};

    use super::add_time;

    #[test]
    fn the_times_of_two_starts_add_up() {
        let of = |part, ns| SpentTime { part, ns };
        let mut sum = Vec::new();
        add_time(&mut sum, vec![of(TimePart::Windows, 5), of(TimePart::Contexts, 1)]);
        add_time(&mut sum, vec![of(TimePart::WarmUp, 3), of(TimePart::Windows, 2)]);
        let expected = [(TimePart::Windows, 7), (TimePart::WarmUp, 3), (TimePart::Contexts, 1)];
        assert_eq!(sum, expected.map(|(part, ns)| of(part, ns)));
    }
}
