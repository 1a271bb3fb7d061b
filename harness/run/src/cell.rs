//! One cell: prepares every tenant, starts them at one instant, waits for all of them, and writes
//! what happened.

use std::path::Path;
use std::time::Duration;

use gpubench_host::mechanism;
use gpubench_host::mechanism::{Observation, Requirement};
use gpubench_host::tenant::TenantError;
use gpubench_plan::phase_ns;
use gpubench_record::{
    Calibration, Cell, CellSpan, Event, FromTenant, INTERRUPTED, LoadSpec, Outcome, Plan,
    RefusalKind, Role, RunEvent, Surroundings, TenantResult, TimePart, ToTenant, Unobserved,
};
use gpubench_store::log_path;
use tokio::task::JoinSet;

use super::cores::Placement;
use super::handles::MechanismLedger;
use super::observe::Snapshot;
use super::sampler::{SAMPLER, Sampled, Sampler, Times};
use super::setup::Recorder;
use super::tenant_set::{TenantSet, participants_of};
use super::transient::Happening;
use super::xids::XidMonitor;
use super::{RunError, RunHandles, observe};

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
            let server = tenants.config().set_up.ended_server();
            Some(server.map_or_else(|| error.to_string(), |server| format!("{error}; {server}")))
        }
        Err(other) => return Err(other),
    };
    handles.spend(TimePart::Waiting).await;
    let (sampled, t0_ns, failure) = match failure {
        Some(failure) => (Sampled::default(), 0, Some(failure)),
        None => {
            let mut measured = measure(tenants, cell, &mut results).await?;
            handles.split_cell(cell, measured.1).await?;
            handles.spend(TimePart::Proofs).await;
            // After every window: nothing that is measured runs beside it.
            if measured.2.is_none() {
                measured.2 = tenants.add_outputs(calibration, &mut results).await?;
            }
            measured
        }
    };
    handles.spend(TimePart::Proofs).await;
    let mut surroundings = observe(tenants, xids, &sampled).await?;
    let snapshot = match sampled.snapshot {
        Some(snapshot) => snapshot,
        // It comes too late for a proof, but a missing daemon explains a failure, and its servers
        // own Xids.
        None => Snapshot { t_ns: None, ..observe::snapshot(tenants).await? },
    };
    let mut observation = observe::observation(tenants, cell.condition, &snapshot);
    if let Some(before) = sampled.before {
        before.stand_in(&mut observation, &snapshot);
    }
    if failure.is_none() && is_whole(cell, &results) {
        prove(&handles, ledger, cell, t0_ns, &observation)?;
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
    handles.spend(TimePart::Other).await;
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
    match mechanism::interface::of_code(*code) {
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
    tenants.handles().spend(TimePart::Buffers).await;
    tenants.settle(calibration, cell).await?;
    let setup = tenants.handles().setup.clone();
    for (slot, tenant) in cell.tenants.iter().enumerate() {
        let log = log_path(&setup.out, &cell.id, &tenant.tenant)?;
        make_folder(&log)?;
        let entry = tenant.workload.as_ref().and_then(|name| calibration.entries.get(name));
        let load = load(&setup.plan, calibration, cell, slot);
        let rate = entry.map_or(0.0, |entry| entry.native_rate_per_s);
        let message = ToTenant::Prepare {
            id: cell.id.clone(),
            workload: entry.map(|entry| entry.spec.clone()),
            capacity_rows: capacity(&setup.plan, cell, &load, rate),
            load,
            log: log.display().to_string(),
            cpu: cores.issuer(slot),
            reaper_cpu: cores.reaper(slot),
        };
        match tenants.ask(slot, &message, "getting ready", PREPARE).await? {
            FromTenant::Ready { schedule_hash, identity, modules_ns } => {
                tenants.handles().of_it(TimePart::Modules, modules_ns).await;
                let ready = TenantResult::ready(tenant, schedule_hash);
                results.push(TenantResult { identity, ..ready });
            }
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
    let mut happening = Happening::prepare(tenants, cell).await?;
    let before = happening.before.take();
    let members = tenants.take_slots(&slots);
    let participants = members.iter().map(|(_, tenant)| tenant.participants());
    let ids = participants.flat_map(|ids| [ids.issuer, ids.reaper]);
    handles.expect(ids.chain([SAMPLER]).chain(happening.participants()).collect()).await?;
    let t0_ns = handles.start_ns().await? + phase_ns(&setup.plan, cell);
    let times = Times::of_cell(&setup.plan, cell, t0_ns);
    let sampler = Sampler::start(&setup.clock, &setup.nvml, &cell.id, times, scope)?;
    let limit = if setup.clock.is_virtual() {
        LIMIT_VIRTUAL
    } else {
        Duration::from_nanos(times.length_ns) + SLACK_WALL
    };
    let at_ns = setup.plan.event_ns(cell);
    let happening = happening.start(&handles, [times.t0_ns, at_ns, times.length_ns], limit).await?;
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
    let (mut failures, mut answers) = (Vec::new(), Vec::new());
    // A killed tenant is reaped once all have answered, so that its end has an instant of its own.
    let together = !tenants.config().inside.is_empty() || cell.killed().is_some();
    let mut is_abandoned = false;
    while let Some(done) = waits.join_next().await {
        match done {
            Ok((slot, tenant, Some(answer))) => answers.push((slot, tenant, answer)),
            // A wait that panicked has dropped its tenant, which kills the process.
            _ => {
                is_abandoned = true;
                failures.push(INTERRUPTED.to_owned());
                handles.reap().await?;
            }
        }
        // A tenant that failed is killed. Where tenants are threads that kills them all, and their
        // own errors would be lost.
        if together && !waits.is_empty() {
            continue;
        }
        for (slot, tenant, answer) in answers.drain(..) {
            let result = &mut results[slot];
            let error = tenants.record_answer(slot, tenant, answer, result).await?;
            let error = error.filter(|error| is_failure(error, result.planned.role));
            failures.extend(error.map(|error| error.to_string()));
        }
    }
    if is_abandoned {
        abandon_all(&handles, cell).await?;
    }
    let mut sampled = tokio::select! {
        sampled = sampler.finish() => sampled,
        () = handles.waits.grace_is_over() => Sampled::default(),
    };
    (sampled.before, sampled.event) = (before, happening.finish(&handles).await?);
    sampled.span = Some(CellSpan { start_ns: times.t0_ns, end_ns: times.t0_ns + times.length_ns });
    failures.sort();
    failures.dedup();
    let failure = (!failures.is_empty()).then(|| failures.join("; "));
    Ok((sampled, times.t0_ns, failure))
}

/// Whether every tenant lived but the one that the event of the cell kills.
fn is_whole(cell: &Cell, results: &[TenantResult]) -> bool {
    let dead = results.iter().enumerate().filter(|(_, tenant)| tenant.death.is_some());
    dead.map(|(slot, _)| slot).all(|slot| cell.killed() == Some(slot))
}

/// Whether the end of a tenant of that role fails the cell. A dead victim does; a dead aggressor is
/// left to the gates.
fn is_failure(error: &TenantError, role: Role) -> bool {
    role == Role::Victim || matches!(error, TenantError::Protocol { .. })
}

async fn abandon_all(handles: &RunHandles, cell: &Cell) -> Result<(), RunError> {
    for slot in 0..cell.tenants.len() {
        handles.abandon(participants_of(slot)).await?;
    }
    handles.reap().await
}

pub fn make_folder(log: &Path) -> Result<(), RunError> {
    let Some(folder) = log.parent() else { return Ok(()) };
    std::fs::create_dir_all(folder).map_err(|source| {
        gpubench_store::StoreError::Io { path: folder.to_path_buf(), action: "make", source }.into()
    })
}

// The load of each tenant of a cell, and the room for its samples.

/// Duty cycle of an aggressor at a dose below 1.
const PERIOD_NS: u64 = 10_000_000;
/// Maximum of outstanding victim requests in the open loop.
const OUTSTANDING_MAX: u32 = 10_000;

pub fn load(plan: &Plan, calibration: &Calibration, cell: &Cell, slot: usize) -> LoadSpec {
    let durations = plan.durations_of(cell);
    let end_ns = durations.cell_ns();
    // The victim's last request ends after its closed loop. Where neighbours stopped before, it
    // would run in part without them, and the contended rate would be too high.
    let neighbours_end_ns = if cell.closed_only { end_ns + plan.durations.gap_ns } else { end_ns };
    let native = calibration.entries.get(&cell.victim).map_or(0.0, |entry| entry.native_rate_per_s);
    let rate_per_s = native * plan.load_of(cell);
    let [depth, neighbour_depth] = cell.depths();
    let event_ns = plan.event_ns(cell);
    let (mut start_ns, mut stop_ns) = (0, neighbours_end_ns);
    if slot + 1 == cell.tenants.len() {
        match cell.shape.event {
            Some(Event::Start) => start_ns = event_ns,
            Some(Event::Stop) => stop_ns = event_ns,
            Some(Event::Kill | Event::Restart) | None => {}
        }
    }
    // No more can be outstanding than arrive; the factor of two covers the variance of arrivals.
    let outstanding_max = |length_ns: u64| {
        let arrivals = rate_per_s * length_ns as f64 / 1e9;
        ((arrivals * 2.0) as u32 + 64).min(OUTSTANDING_MAX)
    };
    match cell.tenants[slot].role {
        Role::Idle => LoadSpec::Idle { end_ns },
        Role::Aggressor => LoadSpec::Aggressor {
            start_ns,
            end_ns: stop_ns,
            dose: cell.dose,
            period_ns: PERIOD_NS,
            depth: neighbour_depth,
        },
        // The victim's load from begin to end, with arrivals of its own.
        Role::Peer => LoadSpec::Victim {
            warmup_end_ns: 0,
            closed_end_ns: 0,
            depth: 1,
            sparse: None,
            open_start_ns: 0,
            open_end_ns: neighbours_end_ns,
            rate_per_s,
            bursts: plan.bursts,
            seed: cell.schedule_seed ^ slot as u64,
            outstanding_max: outstanding_max(neighbours_end_ns),
        },
        Role::Victim => {
            let closed_end_ns = durations.warmup_ns + durations.closed_ns;
            LoadSpec::Victim {
                warmup_end_ns: durations.warmup_ns,
                closed_end_ns,
                depth,
                sparse: cell.sparse,
                open_start_ns: closed_end_ns + durations.sparse_ns + durations.gap_ns,
                open_end_ns: end_ns,
                rate_per_s,
                bursts: plan.bursts,
                seed: cell.schedule_seed,
                outstanding_max: outstanding_max(durations.open_ns),
            }
        }
    }
}

/// Rows of a tenant's log in a cell.
pub fn capacity(plan: &Plan, cell: &Cell, load: &LoadSpec, rate_per_s: f64) -> u64 {
    if matches!(load, LoadSpec::Idle { .. }) {
        return 1;
    }
    let sparse_ns = plan.durations_of(cell).sparse_ns;
    rows(rate_per_s, plan.durations.cell_ns() + sparse_ns)
}

// Proofs that a mechanism was in force in a cell.

/// Written only where it does not hold: under a limiter that nobody measures, native is not native.
const DRIVER_ALONE: Requirement = Requirement::during("no other library answers for the driver");

/// Writes the evidence for and against the mechanism having been in force in a cell that began at
/// `t0_ns` on the clock of the tenants.
pub fn prove(
    handles: &RunHandles,
    ledger: &mut MechanismLedger,
    cell: &Cell,
    t0_ns: u64,
    observation: &Observation,
) -> Result<(), RunError> {
    let Some(mechanism) = mechanism::find(&cell.mechanism) else { return Ok(()) };
    // A dead tenant is missing on the device under every mechanism; the cell reports the death.
    let is_gone = |&pid: &u32| !observe::is_alive(pid);
    if cell.killed().is_none() && observation.ours.iter().any(is_gone) {
        return Ok(());
    }
    let host = &handles.setup.host;
    let context = host.context_of(&cell.mechanism, &cell.variant);
    let is_set_up = mechanism.configuration(&context).stage.is_some();
    let offset = |t_ns: u64| i64::try_from(i128::from(t_ns) - i128::from(t0_ns)).ok();
    let mut proofs = mechanism.prove(&context, observation);
    for tenant in &observation.tenants {
        let name = tenant.name();
        if let Some(library) = ledger.see(&cell.variant, &name, tenant.pid)? {
            let evidence = format!("{library} answers for the driver in {name}");
            proofs.push(DRIVER_ALONE.proof(false, evidence));
        }
    }
    for mut proof in proofs {
        proof.t_ns = observation.instant_of(proof.when).and_then(offset);
        if !proof.holds && is_set_up {
            // A mechanism that was set up and is not in force has failed. One without set-up may be
            // disturbed by other processes, which makes its rows inconclusive.
            let reason = format!("not in force: {}: {}", proof.check, proof.evidence);
            ledger.failed(&cell.mechanism, &cell.variant, &reason)?;
        }
        handles.recorder.event(&RunEvent::Proved {
            variant: cell.variant.clone(),
            cell: Some(cell.id.clone()),
            proof,
        })?;
    }
    Ok(())
}

// Observations around a cell beside processes and proofs: memory errors, clocks of processes, and
// what could not be observed.

/// Observes after the samples, while the tenants are still there.
pub async fn observe(
    tenants: &TenantSet,
    monitor: &mut XidMonitor,
    sampled: &Sampled,
) -> Result<Surroundings, RunError> {
    let mut found = Surroundings {
        span: sampled.span,
        sm_clock_khz: sampled.mean_sm_clock_khz(),
        unobserved: sampled.unobserved.clone(),
        meters: sampled.meters.clone(),
        event: sampled.event.clone(),
        ..Surroundings::default()
    };
    match monitor.memory_errors().await? {
        Ok(span) => found.ecc = Some(span),
        Err(error) => found.note(Unobserved::Ecc, Some(error)),
    }
    if tenants.handles().setup.clock.is_virtual() {
        return Ok(found);
    }
    match observe::other_clocks(&tenants.stamping()) {
        Ok(others) => found.other_clocks = Some(others),
        Err(error) => found.note(Unobserved::Clocks, Some(error)),
    }
    Ok(found)
}

// The capacity of a sample log, allocated in full before a cell starts.

/// Rows that do not depend on the rate: requests that answer at once, such as refused ones.
const ROWS_MIN: u64 = 4096;
/// Room above the native rate. A tenant is never twice as fast as natively.
const FACTOR: f64 = 2.0;

pub fn rows(native_rate_per_s: f64, length_ns: u64) -> u64 {
    let seconds = length_ns as f64 / 1e9;
    (native_rate_per_s * seconds * FACTOR) as u64 + ROWS_MIN
}

#[cfg(test)]
mod tests {
    use super::rows;

    #[test]
    fn a_log_has_room_for_twice_the_native_rate() {
        for (rate_per_s, length_ns, expected) in [
            (0.0, 1_000_000_000, 4096),
            (1_000.0, 1_000_000_000, 6096),
            (1_000.0, 180_000_000, 4456),
        ] {
            assert_eq!(rows(rate_per_s, length_ns), expected);
        }
    }
}
