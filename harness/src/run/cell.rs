//! One cell: prepare everybody, start them at one instant, wait for all of them, write it down.

use std::path::Path;
use std::time::Duration;

use gpubench_record::{
    Calibration, Cell, FromTenant, LoadSpec, Outcome, Proof, RefusalKind, Role, RunEvent,
    TenantResult, ToTenant,
};
use gpubench_reports::store::log_path;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::device_processes::DeviceProcesses;
use super::observe::Serving;
use super::sampler::{Sampled, Sampler, Times};
use super::tenant_set::TenantSet;
use super::{Run, RunError, observe};
use crate::mechanism::{self, Observation};
use crate::tenant::TenantError;

/// Longest wait for a tenant to get ready.
const PREPARE: Duration = Duration::from_secs(60);
/// What a cell may take beyond its own length: on the wall clock, and in all in virtual time.
const SLACK_WALL: Duration = Duration::from_secs(30);
const LIMIT_VIRTUAL: Duration = Duration::from_secs(180);
/// Duty cycle of an aggressor at a dose below 1.
const PERIOD_NS: u64 = 10_000_000;
/// Requests that an aggressor keeps outstanding, so that its queue is never empty.
const DEPTH: u32 = 2;
/// Most victim requests outstanding in the open loop.
const OUTSTANDING_MAX: u32 = 10_000;

/// Runs one cell. A failure of the cell is its result; only what ends the run is an error.
pub async fn run(
    run: &mut Run,
    tenants: &mut TenantSet,
    calibration: &Calibration,
    cell: &Cell,
) -> Result<Option<String>, RunError> {
    if calibration
        .waived(&cell.victim, cell.aggressor.as_deref())
        .is_some()
    {
        // It has no result, and its row says why.
        return Ok(None);
    }
    run.events.append(&RunEvent::CellBegan {
        id: cell.id.clone(),
    })?;
    let mut results = Vec::new();
    let ready = match prepare(run, tenants, calibration, cell, &mut results).await {
        Ok(()) => None,
        // A full disk is full for every later cell too.
        Err(RunError::Tenant(error)) if error.kind() == Some(RefusalKind::NoSpace) => {
            return Err(RunError::DiskFull);
        }
        // Whoever cannot get ready fails this cell, and a fresh one is tried for the next.
        Err(RunError::Tenant(error)) => {
            record_refused_client(run, cell, &error)?;
            Some(error.to_string())
        }
        Err(other) => return Err(other),
    };
    let (sampled, failure) = match ready {
        Some(failure) => (Sampled::default(), Some(failure)),
        None => {
            observe_and_prove(run, tenants, cell, "before")?;
            go(run, tenants, cell, &mut results).await?
        }
    };
    let serving = Serving::now(tenants);
    let has_looked = sampled.on_device.is_some();
    let half_way = sampled.on_device.unwrap_or_default();
    let seen = observe::seen(run, tenants, cell.condition, &half_way, &serving);
    if failure.is_none() {
        // Nobody's look is no proof of anything, for or against.
        if has_looked {
            prove(run, cell, Proof::DURING, &seen)?;
        }
        observe_and_prove(run, tenants, cell, "after")?;
    } else if let Some(Err(error)) = &seen.daemon_clients
        && tenants.config().mechanism.is_some()
    {
        // A cell that failed proves nothing, but a daemon that is gone says why it failed.
        let reason = format!("not in force: {error}");
        let again = Some("run again: a new daemon is started");
        let outcome = Outcome::failed(reason);
        run.ended_as(&cell.mechanism, &cell.variant, &outcome, again)?;
    }
    for row in &sampled.rows {
        run.telemetry.append(row)?;
    }
    if let Some(text) = sampled.failure {
        run.events.append(&RunEvent::Warning {
            text: format!("{}: {text}", cell.id),
        })?;
    }
    let xids = run.drain_xids(&cell.id)?;
    let xid_lines = run.drain_xid_lines(&cell.id, &seen.services)?;
    run.events.append(&RunEvent::CellEnded {
        id: cell.id.clone(),
        tenants: results,
        failure: failure.clone(),
        foreign_processes: seen.other_processes(),
        throttle_reasons: sampled.throttle_reasons,
        xids,
        xid_lines,
        cpu_steal_ratio: sampled.cpu_steal_ratio,
    })?;
    Ok(failure)
}

/// Writes down that the mechanism lets no further tenant in, if that is what the driver says.
fn record_refused_client(run: &mut Run, cell: &Cell, error: &TenantError) -> Result<(), RunError> {
    let TenantError::Refused {
        kind: RefusalKind::Driver { code },
        ..
    } = error
    else {
        return Ok(());
    };
    match mechanism::refusal::of_code(*code) {
        Some((why, remedy)) if !cell.condition.is_native() => {
            let outcome = Outcome::waived(format!("{why}: {error}"));
            run.ended_as(&cell.mechanism, &cell.variant, &outcome, Some(remedy))
        }
        _ => Ok(()),
    }
}

