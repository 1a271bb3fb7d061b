//! One cell: prepares every tenant, starts them at one instant, waits for all of them, and writes
//! what happened.

mod load;
mod proofs;
mod surroundings;

use std::path::Path;
use std::time::Duration;

use gpubench_record::{
    Calibration, Cell, CellSpan, FromTenant, Outcome, RefusalKind, Role, RunEvent, TenantResult,
    ToTenant, Unobserved,
};
use gpubench_reports::store::log_path;
use tokio::task::JoinSet;

use super::cores::Placement;
use super::ledger::MechanismLedger;
use super::observe;
use super::recorder::Recorder;
use super::sampler::{SAMPLER, Sampled, Sampler, Times};
use super::snapshot::Snapshot;
use super::tenant_set::{TenantSet, participants_of};
use super::xids::XidMonitor;
use super::{RunError, RunHandles};
use crate::mechanism;
use crate::plan::phase_ns;
use crate::tenant::TenantError;

/// Longest wait for a tenant to prepare.
const PREPARE: Duration = Duration::from_secs(60);
/// Time beyond the length of a cell on the wall clock, and the whole limit in virtual time.
const SLACK_WALL: Duration = Duration::from_secs(30);
const LIMIT_VIRTUAL: Duration = Duration::from_secs(180);

/// Runs one cell. A failure of the cell is its result; an error ends the run.
pub async fn run(
    tenants: &mut TenantSet,
    cores: &Placement,
    ledger: &mut MechanismLedger,
    xids: &mut XidMonitor,
    calibration: &Calibration,
    cell: &Cell,
) -> Result<Option<String>, RunError> {
    let victim_waived = calibration.waived(&cell.victim, cell.aggressor.as_deref());
    if victim_waived.is_some() {
        // The cell has no result; the row gives the reason.
        return Ok(None);
    }
    let handles = tenants.handles().clone();
    let recorder = &handles.recorder;
    let id = cell.id.clone();
    recorder.event(&RunEvent::CellBegan { id: id.clone() })?;
    let mut results = Vec::new();
    let failure = match prepare(tenants, cores, calibration, cell, &mut results).await {
        Ok(()) => None,
        // A full disk fails every later cell too.
        Err(RunError::Tenant(error)) if error.kind() == Some(RefusalKind::NoSpace) => {
            return Err(RunError::DiskFull);
        }
        // A tenant that cannot get ready fails this cell; the next cell tries a fresh one.
        Err(RunError::Tenant(error)) => {
            record_refused_client(ledger, cell, &error)?;
            Some(error.to_string())
        }
        Err(other) => return Err(other),
    };
    let (sampled, t0_ns, failure) = match failure {
        Some(failure) => (Sampled::default(), 0, Some(failure)),
        None => measure(tenants, cell, &mut results).await?,
    };
    let mut surroundings = surroundings::observe(tenants, xids, &sampled).await?;
    let snapshot = match sampled.snapshot {
        Some(snapshot) => snapshot,
        // It comes too late for a proof, but a missing daemon explains a failure, and its servers
        // own Xids.
        None => Snapshot { t_ns: None, ..observe::snapshot(tenants).await? },
    };
    let observation = observe::observation(tenants, cell.condition, &snapshot);
    let is_whole = results.iter().all(|tenant| tenant.death.is_none());
    if failure.is_none() && is_whole {
        proofs::prove(&handles, ledger, cell, t0_ns, &observation)?;
    } else if let Some(error) = snapshot.serving.error()
        && tenants.config().mechanism.is_some()
    {
        let outcome = Outcome::failed(format!("not in force: {error}"));
        let remedy = Some("run again: a new daemon is started");
        ledger.end(&cell.mechanism, &cell.variant, &outcome, remedy)?;
    }
    recorder.telemetry(&sampled.rows)?;
    if let Some(text) = sampled.failure {
        recorder.warning(format!("{id}: {text}"))?;
    }
    let xids = xids.drain(&id, snapshot.serving.services()).await?;
    surroundings.note(Unobserved::Xids, xids.failure);
    surroundings.note(Unobserved::Processes, snapshot.on_device.failure);
    recorder.event(&RunEvent::CellEnded {
        id,
        tenants: results,
        failure: failure.clone(),
        other_processes: observation.other_processes(),
        throttle_reasons: sampled.throttle_reasons,
        xids: xids.numbers,
        xid_lines: xids.lines,
        cpu_steal_ratio: sampled.cpu_steal_ratio,
        surroundings: Box::new(surroundings),
    })?;
    Ok(failure)
}

/// Writes a cell that has no tenants, and returns the reason.
pub fn write_not_run(recorder: &Recorder, cell: &Cell, reason: String) -> Result<String, RunError> {
    let id = cell.id.clone();
    recorder.event(&RunEvent::CellBegan { id: id.clone() })?;
    recorder.event(&RunEvent::CellEnded {
        id,
        tenants: Vec::new(),
        failure: Some(reason.clone()),
        other_processes: None,
        throttle_reasons: None,
        xids: None,
        xid_lines: None,
        cpu_steal_ratio: None,
        surroundings: Box::default(),
    })?;
    Ok(reason)
}

/// Writes that the mechanism admits no further tenant, if the driver's code says so.
fn record_refused_client(
    ledger: &mut MechanismLedger,
    cell: &Cell,
    error: &TenantError,
) -> Result<(), RunError> {
    let TenantError::Refused { kind: RefusalKind::Driver { code }, .. } = error else {
        return Ok(());
    };
    match mechanism::refusal::of_code(*code) {
        Some((why, remedy)) if !cell.condition.is_native() => {
            let outcome = Outcome::waived(format!("{why}: {error}"));
            ledger.end(&cell.mechanism, &cell.variant, &outcome, Some(remedy))
        }
        _ => Ok(()),
    }
}

