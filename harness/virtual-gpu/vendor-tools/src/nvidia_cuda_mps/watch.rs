//! The daemon's main thread: removes dead servers and clients, logs faults, ends servers without
//! clients on request, and ends the daemon.

use std::sync::PoisonError;
use std::time::Duration;

use super::MpsError;
use super::act;
use super::daemon::{Daemon, Shared};
use super::log::Which;
use gpubench_virtual_gpu_driver::host_process::monotonic_ns;
use gpubench_virtual_gpu_driver::session::STATE_FILE;
use gpubench_virtual_gpu_model::mps;
use gpubench_virtual_gpu_model::state::{SERVERS, ServerState};

/// Interval of its checks, in real time, like everything about processes.
const TICK: Duration = Duration::from_millis(20);
/// Number of ticks between checks for dead clients and for the end of the device.
const REAP_TICKS: u32 = 5;
/// Xid of memory faults, for which the log names the client; for other faults the vendor names none
/// (MPS documentation, "Error containment").
const XID_MEMORY: u32 = 31;

/// Runs until the daemon quits and every server has ended.
pub fn watch(daemon: &Daemon) -> Result<(), MpsError> {
    let state_file = daemon.device.dir().join(STATE_FILE);
    let mut logged = Logged::now(daemon)?;
    for tick in 0_u32.. {
        let waited = daemon.changed.wait_timeout(daemon.shared(), TICK);
        let mut shared = waited.unwrap_or_else(PoisonError::into_inner).0;
        daemon.remove_dead_servers(&mut shared)?;
        if tick.is_multiple_of(REAP_TICKS) {
            if !state_file.exists() {
                return Ok(());
            }
            daemon.device.reap_dead_processes()?;
        }
        logged.log_changes(daemon, &shared)?;
        end_servers(daemon, &mut shared)?;
        if shared.quit_ns.is_some() && shared.servers.is_empty() {
            break;
        }
    }
    act(&daemon.device, |state| {
        mps::remove_daemon(state, daemon.row);
    })?;
    Ok(())
}

fn end_servers(daemon: &Daemon, shared: &mut Shared) -> Result<(), MpsError> {
    let forced = shared.quit_ns.is_some_and(|at| monotonic_ns() >= at);
    let quitting = shared.quit_ns.is_some();
    let mut index = 0;
    while index < shared.servers.len() {
        let server = &shared.servers[index];
        let row = server.process.row;
        let idle = daemon.device.transact(|state, _| mps::clients(state, row).is_empty())?;
        if forced || (server.ending || quitting) && idle {
            stop(daemon, shared, index)?;
        } else {
            index += 1;
        }
    }
    Ok(())
}

/// Ends one server now, with or without clients.
pub fn stop(daemon: &Daemon, shared: &mut Shared, index: usize) -> Result<(), MpsError> {
    let process = shared.servers.remove(index).process;
    let pid = process.pid();
    process.stop();
    daemon.note(Which::Control, &format!("Server {pid} exited with status 0"));
    daemon.device.reap_dead_processes()?;
    Ok(())
}

struct Logged {
    xids: u64,
    faulty: [bool; SERVERS],
}

impl Logged {
    fn now(daemon: &Daemon) -> Result<Self, MpsError> {
        let xids = daemon.device.transact(|state, _| state.xids_raised)?;
        Ok(Self { xids, faulty: [false; SERVERS] })
    }

    /// Logs faults of clients, and servers that enter or leave the fault state.
    fn log_changes(&mut self, daemon: &Daemon, shared: &Shared) -> Result<(), MpsError> {
        let (raised, news, states) = daemon.device.transact(|state, _| {
            let states = shared.servers.iter().map(|server| {
                let row = server.process.row as usize;
                (server.process.pid(), row, state.servers.rows[row].state)
            });
            let states: Vec<_> = states.collect();
            (state.xids_raised, state.xids_since(self.xids), states)
        })?;
        self.xids = raised;
        let servers: Vec<u32> = states.iter().map(|(pid, ..)| *pid).collect();
        let is_ours = |pid: &u32| shared.clients.contains(pid) || servers.contains(pid);
        for xid in news.iter().filter(|xid| is_ours(&xid.pid)) {
            let who = if xid.number == XID_MEMORY && !servers.contains(&xid.pid) {
                format!("client {}", xid.pid)
            } else {
                "a client".to_owned()
            };
            let text = format!("fatal fault of {who} (Xid {})", xid.number);
            daemon.note(Which::Server, &text);
        }
        for (pid, row, state) in states {
            let faulty = state == ServerState::Fault;
            if faulty != std::mem::replace(&mut self.faulty[row], faulty) {
                let word = if faulty { "FAULT" } else { "ACTIVE" };
                daemon.note(Which::Server, &format!("server {pid} is {word}"));
            }
        }
        Ok(())
    }
}
