//! Fault trials: victims that run, a fresh process that causes a fault at an instant, and a fresh
//! client that asks for the device afterwards. Only observations are written.
//!
//! [`injection`] runs a trial up to the answers, [`host_action`] is what the coordinator does at
//! the instant, [`auxiliary`] has the processes without a slot, [`injector_end`] tells which ends
//! of the injector are no failure.

mod auxiliary;
mod host_action;
mod injection;
mod injector_end;
mod reports;

use std::time::Duration;

use gpubench_record::{Calibration, Condition, EccCounts, FaultObservation, FaultTrial, RunEvent};

use super::device_processes::DeviceProcesses;
use super::host_session::{HostSession, MechanismKey};
use super::ledger::MechanismLedger;
use super::observe::{self, Serving};
use super::tenant_set::{TenantSet, name_of};
use super::xids::XidMonitor;
use super::{Observer, RunError, RunHandles, RunPhase};
use crate::device::Nvml;
use injection::AuxiliaryProcesses;

/// Longest wait for an answer, beside what the trial itself takes.
const LIMIT: Duration = Duration::from_secs(120);

/// The same while a trial goes on by the wall clock. Some processes wait for what is broken, which
/// this limit tells from lateness: a client of MPS whose server was killed had no answer after more
/// than this and the trial (H100, driver 580).
const LIMIT_WALL: Duration = Duration::from_secs(15);

/// Xids after which the GPU or the host has to be reset or restarted (XID catalogue, recovery
/// actions RESET_GPU and RESTART_BM): no further trial may run.
const FATAL_XIDS: &[u32] = &[46, 48, 64, 74, 79, 95, 109, 119, 120, 140, 155, 156, 158];

/// Runs every trial of the plan, unless one shows that the GPU is in no state for more.
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
    for trial in &handles.setup.plan.fault_trials {
        if handles.waits.is_stopped() {
            return Ok(());
        }
        let phase = RunPhase::Fault {
            fault: trial.fault.clone(),
            variant: trial.variant.clone(),
        };
        if last_phase.as_ref() != Some(&phase) {
            observer.phase(&phase);
            last_phase = Some(phase);
        }
        let id = trial.id.clone();
        let action = recovery_action(handles).await?;
        if let Some(reason) = asks_for_action(action) {
            // The GPU asked for it before any fault of this run; no fault may follow.
            recorder.event(&RunEvent::FaultTrialsStopped { id, reason })?;
            return Ok(());
        }
        recorder.event(&RunEvent::FaultTrialBegan { id: id.clone() })?;
        let seen = match session.ready(&MechanismKey::from(trial), ledger).await? {
            Ok(tenants) => one(tenants, xids, calibration, trial).await?,
            Err(reason) => FaultObservation {
                failure: Some(reason),
                ..FaultObservation::default()
            },
        };
        let ends = must_end(&seen);
        let service_gone = seen.service_gone == Some(true);
        recorder.event(&RunEvent::FaultTrialEnded {
            id: id.clone(),
            observed: Box::new(seen),
        })?;
        if let Some(reason) = ends {
            recorder.event(&RunEvent::FaultTrialsStopped { id, reason })?;
            return Ok(());
        }
        if service_gone {
            // The next trial sets its mechanism up anew.
            session.leave().await?;
        }
    }
    Ok(())
}

/// Why no further trial may run, if so.
fn must_end(seen: &FaultObservation) -> Option<String> {
    let action = asks_for_action(seen.recovery_action[1]);
    if action.is_some() {
        return action;
    }
    let mut xids = seen.xids.iter().flatten();
    let fatal = xids.find(|xid| FATAL_XIDS.contains(xid))?;
    Some(format!("Xid {fatal} asks for a reset"))
}

/// What NVML says must be done to the GPU, if anything.
fn asks_for_action(action: Option<u32>) -> Option<String> {
    let action = action.filter(|action| *action != 0)?;
    Some(format!("NVML asks for recovery action {action}"))
}

async fn recovery_action(handles: &RunHandles) -> Result<Option<u32>, RunError> {
    let doing = "asking NVML for the recovery action";
    handles.nvml(doing, Nvml::recovery_action).await
}