/// Arranges contexts and prepares every tenant of the cell, one after the other.
async fn prepare(
    tenants: &mut TenantSet,
    cores: &Placement,
    calibration: &Calibration,
    cell: &Cell,
    results: &mut Vec<TenantResult>,
) -> Result<(), RunError> {
    tenants.arrange(cell.condition).await?;
    let setup = tenants.handles().setup.clone();
    for (slot, tenant) in cell.tenants.iter().enumerate() {
        let log = log_path(&setup.out, &cell.id, &tenant.tenant)?;
        make_folder(&log)?;
        let entry = tenant.workload.as_ref().and_then(|name| calibration.entries.get(name));
        let load = load::load(&setup.plan, calibration, cell, slot);
        let rate = entry.map_or(0.0, |entry| entry.native_rate_per_s);
        let message = ToTenant::Prepare {
            id: cell.id.clone(),
            workload: entry.map(|entry| entry.spec.clone()),
            capacity_rows: load::capacity(&setup.plan, &load, rate),
            load,
            log: log.display().to_string(),
            cpu: cores.issuer(slot),
            reaper_cpu: cores.reaper(slot),
        };
        match tenants.ask(slot, &message, "getting ready", PREPARE).await? {
            FromTenant::Ready { schedule_hash, identity } => results
                .push(TenantResult { identity, ..TenantResult::ready(tenant, schedule_hash) }),
            other => return Err(tenants.unexpected(slot, &other)),
        }
    }
    Ok(())
}

/// Starts every tenant and waits for all of them. Returns what was sampled, the start of the cell,
/// and why it failed, if it did.
async fn measure(
    tenants: &mut TenantSet,
    cell: &Cell,
    results: &mut [TenantResult],
) -> Result<(Sampled, u64, Option<String>), RunError> {
    let handles = tenants.handles().clone();
    let setup = &handles.setup;
    let slots: Vec<usize> = (0..cell.tenants.len()).collect();
    let scope = tenants.snapshot_scope();
    let members = tenants.take_slots(&slots);
    let participants = members.iter().map(|(_, tenant)| tenant.participants());
    let ids = participants.flat_map(|ids| [ids.issuer, ids.reaper]);
    handles.expect(ids.chain([SAMPLER]).collect()).await?;
    let t0_ns = handles.start_ns().await? + phase_ns(&setup.plan, cell);
    let times = Times::of_cell(&setup.plan, cell, t0_ns);
    let sampler = Sampler::start(&setup.clock, &setup.nvml, &cell.id, times, scope)?;
    let limit = if setup.clock.is_virtual() {
        LIMIT_VIRTUAL
    } else {
        Duration::from_nanos(times.length_ns) + SLACK_WALL
    };
    let mut waits = JoinSet::new();
    for (slot, mut tenant) in members {
        let go = ToTenant::Go { t0_ns: times.t0_ns };
        let sent = tenant.send(&go).await;
        let own = handles.waits.clone();
        waits.spawn(async move {
            let answer = match sent {
                // Ends as soon as the user stops the run. The pre-kill hook runs before a client of
                // an MPS server is killed.
                Ok(()) => own.reply(&mut tenant, "running a cell", limit).await,
                Err(error) => Some(Err(error)),
            };
            (slot, tenant, answer)
        });
    }
    let mut failures = Vec::new();
    let mut is_abandoned = false;
    while let Some(done) = waits.join_next().await {
        // A wait that panicked has dropped its tenant, which kills the process.
        let Ok((slot, tenant, Some(answer))) = done else {
            is_abandoned = true;
            failures.push("interrupted".to_owned());
            handles.reap().await?;
            continue;
        };
        let result = &mut results[slot];
        let error = tenants.record_answer(slot, tenant, answer, result).await?;
        let error = error.filter(|error| is_failure(error, result.planned.role));
        failures.extend(error.map(|error| error.to_string()));
    }
    if is_abandoned {
        abandon_all(&handles, cell).await?;
    }
    let mut sampled = tokio::select! {
        sampled = sampler.finish() => sampled,
        () = handles.waits.grace_is_over() => Sampled::default(),
    };
    sampled.span = Some(CellSpan { start_ns: times.t0_ns, end_ns: times.t0_ns + times.length_ns });
    failures.sort();
    failures.dedup();
    let failure = (!failures.is_empty()).then(|| failures.join("; "));
    Ok((sampled, times.t0_ns, failure))
}

/// Whether the end of a tenant of that role fails the cell. A dead victim does; a dead aggressor is
/// left to the gates.
fn is_failure(error: &TenantError, role: Role) -> bool {
    role == Role::Victim || matches!(error, TenantError::Protocol { .. })
}

/// Withdraws every participant of an abandoned cell from the clock.
async fn abandon_all(handles: &RunHandles, cell: &Cell) -> Result<(), RunError> {
    for slot in 0..cell.tenants.len() {
        handles.abandon(participants_of(slot)).await?;
    }
    handles.reap().await
}

pub fn make_folder(log: &Path) -> Result<(), RunError> {
    let Some(folder) = log.parent() else {
        return Ok(());
    };
    std::fs::create_dir_all(folder).map_err(|source| {
        gpubench_reports::store::StoreError::Io {
            path: folder.to_path_buf(),
            action: "make",
            source,
        }
        .into()
    })
}
