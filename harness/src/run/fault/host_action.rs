//! What the coordinator does at the instant of a fault: signals to processes, or a command to MPS.

use gpubench_record::FaultTrial;
use gpubench_workloads::fault::{self, HostAct};

use super::last;
use crate::mechanism::InForce;
use crate::run::fault_scheduler::{HostAction, ScheduledAction};

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
    let Some(fault) = fault::find(&trial.fault) else {
        return Ok(None);
    };
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
