//! One trial up to the answers: everybody is readied, started at one instant, and waited for.

use std::time::Duration;

use gpubench_record::wire::FaultPart;
use gpubench_record::{
    Calibration, FaultSeen, FaultTrial, FromTenant, LoadSpec, Role, Struck, TenantResult, ToTenant,
};
use gpubench_reports::store::log_path;
use gpubench_workloads::fault::{self, HostAct};
use tokio::task::JoinSet;

use super::auxiliary;
use super::host_action::host_action;
use super::injector_end::is_failure;
use super::{LIMIT, LIMIT_WALL, last};
use crate::run::cell::wanted;
use crate::run::fault_scheduler::FaultScheduler;
use crate::run::tenant_set::{TenantSet, note_end};
use crate::run::{Run, RunError, cell};
use crate::tenant::{Tenant, TenantError};

/// Requests outstanding; the victims run closed loops.
const OUTSTANDING: u32 = 64;
/// Where an accomplice is killed first, the fault comes this part of its budget after its instant:
/// the signal is long over then.
const HELPED_PART: u64 = 4;

/// Processes of a trial beside those that have a place.
#[derive(Debug, Default)]
pub struct AuxiliaryProcesses {
    /// Helps with the fault, and is killed.
    pub helper: Option<Tenant>,
    /// Asks for the device afterwards.
    pub recovery_client: Option<Tenant>,
}

/// Readies victims, accomplice and fault, and starts the process that will ask for the device.
pub async fn prepare(
    run: &mut Run,
    tenants: &mut TenantSet,
    calibration: &Calibration,
    trial: &FaultTrial,
    seen: &mut FaultSeen,
    auxiliaries: &mut AuxiliaryProcesses,
) -> Result<(), RunError> {
    tenants.renew(run, last(trial)).await?;
    tenants.arrange(run, trial.cell.condition).await?;
    let part = match fault::find(&trial.fault) {
        Some(fault) if fault.has_helper() => {
            let tenant = auxiliaries
                .helper
                .insert(tenants.start_auxiliary(run, "helper", 1).await?);
            let given = auxiliary::arm(run, tenant, &trial.fault).await?;
            FaultPart::Helped { given }
        }
        _ => FaultPart::Alone,
    };
    for (slot, tenant) in trial.cell.tenants.iter().enumerate() {
        let message = if tenant.role == Role::Victim {
            prepare_victim(run, calibration, trial, &tenant.tenant)?
        } else {
            ToTenant::Arm {
                fault: trial.fault.clone(),
                budget_ns: trial.until_ns - trial.at_ns,
                part: part.clone(),
            }
        };
        match tenants
            .ask(run, slot, &message, "getting ready", LIMIT)
            .await?
        {
            FromTenant::Ready { schedule_hash } => {
                seen.victims
                    .push(TenantResult::ready(tenant, schedule_hash));
            }
            FromTenant::Armed { .. } => {}
            other => return Err(tenants.unexpected(slot, &other)),
        }
    }
    auxiliaries.recovery_client = Some(tenants.start_auxiliary(run, "recovery-client", 0).await?);
    Ok(())
}

/// A closed loop from the common start to the end of the window.
fn prepare_victim(
    run: &Run,
    calibration: &Calibration,
    trial: &FaultTrial,
    tenant: &str,
) -> Result<ToTenant, RunError> {
    let log = log_path(&run.setup.out, &trial.cell.id, tenant)?;
    cell::make_folder(&log)?;
    let entry = calibration.entries.get(&trial.cell.victim);
    let rate_per_s = entry.map_or(0.0, |entry| entry.native_rate_per_s);
    let window_ns = trial.window_ns;
    let rows = rate_per_s * window_ns as f64 / 1e9 * 2.0;
    Ok(ToTenant::Prepare {
        cell: trial.cell.id.clone(),
        workload: entry.map(|entry| entry.spec.clone()),
        load: LoadSpec::Victim {
            warmup_end_ns: trial.from_ns,
            closed_end_ns: window_ns,
            open_start_ns: window_ns,
            open_end_ns: window_ns,
            rate_per_s,
            bursts: None,
            seed: trial.cell.schedule_seed,
            outstanding_max: OUTSTANDING,
        },
        log: log.display().to_string(),
        capacity_rows: rows as u64 + 4096,
        cpu: None,
    })
}

/// An answer, and who gave it in which place; the accomplice's comes after all that have one.
type Answered = (usize, Tenant, Result<FromTenant, TenantError>);

