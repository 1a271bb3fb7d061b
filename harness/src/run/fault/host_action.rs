//! What the coordinator does at the instant of a fault: whom it signals, or what it tells MPS.

use gpubench_record::FaultTrial;
use gpubench_workloads::fault::{self, HostAct};

use super::last;
use crate::mechanism::InForce;
use crate::run::fault_scheduler::{HostAction, ScheduledAction};
use crate::run::tenant_set::TenantConfig;
use crate::tenant::Tenant;

/// A signal comes this part of the budget after the kernel was launched that it shall meet.
const SIGNAL_PART: u64 = 16;

/// The errand of a trial, if it has one; why it cannot be done, if it cannot.
pub fn host_action(
    trial: &FaultTrial,
    config: &TenantConfig,
    tenants: &[(usize, Tenant)],
    t0_ns: u64,
) -> Result<Option<ScheduledAction>, String> {
    let Some(fault) = fault::find(&trial.fault) else {
        return Ok(None);
    };
    let pid_of = |slot: usize| {
        let found = tenants.iter().find(|(p, _)| *p == slot);
        let pid = found.map(|(_, tenant)| tenant.pid());
        pid.ok_or_else(|| format!("nobody is in slot {slot} to be signalled"))
    };
    let budget_ns = trial.until_ns - trial.at_ns;
    let at_ns = t0_ns + trial.at_ns;
    let meets_ns = at_ns + budget_ns / SIGNAL_PART;
    let own = last(trial);
    let (at_ns, action) = match fault.act {
        HostAct::None => return Ok(None),
        HostAct::Kill => (meets_ns, kill_tenant(pid_of(own)?)),
        HostAct::Stop => {
            let action = HostAction::StopTenant {
                pid: pid_of(own)?,
                // It sleeps until the end of its budget by then, so nobody waits for it meanwhile.
                until_ns: at_ns + budget_ns / 2,
            };
            (meets_ns, action)
        }
        HostAct::KillVictim => (at_ns, kill_tenant(pid_of(0)?)),
        HostAct::KillHelper => (meets_ns, kill_tenant(pid_of(own + 1)?)),
        HostAct::TerminateClient => (meets_ns, terminate(&config.set_up, pid_of(own)?)),
        HostAct::KillServer => (meets_ns, kill_server(&config.set_up)?),
        HostAct::KillDaemon => (meets_ns, kill_daemon(&config.set_up)?),
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
        return Err("the MPS daemon has no server to be killed".to_owned());
    }
    let follow = Vec::new();
    Ok(HostAction::KillService { pids, follow })
}

fn kill_daemon(set_up: &InForce) -> Result<HostAction, String> {
    let pids = set_up.daemon_processes()?;
    if pids.is_empty() {
        return Err("no MPS control daemon was found to be killed".to_owned());
    }
    let follow = set_up.servers()?;
    Ok(HostAction::KillService { pids, follow })
}
