//! What the coordinator does at the instant of a fault: whom it signals, or what it tells MPS.

use gpubench_record::FaultTrial;
use gpubench_workloads::fault::{self, HostAct};

use super::last;
use crate::mechanism::InForce;
use crate::run::crew::Terms;
use crate::run::hangman::{Deed, Errand};
use crate::tenant::Tenant;

/// A signal comes this part of the budget after the kernel was launched that it shall meet.
const SIGNAL_PART: u64 = 16;

/// The errand of a trial, if it has one; why it cannot be done, if it cannot.
pub fn errand(
    trial: &FaultTrial,
    terms: &Terms,
    tenants: &[(usize, Tenant)],
    t0_ns: u64,
) -> Result<Option<Errand>, String> {
    let Some(fault) = fault::find(&trial.fault) else {
        return Ok(None);
    };
    let pid_of = |place: usize| {
        let found = tenants.iter().find(|(p, _)| *p == place);
        let pid = found.map(|(_, tenant)| tenant.pid());
        pid.ok_or_else(|| format!("nobody is in place {place} to be signalled"))
    };
    let budget_ns = trial.until_ns - trial.at_ns;
    let at_ns = t0_ns + trial.at_ns;
    let meets_ns = at_ns + budget_ns / SIGNAL_PART;
    let own = last(trial);
    let (at_ns, deed) = match fault.act {
        HostAct::None => return Ok(None),
        HostAct::Kill => (meets_ns, kill_tenant(pid_of(own)?)),
        HostAct::Stop => {
            let deed = Deed::StopTenant {
                pid: pid_of(own)?,
                // It sleeps until the end of its budget by then, so nobody waits for it meanwhile.
                until_ns: at_ns + budget_ns / 2,
            };
            (meets_ns, deed)
        }
        HostAct::KillVictim => (at_ns, kill_tenant(pid_of(0)?)),
        HostAct::KillAccomplice => (meets_ns, kill_tenant(pid_of(own + 1)?)),
        HostAct::TerminateClient => (meets_ns, terminate(&terms.set_up, pid_of(own)?)),
        HostAct::KillServer => (meets_ns, kill_server(&terms.set_up)?),
        HostAct::KillDaemon => (meets_ns, kill_daemon(&terms.set_up)?),
    };
    Ok(Some(Errand { at_ns, deed }))
}

fn kill_tenant(pid: u32) -> Deed {
    Deed::KillTenant { pid }
}

fn terminate(set_up: &InForce, pid: u32) -> Deed {
    let set_up = set_up.clone();
    Deed::Do(Box::new(move || set_up.terminate(pid)))
}

fn kill_server(set_up: &InForce) -> Result<Deed, String> {
    let pids = set_up.servers()?;
    if pids.is_empty() {
        return Err("the MPS daemon has no server to be killed".to_owned());
    }
    let follow = Vec::new();
    Ok(Deed::KillService { pids, follow })
}

fn kill_daemon(set_up: &InForce) -> Result<Deed, String> {
    let pids = set_up.daemon_processes()?;
    if pids.is_empty() {
        return Err("no MPS control daemon was found to be killed".to_owned());
    }
    let follow = set_up.servers()?;
    Ok(Deed::KillService { pids, follow })
}
