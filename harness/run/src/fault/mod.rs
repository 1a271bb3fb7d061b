//! Fault trials: victims run, a new process (the injector) causes a fault at an instant, and a new
//! client requests the device afterwards. Only observations are written.
//!
//! [`injection`] runs a trial up to the answers and has the processes without a slot,
//! [`host_action`] chooses what the coordinator does at the instant, and [`is_failure`] decides
//! which ends of the injector are failures.

mod injection;

use std::time::Duration;

use gpubench_catalogue::fault;
use gpubench_catalogue::fault::{Class, HostAct};
use gpubench_host::device::Driver;
use gpubench_host::mechanism::InForce;
use gpubench_host::tenant::{Tenant, TenantError};
use gpubench_record::{
    Calibration, Condition, EccCounts, FaultObservation, FaultTrial, FromTenant, InjectorResult,
    RunEvent,
};
use injection::AuxiliaryProcesses;

use super::handles::MechanismLedger;
use super::host_session::{HostSession, MechanismKey};
use super::tenant_set::{TenantSet, name_of};
use super::xids::XidMonitor;
use super::{Observer, RunError, RunHandles, RunPhase, observe};
use crate::fault_scheduler::{HostAction, ScheduledAction};
use crate::tenant_set::note_end;

/// Longest wait for an answer, beyond the length of the trial.
const LIMIT: Duration = Duration::from_secs(120);

/// The same during a trial on the wall clock. It distinguishes a late process from one that hangs:
/// a client of a killed MPS server got no answer within this limit beyond the trial (H100, driver
/// 580).
const LIMIT_WALL: Duration = Duration::from_secs(15);

/// Xids that require a reset of the GPU or a restart of the host (XID catalogue, recovery actions
/// RESET_GPU and RESTART_BM): no further trial may run.
const FATAL_XIDS: &[u32] = &[46, 48, 64, 74, 79, 95, 109, 119, 120, 140, 155, 156, 158];

/// Runs every trial of the plan, until one leaves the GPU in need of a reset.
pub async fn campaign(
    handles: &RunHandles,
    session: &mut HostSession,
    ledger: &mut MechanismLedger,
    xids: &mut XidMonitor,
    calibration: &Calibration,
    observer: &mut dyn Observer,
) -> Result<(), RunError> {
    let recorder = &handles.recorder;
    let mut last_phase = None;
    for trial in &handles.setup.trials_left() {
        if handles.waits.is_stopped() {
            return Ok(());
        }
        let phase = RunPhase::Fault { fault: trial.fault.clone(), variant: trial.variant.clone() };
        if last_phase.as_ref() != Some(&phase) {
            observer.phase(&phase);
            last_phase = Some(phase);
        }
        let id = trial.id.clone();
        let action = recovery_action(handles).await?;
        if let Some(reason) = required_action(action) {
            // The GPU needs a reset already before the fault.
            recorder.event(&RunEvent::FaultTrialsStopped { id, reason })?;
            return Ok(());
        }
        recorder.event(&RunEvent::FaultTrialBegan { id: id.clone() })?;
        let observed = match session.ready(&MechanismKey::from(trial), ledger).await? {
            Ok(tenants) => one(tenants, xids, calibration, trial).await?,
            Err(reason) => {
                FaultObservation { failure: Some(reason), ..FaultObservation::default() }
            }
        };
        let ends = must_end(&observed);
        let service_gone = observed.service_gone == Some(true);
        recorder
            .event(&RunEvent::FaultTrialEnded { id: id.clone(), observed: Box::new(observed) })?;
        if let Some(reason) = ends {
            recorder.event(&RunEvent::FaultTrialsStopped { id, reason })?;
            return Ok(());
        }
        if service_gone || trial.class == Class::Service.as_str() {
            // The next trial sets its mechanism up anew: a daemon can outlive a server that it
            // does not replace.
            session.leave().await?;
        }
    }
    Ok(())
}

/// Why no further trial may run, if there is a reason.
fn must_end(observed: &FaultObservation) -> Option<String> {
    let action = required_action(observed.recovery_action[1]);
    if action.is_some() {
        return action;
    }
    let mut xids = observed.xids.iter().flatten();
    let fatal = xids.find(|xid| FATAL_XIDS.contains(xid))?;
    Some(format!("Xid {fatal} requires a reset"))
}

