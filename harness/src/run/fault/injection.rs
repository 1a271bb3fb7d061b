//! One trial up to the answers: every process is readied, started at one instant, and waited for.

use std::time::Duration;

use gpubench_record::wire::FaultRole;
use gpubench_record::{
    Calibration, Condition, FaultObservation, FaultTrial, FromTenant, LoadSpec, Role, TenantResult,
    ToTenant,
};
use gpubench_reports::store::log_path;
use gpubench_workloads::fault;
use tokio::task::JoinSet;

use super::auxiliary;
use super::host_action::host_action;
use super::reports::{helper_ended, injected};
use super::{LIMIT, LIMIT_WALL, last};
use crate::run::fault_scheduler::{FAULT_SCHEDULER, FaultScheduler, ScheduledAction};
use crate::run::tenant_set::TenantSet;
use crate::run::{RunError, RunHandles, Setup, cell, log_capacity};
use crate::tenant::{Tenant, TenantError};

/// Requests outstanding; the victims run closed loops.
const OUTSTANDING: u32 = 64;
/// Where a helper process is killed first, the fault comes this part of its budget after its
/// instant: the signal is long over then.
const HELPED_PART: u64 = 4;

/// Processes of a trial without a slot.
#[derive(Debug, Default)]
pub struct AuxiliaryProcesses {
    /// Takes part in the fault, and is killed.
    pub helper: Option<Tenant>,
    /// Asks for the device afterwards.
    pub recovery_client: Option<Tenant>,
}

/// Readies victims, helper and fault, and starts the recovery client.
pub async fn prepare(
    tenants: &mut TenantSet,
    calibration: &Calibration,
    trial: &FaultTrial,
    seen: &mut FaultObservation,
    auxiliaries: &mut AuxiliaryProcesses,
) -> Result<(), RunError> {
    tenants.renew(last(trial)).await?;
    tenants.arrange(Condition::C).await?;
    let role = match fault::find(&trial.fault) {
        Some(fault) if fault.has_helper() => {
            let tenant = auxiliaries
                .helper
                .insert(tenants.start_auxiliary("helper", 1).await?);
            let helper_data = auxiliary::arm(tenants.handles(), tenant, &trial.fault).await?;
            FaultRole::HelpedInjector { helper_data }
        }
        _ => FaultRole::Injector,
    };
    for (slot, tenant) in trial.tenants.iter().enumerate() {
        let message = if tenant.role == Role::Victim {
            prepare_victim(&tenants.handles().setup, calibration, trial, &tenant.tenant)?
        } else {
            ToTenant::Arm {
                fault: trial.fault.clone(),
                budget_ns: trial.until_ns - trial.at_ns,
                role: role.clone(),
            }
        };
        match tenants.ask(slot, &message, "getting ready", LIMIT).await? {
            FromTenant::Ready { schedule_hash } => {
                seen.victims
                    .push(TenantResult::ready(tenant, schedule_hash));
            }
            FromTenant::Armed { .. } => {}
            other => return Err(tenants.unexpected(slot, &other)),
        }
    }
    auxiliaries.recovery_client = Some(tenants.start_auxiliary("recovery-client", 0).await?);
    Ok(())
}

/// A closed loop from the common start to the end of the window.
fn prepare_victim(
    setup: &Setup,
    calibration: &Calibration,
    trial: &FaultTrial,
    tenant: &str,
) -> Result<ToTenant, RunError> {
    let log = log_path(&setup.out, &trial.id, tenant)?;
    cell::make_folder(&log)?;
    let entry = calibration.entries.get(&trial.victim);
    let rate_per_s = entry.map_or(0.0, |entry| entry.native_rate_per_s);
    let window_ns = trial.window_ns;
    Ok(ToTenant::Prepare {
        id: trial.id.clone(),
        workload: entry.map(|entry| entry.spec.clone()),
        load: LoadSpec::Victim {
            warmup_end_ns: trial.from_ns,
            closed_end_ns: window_ns,
            open_start_ns: window_ns,
            open_end_ns: window_ns,
            rate_per_s,
            bursts: None,
            seed: trial.schedule_seed,
            outstanding_max: OUTSTANDING,
        },
        log: log.display().to_string(),
        capacity_rows: log_capacity::rows(rate_per_s, window_ns),
        cpu: None,
    })
}

/// A slot, its process and its answer; the helper's comes after those of the tenants.
type Answered = (usize, Tenant, Result<FromTenant, TenantError>);