/// Looks at the mechanism next to the samples, while the same contexts are open. A program of the
/// user's comes to the device and leaves it when it likes, and is looked at among the samples only.
fn observe_and_prove(
    run: &mut Run,
    tenants: &TenantSet,
    cell: &Cell,
    when: &str,
) -> Result<(), RunError> {
    if tenants.program().is_some() {
        return Ok(());
    }
    let on_device = DeviceProcesses::now(&run.setup.nvml);
    let seen = observe::seen(
        run,
        tenants,
        cell.condition,
        &on_device,
        &Serving::now(tenants),
    );
    // Whoever has died is missed on the device whatever the mechanism; the cell tells of the death.
    if seen.ours.iter().any(|&pid| !observe::lives(pid)) {
        return Ok(());
    }
    prove(run, cell, when, &seen)
}

/// Writes down what speaks for and against the mechanism having been in force.
fn prove(run: &mut Run, cell: &Cell, when: &str, seen: &Observation) -> Result<(), RunError> {
    let Some(mechanism) = mechanism::find(&cell.mechanism) else {
        return Ok(());
    };
    let asked = run.setup.host.asked_of(&cell.mechanism, &cell.variant);
    let is_set_up = mechanism.configuration(&asked).stage.is_some();
    for mut proof in mechanism.prove(&asked, seen) {
        when.clone_into(&mut proof.when);
        if !proof.holds && is_set_up {
            // What was set up and is not there has failed; what others disturb is in doubt.
            let reason = format!("not in force: {}: {}", proof.check, proof.evidence);
            run.failed(&cell.mechanism, &cell.variant, &reason)?;
        }
        run.events.append(&RunEvent::Proved {
            variant: cell.variant.clone(),
            proof,
        })?;
    }
    Ok(())
}

/// Arranges contexts and gets every tenant of the cell ready, one after the other.
async fn prepare(
    run: &mut Run,
    tenants: &mut TenantSet,
    calibration: &Calibration,
    cell: &Cell,
    results: &mut Vec<TenantResult>,
) -> Result<(), RunError> {
    tenants.arrange(run, cell.condition).await?;
    for (slot, tenant) in cell.tenants.iter().enumerate() {
        let log = log_path(&run.setup.out, &cell.id, &tenant.tenant)?;
        make_folder(&log)?;
        let entry = tenant
            .workload
            .as_ref()
            .and_then(|name| calibration.entries.get(name));
        let load = load(run, calibration, cell, slot);
        let rate = entry.map_or(0.0, |entry| entry.native_rate_per_s);
        let message = ToTenant::Prepare {
            cell: cell.id.clone(),
            workload: entry.map(|entry| entry.spec.clone()),
            capacity_rows: capacity(run, &load, rate),
            load,
            log: log.display().to_string(),
            cpu: run.cores.issuer(slot),
        };
        match tenants
            .ask(run, slot, &message, "getting ready", PREPARE)
            .await?
        {
            FromTenant::Ready { schedule_hash } => {
                results.push(TenantResult::ready(tenant, schedule_hash));
            }
            other => return Err(tenants.unexpected(slot, &other)),
        }
    }
    Ok(())
}