/// The recovery action that NVML requests, if any.
fn required_action(action: Option<u32>) -> Option<String> {
    let action = action.filter(|action| *action != 0)?;
    Some(format!("NVML requests recovery action {action}"))
}

async fn recovery_action(handles: &RunHandles) -> Result<Option<u32>, RunError> {
    let doing = "reading the recovery action from NVML";
    handles.nvml(doing, Driver::recovery_action).await
}

async fn ecc(handles: &RunHandles) -> Result<EccCounts, RunError> {
    let doing = "reading error counters from NVML";
    handles.nvml(doing, Driver::ecc).await
}

async fn one(
    tenants: &mut TenantSet,
    xids: &mut XidMonitor,
    calibration: &Calibration,
    trial: &FaultTrial,
) -> Result<FaultObservation, RunError> {
    let handles = tenants.handles().clone();
    let mut observed = FaultObservation {
        recovery_action: [recovery_action(&handles).await?, None],
        ecc: [ecc(&handles).await?, EccCounts::default()],
        ..FaultObservation::default()
    };
    let id = &trial.id;
    // Earlier Xids are not this trial's. Those of the cell before were read at its end.
    let earlier = xids.drain(id, &[]).await?;
    let earlier = earlier.numbers.unwrap_or_default();
    if !earlier.is_empty() {
        let text =
            format!("{id}: Xids {earlier:?} before the trial belong to no cell and no trial");
        handles.recorder.warning(text)?;
    }
    let mut auxiliaries = AuxiliaryProcesses::default();
    let ready = injection::prepare(tenants, calibration, trial, &mut observed, &mut auxiliaries);
    let mut in_force = match ready.await {
        Ok(()) => Ok(not_in_force(tenants).await?),
        Err(error) => Err(error),
    };
    // Listed before the fault, which may end the servers.
    let services = match observe::servers(tenants).await? {
        Ok(services) => services,
        // Xids of servers could not be distinguished from those of other processes.
        Err(error) => {
            in_force = in_force.map(|why| why.or(Some(format!("servers are unknown: {error}"))));
            Vec::new()
        }
    };
    match in_force {
        // Without the mechanism in force no fault is injected.
        Ok(Some(why)) => observed.failure = Some(why),
        Ok(None) => {
            injection::inject(tenants, trial, &mut observed, &mut auxiliaries).await?;
            // Each fault has a process of its own, which ends after it.
            tenants.renew(last(trial)).await?;
            if let Some(client) = auxiliaries.recovery_client.take() {
                observed.new_client =
                    injection::acquire_device(&handles, client, &mut observed).await?;
            }
            // Last: a digest must not keep the recovery client waiting.
            tenants.add_outputs(calibration, &mut observed.victims).await?;
        }
        Err(RunError::Tenant(error)) => observed.failure = Some(error.to_string()),
        Err(other) => return Err(other),
    }
    let left = auxiliaries.helper.into_iter();
    for tenant in left.chain(auxiliaries.recovery_client) {
        injection::end(&handles, tenant).await?;
    }
    tenants.renew(last(trial)).await?;
    let drained = xids.drain(id, &services).await?;
    (observed.xids, observed.xid_lines) = (drained.numbers, drained.lines);
    observed.injector.tenant = name_of(last(trial));
    observed.recovery_action[1] = recovery_action(&handles).await?;
    observed.ecc[1] = ecc(&handles).await?;
    let mut ours = tenants.open_pids(&[]);
    // Servers of the mechanism are expected.
    let servers = observe::servers(tenants).await?;
    let has_daemon = tenants.config().set_up.daemon.is_some();
    observed.service_gone = has_daemon.then_some(servers.is_err());
    // A daemon that does not answer is an observation, above. Its servers then count as left
    // behind, as processes of the mechanism that outlive it.
    ours.extend(servers.unwrap_or_default());
    let doing = "reading the remaining processes from NVML";
    // Without a list it is unknown what was left; the tally counts such trials.
    let listed = handles.nvml(doing, Driver::compute_pids).await?.ok();
    observed.left_behind =
        listed.map(|pids| pids.into_iter().filter(|pid| !ours.contains(pid)).collect());
    Ok(observed)
}

