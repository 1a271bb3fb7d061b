//! One trial up to the answers: prepares every process, starts all at one instant, and waits for
//! them.

use std::time::Duration;

use gpubench_catalogue::fault;
use gpubench_host::tenant::{Tenant, TenantError};
use gpubench_record::wire::FaultRole;
use gpubench_record::{
    Calibration, Condition, FaultObservation, FaultTrial, FromTenant, LoadSpec, NewClient, Role,
    TenantResult, ToTenant,
};
use gpubench_store::log_path;
use tokio::task::JoinSet;

use super::{LIMIT, LIMIT_WALL, helper_ended, host_action, injected, last};
use crate::fault_scheduler::{FAULT_SCHEDULER, FaultScheduler, ScheduledAction};
use crate::tenant_set::{TenantSet, ask_auxiliary, stop};
use crate::{RunError, RunHandles, Setup, cell};

/// Requests outstanding; the victims run closed loops.
const OUTSTANDING: u32 = 64;
/// With a helper process the fault comes this fraction of its budget later, after the helper was
/// killed.
const HELPED_FRACTION: u64 = 4;

/// Processes of a trial without a slot.
#[derive(Debug, Default)]
pub struct AuxiliaryProcesses {
    /// Holds what the injector needs, and is killed.
    pub helper: Option<Tenant>,
    /// Requests the device afterwards.
    pub recovery_client: Option<Tenant>,
}

/// Prepares victims, helper and fault, and starts the recovery client.
pub async fn prepare(
    tenants: &mut TenantSet,
    calibration: &Calibration,
    trial: &FaultTrial,
    observed: &mut FaultObservation,
    auxiliaries: &mut AuxiliaryProcesses,
) -> Result<(), RunError> {
    tenants.renew(last(trial)).await?;
    tenants.arrange(Condition::C).await?;
    let role = match fault::find(&trial.fault) {
        Some(fault) if fault.has_helper => {
            let tenant = auxiliaries.helper.insert(tenants.start_auxiliary("helper", 1).await?);
            let helper_data = arm(tenants.handles(), tenant, &trial.fault).await?;
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
            FromTenant::Ready { schedule_hash, identity, .. } => observed
                .victims
                .push(TenantResult { identity, ..TenantResult::ready(tenant, schedule_hash) }),
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
            depth: 1,
            sparse: None,
            open_start_ns: window_ns,
            open_end_ns: window_ns,
            rate_per_s,
            bursts: None,
            seed: trial.schedule_seed,
            outstanding_max: OUTSTANDING,
        },
        log: log.display().to_string(),
        capacity_rows: cell::rows(rate_per_s, window_ns),
        cpu: None,
        reaper_cpu: None,
    })
}

/// A slot, its process and its answer. The helper comes after the tenants.
type Answered = (usize, Tenant, Result<FromTenant, TenantError>);

/// Starts every process at one instant and waits for all of them. Processes end only after all have
/// answered, so that in virtual time each end has an instant of its own.
pub async fn inject(
    tenants: &mut TenantSet,
    trial: &FaultTrial,
    observed: &mut FaultObservation,
    auxiliaries: &mut AuxiliaryProcesses,
) -> Result<(), RunError> {
    let handles = tenants.handles().clone();
    let slots: Vec<usize> = (0..trial.tenants.len()).collect();
    let mut members = tenants.take_slots(&slots);
    let helper = auxiliaries.helper.take();
    let helper_pid = helper.as_ref().map(Tenant::pid);
    members.extend(helper.map(|tenant| (slots.len(), tenant)));
    let clock = &handles.setup.clock;
    let t0_ns = handles.start_ns().await?;
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
            observed.failure = Some(why);
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
            Ok(acted_ns) => observed.acted_ns = acted_ns.map(|ns| ns.saturating_sub(t0_ns)),
            Err(text) => observed.failure = Some(text),
        }
    }
    for (slot, tenant, answer) in answers? {
        if slot < last(trial) {
            // A victim that the driver refused is replaced, even if its process is alive.
            let victim = &mut observed.victims[slot];
            tenants.record_answer(slot, tenant, answer, victim).await?;
        } else if Some(tenant.pid()) == helper_pid {
            helper_ended(&handles, tenant, answer, observed).await?;
        } else {
            observed.injector = injected(tenants, trial, slot, tenant, answer, observed).await?;
        }
    }
    Ok(())
}

/// The coordinator's action, or why it is not possible.
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
    waits.blocking("choosing what to signal", LIMIT, action).await
}