/// Starts everybody and waits for all of them.
async fn go(
    run: &mut Run,
    tenants: &mut TenantSet,
    cell: &Cell,
    results: &mut [TenantResult],
) -> Result<(Sampled, Option<String>), RunError> {
    let slots: Vec<usize> = (0..cell.tenants.len()).collect();
    let members = tenants.take_slots(&slots);
    for (_, tenant) in &members {
        let participants = tenant.participants();
        run.setup.clock.expect(participants.issuer)?;
        run.setup.clock.expect(participants.reaper)?;
    }
    let times = Times {
        t0_ns: run.setup.clock.start_ns(),
        length_ns: run.setup.plan.durations_of(cell).cell_ns(),
        period_ns: run.setup.plan.telemetry_period_ns,
    };
    let sampler = Sampler::start(&run.setup.clock, &run.setup.nvml, &cell.id, times)?;
    let limit = if run.setup.clock.is_virtual() {
        LIMIT_VIRTUAL
    } else {
        Duration::from_nanos(times.length_ns) + SLACK_WALL
    };
    let mut waits = JoinSet::new();
    for (slot, mut tenant) in members {
        let sent = tenant.send(&ToTenant::Go { t0_ns: times.t0_ns }).await;
        let stop = run.stop.clone();
        waits.spawn(async move {
            let answer = match sent {
                Ok(()) => tokio::select! {
                    answer = tenant.receive("running a cell", limit) => Some(answer),
                    () = wanted(stop) => None,
                },
                Err(error) => Some(Err(error)),
            };
            if answer.is_none() {
                // Nobody waits for a cell that the user gave up; a client of a server is not
                // killed at work for that.
                tenant.kill().await;
            }
            (slot, tenant, answer)
        });
    }
    let mut failures = Vec::new();
    let mut is_given_up = false;
    while let Some(done) = waits.join_next().await {
        // A wait that panicked has dropped its tenant, which kills the process.
        let Ok((slot, tenant, Some(answer))) = done else {
            is_given_up = true;
            failures.push("interrupted".to_owned());
            run.setup.clock.reap()?;
            continue;
        };
        let result = &mut results[slot];
        let error = tenants
            .record_answer(run, slot, tenant, answer, result)
            .await?;
        let error = error.filter(|error| is_failure(error, result.role));
        failures.extend(error.map(|error| error.to_string()));
    }
    if is_given_up {
        abandon_all(run, cell)?;
    }
    let sampled = sampler.finish();
    failures.sort();
    failures.dedup();
    let failure = (!failures.is_empty()).then(|| failures.join("; "));
    Ok((sampled, failure))
}

/// Waits for the user to want an end.
pub async fn wanted(mut stop: watch::Receiver<bool>) {
    // Nobody can want one any more when the sender is gone.
    if stop.wait_for(|wanted| *wanted).await.is_err() {
        std::future::pending().await
    }
}

/// Whether a cell has failed with a tenant of that role. Without its victim it has; without its
/// aggressor it has measured something else than planned, which the gates will say.
fn is_failure(error: &TenantError, role: Role) -> bool {
    role == Role::Victim || matches!(error, TenantError::Protocol { .. })
}

/// Takes back the announcement of every participant of a cell that was given up.
fn abandon_all(run: &Run, cell: &Cell) -> Result<(), RunError> {
    for slot in 0..cell.tenants.len() {
        run.setup
            .clock
            .abandon(super::tenant_set::participants_of(slot))?;
    }
    run.setup.clock.reap()
}

/// How a tenant of a cell is loaded.
fn load(run: &Run, calibration: &Calibration, cell: &Cell, slot: usize) -> LoadSpec {
    let plan = &run.setup.plan;
    let durations = plan.durations_of(cell);
    let end_ns = durations.cell_ns();
    let native = calibration
        .entries
        .get(&cell.victim)
        .map_or(0.0, |entry| entry.native_rate_per_s);
    let rate_per_s = native * plan.load;
    // No more can be outstanding than arrive; twice that leaves room for the draw.
    let outstanding_max = |length_ns: u64| {
        let arrivals = rate_per_s * length_ns as f64 / 1e9;
        ((arrivals * 2.0) as u32 + 64).min(OUTSTANDING_MAX)
    };
    match cell.tenants[slot].role {
        Role::Idle => LoadSpec::Idle { end_ns },
        Role::Aggressor => LoadSpec::Aggressor {
            end_ns,
            dose: cell.dose,
            period_ns: PERIOD_NS,
            depth: DEPTH,
        },
        // At its load from the beginning to the end, with arrivals of its own.
        Role::Peer => LoadSpec::Victim {
            warmup_end_ns: 0,
            closed_end_ns: 0,
            open_start_ns: 0,
            open_end_ns: end_ns,
            rate_per_s,
            bursts: plan.bursts,
            seed: cell.schedule_seed ^ slot as u64,
            outstanding_max: outstanding_max(end_ns),
        },
        Role::Victim => {
            let closed_end_ns = durations.warmup_ns + durations.closed_ns;
            LoadSpec::Victim {
                warmup_end_ns: durations.warmup_ns,
                closed_end_ns,
                open_start_ns: closed_end_ns + durations.gap_ns,
                open_end_ns: end_ns,
                rate_per_s,
                bursts: plan.bursts,
                seed: cell.schedule_seed,
                outstanding_max: outstanding_max(durations.open_ns),
            }
        }
    }
}

/// Rows to allocate: what the native rate would log in the whole cell, with room to spare. Nobody
/// is faster than natively by half.
fn capacity(run: &Run, load: &LoadSpec, rate_per_s: f64) -> u64 {
    if matches!(load, LoadSpec::Idle { .. }) {
        return 1;
    }
    let seconds = run.setup.plan.durations.cell_ns() as f64 / 1e9;
    (rate_per_s * seconds * 2.0) as u64 + 4096
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