/// Starts every process at one instant and waits for all of them. A process that is harmed lives on
/// until all have answered, so that in virtual time its end comes at an instant of its own.
pub async fn inject(
    tenants: &mut TenantSet,
    trial: &FaultTrial,
    seen: &mut FaultObservation,
    auxiliaries: &mut AuxiliaryProcesses,
) -> Result<(), RunError> {
    let handles = tenants.handles().clone();
    let slots: Vec<usize> = (0..trial.tenants.len()).collect();
    let mut members = tenants.take_slots(&slots);
    let helper = auxiliaries.helper.take();
    let helper_pid = helper.as_ref().map(Tenant::pid);
    members.extend(helper.map(|tenant| (slots.len(), tenant)));
    let clock = &handles.setup.clock;
    let t0_ns = clock.start_ns();
    let action = action(tenants, trial, &members, t0_ns).await?;
    let mut ids = Vec::new();
    for (slot, tenant) in &members {
        ids.push(tenant.participants().issuer);
        if *slot < last(trial) {
            ids.push(tenant.participants().reaper);
        }
    }
    ids.extend(matches!(action, Ok(Some(_))).then_some(FAULT_SCHEDULER));
    handles.expect(ids).await?;
    let scheduler = match action {
        Ok(Some(action)) => Some(FaultScheduler::start(clock, action)?),
        Ok(None) => None,
        Err(why) => {
            seen.failure = Some(why);
            None
        }
    };
    let answers = answers(&handles, trial, members, t0_ns, helper_pid.is_some()).await;
    if let Some(scheduler) = scheduler {
        let acted = tokio::select! {
            acted = scheduler.finish() => acted,
            () = handles.waits.grace_is_over() => Ok(None),
        };
        match acted {
            Ok(acted_ns) => seen.acted_ns = acted_ns.map(|ns| ns.saturating_sub(t0_ns)),
            Err(text) => seen.failure = Some(text),
        }
    }
    for (slot, tenant, answer) in answers? {
        if slot < last(trial) {
            // A victim that was refused by its driver lives, but is replaced all the same.
            let victim = &mut seen.victims[slot];
            tenants.record_answer(slot, tenant, answer, victim).await?;
        } else if Some(tenant.pid()) == helper_pid {
            helper_ended(&handles, tenant, answer, seen).await?;
        } else {
            seen.injector = injected(tenants, trial, slot, tenant, answer, seen).await?;
        }
    }
    Ok(())
}

/// The coordinator's part of a trial, or why it cannot be done.
async fn action(
    tenants: &TenantSet,
    trial: &FaultTrial,
    members: &[(usize, Tenant)],
    t0_ns: u64,
) -> Result<Result<Option<ScheduledAction>, String>, RunError> {
    let (trial, set_up) = (trial.clone(), tenants.config().set_up.clone());
    let pids = members.iter().map(|(slot, tenant)| (*slot, tenant.pid()));
    let pids: Vec<_> = pids.collect();
    let waits = &tenants.handles().waits;
    let action = move || host_action(&trial, &set_up, &pids, t0_ns);
    waits
        .blocking("choosing what to signal", LIMIT, action)
        .await
}

/// Tells every process to begin, and waits for all of them, or until the user wants an end: a
/// broken device may let all of them wait for long.
async fn answers(
    handles: &RunHandles,
    trial: &FaultTrial,
    members: Vec<(usize, Tenant)>,
    t0_ns: u64,
    helped: bool,
) -> Result<Vec<Answered>, RunError> {
    let is_wall = !handles.setup.clock.is_virtual();
    let slack = if is_wall { LIMIT_WALL } else { LIMIT };
    let limit = slack + Duration::from_nanos(trial.window_ns);
    let budget_ns = trial.until_ns - trial.at_ns;
    let later_ns = if helped { budget_ns / HELPED_PART } else { 0 };
    let mut pending = JoinSet::new();
    for (slot, mut tenant) in members {
        let inject = |at_ns| ToTenant::Inject {
            t0_ns,
            at_ns,
            until_ns: trial.until_ns,
        };
        let message = match slot.cmp(&last(trial)) {
            std::cmp::Ordering::Less => ToTenant::Go { t0_ns },
            std::cmp::Ordering::Equal => inject(trial.at_ns + later_ns),
            // The helper is at work before the signal comes.
            std::cmp::Ordering::Greater => inject(trial.at_ns),
        };
        let sent = tenant.send(&message).await;
        let waits = handles.waits.clone();
        pending.spawn(async move {
            let doing = "running a fault trial";
            let answer = match sent {
                Ok(()) => waits.reply(&mut tenant, doing, limit).await,
                Err(error) => Some(Err(error)),
            };
            (slot, tenant, answer)
        });
    }
    let mut answers: Vec<Answered> = Vec::new();
    let mut is_given_up = false;
    while let Some(done) = pending.join_next().await {
        match done.map_err(|error| RunError::Clock(format!("a wait ended: {error}")))? {
            (slot, tenant, Some(answer)) => answers.push((slot, tenant, answer)),
            (_, killed, None) => {
                is_given_up = true;
                handles.abandon(killed.participants()).await?;
                handles.reap().await?;
            }
        }
    }
    if is_given_up {
        return Err(RunError::Interrupted);
    }
    answers.sort_by_key(|(slot, ..)| *slot);
    Ok(answers)
}