/// Why the mechanism is not in force while every process of a trial has a context, if it is not.
async fn not_in_force(tenants: &TenantSet) -> Result<Option<String>, RunError> {
    let Some(mechanism) = tenants.config().mechanism else { return Ok(None) };
    let snapshot = observe::snapshot(tenants).await?;
    let observation = observe::observation(tenants, Condition::C, &snapshot);
    let proofs = mechanism.prove(&tenants.context(), &observation);
    let broken = proofs.into_iter().find(|proof| !proof.holds);
    Ok(broken.map(|broken| format!("not in force: {}: {}", broken.check, broken.evidence)))
}

fn last(trial: &FaultTrial) -> usize {
    trial.tenants.len() - 1
}

// The reports of the injector and the helper process: what each answered, or how it ended.

/// Writes how a helper process ended. Any end but the signal fails the trial.
pub async fn helper_ended(
    handles: &RunHandles,
    tenant: Tenant,
    answer: Result<FromTenant, TenantError>,
    observed: &mut FaultObservation,
) -> Result<(), RunError> {
    let error = match answer {
        Err(error @ TenantError::Ended { .. }) => error,
        Err(error) => {
            observed.failure = Some(error.to_string());
            error
        }
        Ok(_) => {
            let text = "the helper process outlived its signal".to_owned();
            observed.failure = Some(text.clone());
            TenantError::Protocol { tenant: tenant.name().to_owned(), what: text }
        }
    };
    note_end(handles, tenant, &error).await.map(|_| ())
}

/// Records what the injector reported.
pub async fn injected(
    tenants: &mut TenantSet,
    trial: &FaultTrial,
    slot: usize,
    tenant: Tenant,
    answer: Result<FromTenant, TenantError>,
    observed: &mut FaultObservation,
) -> Result<InjectorResult, RunError> {
    let error = match answer {
        Ok(FromTenant::Injected { began_ns, detected_ns, code, later_code }) => {
            tenants.put_back(slot, tenant);
            return Ok(InjectorResult {
                began_ns: Some(began_ns),
                detected_ns: Some(detected_ns),
                code,
                later_code: Some(later_code),
                ..InjectorResult::default()
            });
        }
        Ok(other) => tenant.unexpected(&other),
        Err(error) => error,
    };
    let act = fault::find(&trial.fault).map_or(HostAct::None, |fault| fault.act);
    if is_failure(act, &error) {
        observed.failure = Some(error.to_string());
    }
    let ended = Some(note_end(tenants.handles(), tenant, &error).await?);
    Ok(InjectorResult { ended, ..InjectorResult::default() })
}

// Which ends of the injector come from the fault, and which are a failed trial.

/// Whether an injector without a report fails the trial.
///
/// A fault may end the injector. Silence is a failure, unless the coordinator's action can leave
/// the injector waiting for a killed service.
pub fn is_failure(act: HostAct, error: &TenantError) -> bool {
    match error {
        TenantError::Ended { .. } => false,
        TenantError::Silent { .. } => !act.leaves_waiting(),
        TenantError::Halted { .. } | TenantError::Refused { .. } | TenantError::Protocol { .. } => {
            true
        }
    }
}

// What the coordinator does at the instant of a fault: signals to processes, or a command to MPS.

/// A signal comes this fraction of the budget after the launch of the kernel that it interrupts.
const SIGNAL_FRACTION: u64 = 16;

