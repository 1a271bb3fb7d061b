//! Fault trials: victims run, a new process (the injector) causes a fault at an instant, and a new
//! client requests the device afterwards. Only observations are written.
//!
//! [`injection`] runs a trial up to the answers, [`host_action`] chooses what the coordinator does
//! at the instant, [`auxiliary`] has the processes without a slot, [`injector_end`] decides which
//! ends of the injector are failures.

mod auxiliary;
mod host_action;
mod injection;
mod injector_end;
mod reports;

use std::time::Duration;

use gpubench_record::{Calibration, Condition, EccCounts, FaultObservation, FaultTrial, RunEvent};
use gpubench_workloads::fault::Class;

use super::host_session::{HostSession, MechanismKey};
use super::ledger::MechanismLedger;
use super::observe;
use super::tenant_set::{TenantSet, name_of};
use super::xids::XidMonitor;
use super::{Observer, RunError, RunHandles, RunPhase};
use crate::device::Nvml;
use injection::AuxiliaryProcesses;

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
    handles.nvml(doing, Nvml::recovery_action).await
}

async fn ecc(handles: &RunHandles) -> Result<EccCounts, RunError> {
    let doing = "reading error counters from NVML";
    handles.nvml(doing, Nvml::ecc).await
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
                    auxiliary::acquire_device(&handles, client, &mut observed).await?;
            }
        }
        Err(RunError::Tenant(error)) => observed.failure = Some(error.to_string()),
        Err(other) => return Err(other),
    }
    let left = auxiliaries.helper.into_iter();
    for tenant in left.chain(auxiliaries.recovery_client) {
        auxiliary::end(&handles, tenant).await?;
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
    let listed = handles.nvml(doing, Nvml::compute_pids).await?.ok();
    observed.left_behind =
        listed.map(|pids| pids.into_iter().filter(|pid| !ours.contains(pid)).collect());
    Ok(observed)
}

/// Why the mechanism is not in force while every process of a trial has a context, if it is not.
async fn not_in_force(tenants: &TenantSet) -> Result<Option<String>, RunError> {
    let Some(mechanism) = tenants.config().mechanism else {
        return Ok(None);
    };
    let handles = tenants.handles();
    let snapshot = observe::snapshot(tenants).await?;
    let observation = observe::observation(tenants, Condition::C, &snapshot);
    let proofs = mechanism.prove(&handles.setup.host.context(), &observation);
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
}