/// Starts every process and waits for all of them, or until the user stops the run: on a broken
/// device all of them may hang.
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
    let later_ns = if helped { budget_ns / HELPED_FRACTION } else { 0 };
    let mut pending = JoinSet::new();
    for (slot, mut tenant) in members {
        let inject = |at_ns| ToTenant::Inject { t0_ns, at_ns, until_ns: trial.until_ns };
        let message = match slot.cmp(&last(trial)) {
            std::cmp::Ordering::Less => ToTenant::Go { t0_ns },
            std::cmp::Ordering::Equal => inject(trial.at_ns + later_ns),
            // The helper starts before the signal.
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
    let mut is_abandoned = false;
    while let Some(done) = pending.join_next().await {
        match done.map_err(|error| {
            RunError::Bug(format!("waiting for the answers of a fault trial: {error}"))
        })? {
            (slot, tenant, Some(answer)) => answers.push((slot, tenant, answer)),
            (_, killed, None) => {
                is_abandoned = true;
                handles.abandon(killed.participants()).await?;
                handles.reap().await?;
            }
        }
    }
    if is_abandoned {
        return Err(RunError::Interrupted);
    }
    answers.sort_by_key(|(slot, ..)| *slot);
    Ok(answers)
}

// Processes of a trial without a slot: the helper process before the fault, and the recovery
// client that requests the device after it.

/// Interval of a recovery client's requests, and the time after which it stops: the slowest
/// published recovery of a server took 1.4 s (arXiv 2605.26461).
pub const EVERY_NS: u64 = 1_000_000;
const ACQUIRE_LIMIT_NS: u64 = 10_000_000_000;
/// Longest wait for a context.
const CONTEXT: Duration = Duration::from_secs(60);

/// Opens the helper's context and prepares its role. Returns its data for the injector.
pub async fn arm(
    handles: &RunHandles,
    tenant: &mut Tenant,
    fault: &str,
) -> Result<Option<String>, RunError> {
    let open = ToTenant::Open {
        ordinal: 0,
        spin: false,
        participants: tenant.participants(),
        inside: None,
    };
    let arm = ToTenant::Arm { fault: fault.to_owned(), budget_ns: 0, role: FaultRole::Helper };
    match ask(handles, tenant, &open, CONTEXT).await? {
        FromTenant::Opened { .. } => {}
        other => return Err(tenant.unexpected(&other).into()),
    }
    match ask(handles, tenant, &arm, LIMIT).await? {
        FromTenant::Armed { helper_data } => Ok(helper_data),
        other => Err(tenant.unexpected(&other).into()),
    }
}

/// Has the recovery client request the device, after the injector has ended.
pub async fn acquire_device(
    handles: &RunHandles,
    mut client: Tenant,
    observed: &mut FaultObservation,
) -> Result<Option<NewClient>, RunError> {
    let message = ToTenant::AcquireDevice {
        ordinal: 0,
        participants: client.participants(),
        from_ns: 0,
        every_ns: EVERY_NS,
        limit_ns: ACQUIRE_LIMIT_NS,
    };
    let answer = match ask(handles, &mut client, &message, LIMIT).await {
        Err(RunError::Tenant(error)) => Err(error),
        answer => Ok(answer?),
    };
    let wrong = match &answer {
        Ok(FromTenant::DeviceAcquired { .. }) => None,
        Ok(other) => Some(client.unexpected(other)),
        Err(error) => Some(error.clone()),
    };
    end(handles, client).await?;
    if let Some(wrong) = wrong {
        observed.failure = Some(wrong.to_string());
    }
    match answer {
        Ok(FromTenant::DeviceAcquired { accepted_after_ns, tries, refused_with }) => {
            Ok(Some(NewClient { accepted_after_ns, tries, refused_with }))
        }
        _ => Ok(None),
    }
}

/// Ends an auxiliary process and writes how.
pub async fn end(handles: &RunHandles, mut tenant: Tenant) -> Result<(), RunError> {
    stop(handles, &mut tenant).await?;
    handles.abandon(tenant.participants()).await?;
    handles.reap().await
}

/// Sends an auxiliary process a message and waits for its answer.
async fn ask(
    handles: &RunHandles,
    tenant: &mut Tenant,
    message: &ToTenant,
    limit: Duration,
) -> Result<FromTenant, RunError> {
    ask_auxiliary(handles, tenant, message, "taking part in a fault trial", limit).await
}