/// The action of a trial, if it has one, or why it is not possible. Queries the MPS daemon, so it
/// may block.
pub fn host_action(
    trial: &FaultTrial,
    set_up: &InForce,
    pids: &[(usize, u32)],
    t0_ns: u64,
) -> Result<Option<ScheduledAction>, String> {
    let Some(fault) = fault::find(&trial.fault) else { return Ok(None) };
    let pid_of = |slot: usize| {
        let found = pids.iter().find(|(of, _)| *of == slot);
        let pid = found.map(|(_, pid)| *pid);
        pid.ok_or_else(|| format!("slot {slot} has no process to signal"))
    };
    let budget_ns = trial.until_ns - trial.at_ns;
    let at_ns = t0_ns + trial.at_ns;
    let signal_ns = at_ns + budget_ns / SIGNAL_FRACTION;
    let own = last(trial);
    let (at_ns, action) = match fault.act {
        HostAct::None => return Ok(None),
        HostAct::Kill => (signal_ns, kill_tenant(pid_of(own)?)),
        HostAct::Stop => {
            let action = HostAction::StopTenant {
                pid: pid_of(own)?,
                // The injector sleeps until the end of its budget, so no process waits for it.
                until_ns: at_ns + budget_ns / 2,
            };
            (signal_ns, action)
        }
        HostAct::KillVictim => (at_ns, kill_tenant(pid_of(0)?)),
        HostAct::KillHelper => (signal_ns, kill_tenant(pid_of(own + 1)?)),
        HostAct::TerminateClient => (signal_ns, terminate(set_up, pid_of(own)?)),
        HostAct::KillServer => (signal_ns, kill_server(set_up)?),
        HostAct::KillDaemon => (signal_ns, kill_daemon(set_up)?),
    };
    Ok(Some(ScheduledAction { at_ns, action }))
}

fn kill_tenant(pid: u32) -> HostAction {
    HostAction::KillTenant { pid }
}

fn terminate(set_up: &InForce, pid: u32) -> HostAction {
    let set_up = set_up.clone();
    HostAction::Do(Box::new(move || set_up.terminate(pid)))
}

fn kill_server(set_up: &InForce) -> Result<HostAction, String> {
    let pids = set_up.servers()?;
    if pids.is_empty() {
        return Err("the MPS daemon has no server to kill".to_owned());
    }
    let follow = Vec::new();
    Ok(HostAction::KillService { pids, follow })
}

fn kill_daemon(set_up: &InForce) -> Result<HostAction, String> {
    let pids = set_up.daemon_processes()?;
    if pids.is_empty() {
        return Err("no MPS control daemon was found to kill".to_owned());
    }
    let follow = set_up.servers()?;
    Ok(HostAction::KillService { pids, follow })
}

#[cfg(test)]
mod tests {
    use gpubench_record::RefusalKind;

    use super::*;

    #[test]
    fn only_a_required_reset_ends_the_trials() {
        let observed = |action, xids: &[u32]| FaultObservation {
            recovery_action: [Some(0), action],
            xids: Some(xids.to_vec()),
            ..FaultObservation::default()
        };
        for (action, xids, ends) in [
            (Some(0), &[13, 31, 43, 45, 69, 94][..], false),
            (None, &[], false),
            (Some(1), &[], true),
            (Some(0), &[31, 79], true),
            (Some(0), &[109], true),
        ] {
            assert_eq!(must_end(&observed(action, xids)).is_some(), ends, "{xids:?}");
        }
    }

    const ACTS: [HostAct; 8] = [
        HostAct::None,
        HostAct::Kill,
        HostAct::Stop,
        HostAct::KillVictim,
        HostAct::KillHelper,
        HostAct::TerminateClient,
        HostAct::KillServer,
        HostAct::KillDaemon,
    ];

    #[test]
    fn silence_is_a_failure_unless_a_service_was_killed() {
        let silent = TenantError::Silent {
            tenant: "neighbour-1".to_owned(),
            doing: "running a fault trial",
            seconds: 17,
            how: "stopped".to_owned(),
        };
        let failing = ACTS.map(|act| is_failure(act, &silent));
        assert_eq!(failing, [true, true, true, true, true, true, false, false]);
    }

    #[test]
    fn an_end_is_no_failure_and_a_wrong_answer_always_is() {
        let (tenant, what) = ("neighbour-1".to_owned(), "replied yes".to_owned());
        let ended =
            TenantError::Ended { tenant: tenant.clone(), how: "killed by signal 9".to_owned() };
        let refused = TenantError::Refused {
            tenant: tenant.clone(),
            doing: "injecting".to_owned(),
            what: what.clone(),
            kind: RefusalKind::Driver { code: 2 },
        };
        let protocol = TenantError::Protocol { tenant, what };
        for act in ACTS {
            assert!(!is_failure(act, &ended), "{act:?}");
            assert!(is_failure(act, &refused), "{act:?}");
            assert!(is_failure(act, &protocol), "{act:?}");
        }
    }
}