async fn ecc(handles: &RunHandles) -> Result<EccCounts, RunError> {
    let doing = "asking NVML for errors of memory";
    handles.nvml(doing, Nvml::ecc).await
}

/// Runs one trial.
async fn one(
    tenants: &mut TenantSet,
    xids: &mut XidMonitor,
    calibration: &Calibration,
    trial: &FaultTrial,
) -> Result<FaultObservation, RunError> {
    let handles = tenants.handles().clone();
    let mut seen = FaultObservation {
        recovery_action: [recovery_action(&handles).await?, None],
        ecc: [ecc(&handles).await?, EccCounts::default()],
        ..FaultObservation::default()
    };
    let id = &trial.id;
    // Earlier Xids are not this trial's.
    xids.drain(id, &[]).await?;
    let mut auxiliaries = AuxiliaryProcesses::default();
    let ready = injection::prepare(tenants, calibration, trial, &mut seen, &mut auxiliaries);
    let in_force = match ready.await {
        Ok(()) => Ok(not_in_force(tenants).await?),
        Err(error) => Err(error),
    };
    // Servers that the fault ends cannot be asked for afterwards.
    let services = observe::servers(tenants).await?.unwrap_or_default();
    match in_force {
        // A trial that would say nothing about its mechanism has no fault.
        Ok(Some(why)) => seen.failure = Some(why),
        Ok(None) => {
            injection::inject(tenants, trial, &mut seen, &mut auxiliaries).await?;
            // One process for each fault, even if it survived.
            tenants.renew(last(trial)).await?;
            if let Some(client) = auxiliaries.recovery_client.take() {
                seen.new_client = auxiliary::arrive(&handles, client, &mut seen).await?;
            }
        }
        Err(RunError::Tenant(error)) => seen.failure = Some(error.to_string()),
        Err(other) => return Err(other),
    }
    let left = auxiliaries.helper.into_iter();
    for tenant in left.chain(auxiliaries.recovery_client) {
        auxiliary::end(&handles, tenant).await?;
    }
    tenants.renew(last(trial)).await?;
    let drained = xids.drain(id, &services).await?;
    (seen.xids, seen.xid_lines) = (drained.numbers, drained.lines);
    seen.injector.tenant = name_of(last(trial));
    seen.recovery_action[1] = recovery_action(&handles).await?;
    seen.ecc[1] = ecc(&handles).await?;
    let mut ours = tenants.open_pids(&[]);
    // A server of the mechanism belongs there.
    let servers = observe::servers(tenants).await?;
    let has_daemon = tenants.config().set_up.daemon.is_some();
    seen.service_gone = has_daemon.then_some(servers.is_err());
    ours.extend(servers.unwrap_or_default());
    let doing = "asking NVML for processes that are left";
    let listed = handles.nvml(doing, Nvml::compute_pids).await?.ok();
    seen.left_behind =
        listed.map(|pids| pids.into_iter().filter(|pid| !ours.contains(pid)).collect());
    Ok(seen)
}

/// Why the mechanism is not in force while every process of a trial has a context, if it is not.
async fn not_in_force(tenants: &TenantSet) -> Result<Option<String>, RunError> {
    let Some(mechanism) = tenants.config().mechanism else {
        return Ok(None);
    };
    let handles = tenants.handles();
    let doing = "asking NVML for the processes on the device";
    let on_device = handles.nvml(doing, DeviceProcesses::now).await?;
    let serving = Serving::now(tenants).await?;
    let around = observe::seen(tenants, Condition::C, &on_device, &serving);
    let proofs = mechanism.prove(&handles.setup.host.context(), &around);
    let broken = proofs.into_iter().find(|proof| !proof.holds);
    Ok(broken.map(|broken| format!("not in force: {}: {}", broken.check, broken.evidence)))
}

/// The slot of the injector.
fn last(trial: &FaultTrial) -> usize {
    trial.tenants.len() - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_asks_for_a_reset_ends_the_trials() {
        let seen = |action, xids: &[u32]| FaultObservation {
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
            assert_eq!(must_end(&seen(action, xids)).is_some(), ends, "{xids:?}");
        }
    }
}