/// Starts everybody at one instant and waits for all of them. Whoever was harmed lives on until
/// everybody has answered, so that in virtual time its end comes at an instant of its own.
pub async fn inject(
    run: &mut Run,
    tenants: &mut TenantSet,
    trial: &FaultTrial,
    seen: &mut FaultSeen,
    auxiliaries: &mut AuxiliaryProcesses,
) -> Result<(), RunError> {
    let slots: Vec<usize> = (0..trial.cell.tenants.len()).collect();
    let mut members = tenants.take_slots(&slots);
    let helper = auxiliaries.helper.take();
    let helper_pid = helper.as_ref().map(Tenant::pid);
    members.extend(helper.map(|tenant| (slots.len(), tenant)));
    let clock = run.setup.clock.clone();
    let t0_ns = clock.start_ns();
    let action = host_action(trial, tenants.config(), &members, t0_ns);
    for (slot, tenant) in &members {
        clock.expect(tenant.participants().issuer)?;
        if *slot < last(trial) {
            clock.expect(tenant.participants().reaper)?;
        }
    }
    let scheduler = match action {
        Ok(Some(action)) => Some(FaultScheduler::start(&clock, action)?),
        Ok(None) => None,
        Err(why) => {
            seen.failure = Some(why);
            None
        }
    };
    let answers = answers(run, trial, members, t0_ns, helper_pid.is_some()).await;
    let acted = scheduler.map(|scheduler| scheduler.finish(true));
    let answers = answers?;
    match acted {
        Some(Ok(acted_ns)) => seen.acted_ns = acted_ns.map(|ns| ns.saturating_sub(t0_ns)),
        Some(Err(text)) => seen.failure = Some(text),
        None => {}
    }
    for (slot, tenant, answer) in answers {
        if slot < last(trial) {
            // One that was refused by its driver lives, but has to be replaced all the same.
            let victim = &mut seen.victims[slot];
            tenants
                .record_answer(run, slot, tenant, answer, victim)
                .await?;
        } else if Some(tenant.pid()) == helper_pid {
            helper_ended(run, tenant, answer, seen).await?;
        } else {
            seen.struck = injected(run, tenants, trial, slot, tenant, answer, seen).await?;
        }
    }
    Ok(())
}

/// Tells everybody to begin, and waits for everybody, or until the user wants an end: by the wall
/// clock a broken device may let all of them wait for long.
async fn answers(
    run: &Run,
    trial: &FaultTrial,
    tenants: Vec<(usize, Tenant)>,
    t0_ns: u64,
    helped: bool,
) -> Result<Vec<Answered>, RunError> {
    let is_wall = !run.setup.clock.is_virtual();
    let slack = if is_wall { LIMIT_WALL } else { LIMIT };
    let limit = slack + Duration::from_nanos(trial.window_ns);
    let budget_ns = trial.until_ns - trial.at_ns;
    let later_ns = if helped { budget_ns / HELPED_PART } else { 0 };
    let mut waits = JoinSet::new();
    for (slot, mut tenant) in tenants {
        let strike = |at_ns| ToTenant::Inject {
            t0_ns,
            at_ns,
            until_ns: trial.until_ns,
        };
        let message = match slot.cmp(&last(trial)) {
            std::cmp::Ordering::Less => ToTenant::Go { t0_ns },
            std::cmp::Ordering::Equal => strike(trial.at_ns + later_ns),
            // The accomplice is at work before the signal comes.
            std::cmp::Ordering::Greater => strike(trial.at_ns),
        };
        let sent = tenant.send(&message).await;
        let stop = run.stop.clone();
        waits.spawn(async move {
            let answer = match sent {
                Ok(()) => tokio::select! {
                    answer = tenant.receive("running a fault trial", limit) => Some(answer),
                    () = wanted(stop), if is_wall => None,
                },
                Err(error) => Some(Err(error)),
            };
            if answer.is_none() {
                tenant.kill().await;
            }
            (slot, tenant, answer)
        });
    }
    let mut answers: Vec<Answered> = Vec::new();
    let mut is_given_up = false;
    while let Some(done) = waits.join_next().await {
        match done.map_err(|error| RunError::Clock(format!("a wait ended: {error}")))? {
            (slot, tenant, Some(answer)) => answers.push((slot, tenant, answer)),
            (_, _killed, None) => is_given_up = true,
        }
    }
    if is_given_up {
        return Err(RunError::Interrupted);
    }
    answers.sort_by_key(|(slot, ..)| *slot);
    Ok(answers)
}

/// Takes down how an accomplice ended: by the signal, or the trial did not happen.
async fn helper_ended(
    run: &mut Run,
    tenant: Tenant,
    answer: Result<FromTenant, TenantError>,
    seen: &mut FaultSeen,
) -> Result<(), RunError> {
    let error = match answer {
        Err(error @ TenantError::Ended { .. }) => error,
        Err(error) => {
            seen.failure = Some(error.to_string());
            error
        }
        Ok(_) => {
            let text = "the accomplice outlived its signal".to_owned();
            seen.failure = Some(text.clone());
            TenantError::Protocol {
                tenant: tenant.name().to_owned(),
                what: text,
            }
        }
    };
    note_end(run, tenant, &error).await.map(|_| ())
}

/// Takes down what the process says that broke something.
async fn injected(
    run: &mut Run,
    tenants: &mut TenantSet,
    trial: &FaultTrial,
    slot: usize,
    tenant: Tenant,
    answer: Result<FromTenant, TenantError>,
    seen: &mut FaultSeen,
) -> Result<Struck, RunError> {
    let error = match answer {
        Ok(FromTenant::Injected {
            began_ns,
            detected_ns,
            code,
            later_code,
        }) => {
            tenants.put_back(slot, tenant);
            return Ok(Struck {
                began_ns: Some(began_ns),
                detected_ns: Some(detected_ns),
                code,
                later_code: Some(later_code),
                ..Struck::default()
            });
        }
        Ok(other) => tenant.unexpected(&other),
        Err(error) => error,
    };
    let act = fault::find(&trial.fault).map_or(HostAct::None, |fault| fault.act);
    if is_failure(act, &error) {
        seen.failure = Some(error.to_string());
    }
    let ended = Some(note_end(run, tenant, &error).await?);
    Ok(Struck {
        ended,
        ..Struck::default()
    })
}
