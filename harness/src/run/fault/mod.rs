//! Fault trials: victims that run, a fresh process that breaks something at an instant, and a fresh
//! client that asks for the device afterwards. Only what was seen is written down.
//!
//! [`strike`] holds a trial up to the answers, [`errand`] is what the coordinator does at the
//! instant, [`guest`] has the processes beside the tenants, [`end`] says which ends of the
//! process that was struck are no failure.

mod auxiliary;
mod host_action;
mod injection;
mod injector_end;

use std::time::Duration;

use gpubench_record::{Calibration, EccCounts, FaultSeen, FaultTrial, RunEvent};

use super::device_processes::DeviceProcesses;
use super::host_session::HostSession;
use super::observe::Serving;
use super::tenant_set::{TenantSet, name_of};
use super::{Observer, Run, RunError, observe};
use injection::AuxiliaryProcesses;

/// Longest wait for an answer, beside what the trial itself takes.
const LIMIT: Duration = Duration::from_secs(120);

/// The same while a trial goes on by the wall clock. Some wait for what is broken and are told from
/// the late by it: a client of MPS whose server was killed had no answer after more than this and
/// the trial (H100, driver 580).
const LIMIT_WALL: Duration = Duration::from_secs(15);

/// Xids after which the GPU or the host has to be reset or restarted (XID catalogue, recovery
/// actions RESET_GPU and RESTART_BM): no further trial may run.
const FATAL_XIDS: &[u32] = &[46, 48, 64, 74, 79, 95, 109, 119, 120, 140, 155, 156, 158];

/// Holds every trial of the plan, unless one shows that the GPU is in no state for more.
pub async fn campaign(
    run: &mut Run,
    session: &mut HostSession,
    calibration: &Calibration,
    observer: &mut dyn Observer,
) -> Result<(), RunError> {
    let mut told = (String::new(), String::new());
    for trial in run.setup.plan.fault_trials.clone() {
        if *run.stop.borrow() {
            return Ok(());
        }
        let what = (trial.cell.variant.clone(), trial.fault.clone());
        if told != what {
            observer.stage(&format!("fault {} under {}", what.1, what.0));
            told = what;
        }
        let id = trial.cell.id.clone();
        if let Some(reason) = asks_for_action(run.setup.nvml.recovery_action()) {
            // It was so before anything was broken here, and nothing more may be.
            run.events
                .append(&RunEvent::FaultTrialsStopped { id, reason })?;
            return Ok(());
        }
        run.events
            .append(&RunEvent::FaultTrialBegan { id: id.clone() })?;
        let seen = match session.ready(run, &trial.cell).await? {
            Ok(tenants) => one(run, tenants, calibration, &trial).await?,
            Err(reason) => FaultSeen {
                failure: Some(reason),
                ..FaultSeen::default()
            },
        };
        let ends = must_end(&seen);
        let service_gone = seen.service_gone == Some(true);
        run.events.append(&RunEvent::FaultTrialEnded {
            id: id.clone(),
            seen: Box::new(seen),
        })?;
        if let Some(reason) = ends {
            run.events
                .append(&RunEvent::FaultTrialsStopped { id, reason })?;
            return Ok(());
        }
        if service_gone {
            // The next trial sets its mechanism up anew.
            session.leave(run).await?;
        }
    }
    Ok(())
}

/// Why no further trial may run, if so.
fn must_end(seen: &FaultSeen) -> Option<String> {
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

/// Holds one trial.
async fn one(
    run: &mut Run,
    tenants: &mut TenantSet,
    calibration: &Calibration,
    trial: &FaultTrial,
) -> Result<FaultSeen, RunError> {
    let mut seen = FaultSeen {
        recovery_action: [run.setup.nvml.recovery_action(), None],
        ecc: [run.setup.nvml.ecc(), EccCounts::default()],
        ..FaultSeen::default()
    };
    let id = &trial.cell.id;
    // What came before is not this trial's.
    run.drain_xids(id)?;
    run.drain_xid_lines(id, &[])?;
    let mut auxiliaries = AuxiliaryProcesses::default();
    let ready = injection::prepare(
        run,
        tenants,
        calibration,
        trial,
        &mut seen,
        &mut auxiliaries,
    )
    .await;
    let in_force = ready.map(|()| not_in_force(run, tenants, trial));
    // Those that the fault ends are not there to be asked for afterwards.
    let services = tenants.config().set_up.servers().unwrap_or_default();
    match in_force {
        // Nothing is broken for a trial that would say nothing about its mechanism.
        Ok(Some(why)) => seen.failure = Some(why),
        Ok(None) => {
            injection::inject(run, tenants, trial, &mut seen, &mut auxiliaries).await?;
            // One process for each fault, however well it took it.
            tenants.renew(run, last(trial)).await?;
            if let Some(client) = auxiliaries.recovery_client.take() {
                seen.new_client = auxiliary::arrive(run, client, &mut seen).await?;
            }
        }
        Err(RunError::Tenant(error)) => seen.failure = Some(error.to_string()),
        Err(other) => return Err(other),
    }
    for tenant in auxiliaries
        .helper
        .into_iter()
        .chain(auxiliaries.recovery_client)
    {
        auxiliary::end(run, tenant).await?;
    }
    tenants.renew(run, last(trial)).await?;
    seen.xids = run.drain_xids(id)?;
    seen.xid_lines = run.drain_xid_lines(id, &services)?;
    seen.struck.tenant = name_of(last(trial));
    seen.recovery_action[1] = run.setup.nvml.recovery_action();
    seen.ecc[1] = run.setup.nvml.ecc();
    let mut ours = tenants.open_pids(&[]);
    // A server of the mechanism belongs there.
    let set_up = &tenants.config().set_up;
    let servers = set_up.servers();
    seen.service_gone = set_up.daemon.is_some().then_some(servers.is_err());
    ours.extend(servers.unwrap_or_default());
    let listed = run.setup.nvml.compute_pids().ok();
    seen.left_behind =
        listed.map(|pids| pids.into_iter().filter(|pid| !ours.contains(pid)).collect());
    Ok(seen)
}

/// Why the mechanism is not in force while everybody of a trial has a context, if it is not.
fn not_in_force(run: &Run, tenants: &TenantSet, trial: &FaultTrial) -> Option<String> {
    let mechanism = tenants.config().mechanism?;
    let on_device = DeviceProcesses::now(&run.setup.nvml);
    let serving = Serving::now(tenants);
    let around = observe::seen(run, tenants, trial.cell.condition, &on_device, &serving);
    let proofs = mechanism.prove(&run.setup.host.asked(), &around);
    let broken = proofs.into_iter().find(|proof| !proof.holds)?;
    Some(format!(
        "not in force: {}: {}",
        broken.check, broken.evidence
    ))
}

/// The place in which the fault happens.
fn last(trial: &FaultTrial) -> usize {
    trial.cell.tenants.len() - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_asks_for_a_reset_ends_the_trials() {
        let seen = |action, xids: &[u32]| FaultSeen {
            recovery_action: [Some(0), action],
            xids: Some(xids.to_vec()),
            ..FaultSeen::default()
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
