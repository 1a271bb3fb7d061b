//! The daemon's main thread: notices dead servers and clients, logs faults, ends servers that are
//! to end when their clients have left, and in the end itself.

use std::sync::PoisonError;
use std::time::Duration;

use super::MpsdError;
use super::act;
use super::daemon::{Daemon, Inside};
use super::log::Which;
use gpubench_virtual_gpu_driver::host_process::monotonic_ns;
use gpubench_virtual_gpu_driver::session::STATE_FILE;
use gpubench_virtual_gpu_model::mps;
use gpubench_virtual_gpu_model::state::{SERVERS, ServerState};

/// How often it looks. Real time, like everything around processes.
const TICK: Duration = Duration::from_millis(20);
/// Every so many ticks it looks for dead clients, and whether the device is still there.
const SELDOM: u32 = 5;
/// Xid of faults whose cause is a memory access; for others the culprit is not told (MPS
/// documentation, "Error containment").
const XID_MEMORY: u32 = 31;

/// Watches until the daemon was told to quit and every server has ended.
pub fn watch(daemon: &Daemon) -> Result<(), MpsdError> {
    let state_file = daemon.device.dir().join(STATE_FILE);
    let mut seen = Seen::now(daemon)?;
    for tick in 0_u32.. {
        let waited = daemon.changed.wait_timeout(daemon.inside(), TICK);
        let mut inside = waited.unwrap_or_else(PoisonError::into_inner).0;
        daemon.forget_dead(&mut inside)?;
        if tick.is_multiple_of(SELDOM) {
            if !state_file.exists() {
                return Ok(());
            }
            daemon.device.reap_dead_processes()?;
        }
        seen.log_news(daemon, &inside)?;
        end_servers(daemon, &mut inside)?;
        if inside.quit_ns.is_some() && inside.servers.is_empty() {
            break;
        }
    }
    act(&daemon.device, |state| {
        mps::remove_daemon(state, daemon.row);
    })?;
    Ok(())
}

/// Ends servers whose time has come.
fn end_servers(daemon: &Daemon, inside: &mut Inside) -> Result<(), MpsdError> {
    let forced = inside.quit_ns.is_some_and(|at| monotonic_ns() >= at);
    let quitting = inside.quit_ns.is_some();
    let mut index = 0;
    while index < inside.servers.len() {
        let server = &inside.servers[index];
        let row = server.process.row;
        let idle = daemon
            .device
            .transact(|state, _| mps::clients(state, row).is_empty())?;
        if forced || (server.ending || quitting) && idle {
            stop(daemon, inside, index)?;
        } else {
            index += 1;
        }
    }
    Ok(())
}

/// Ends one server now, whoever its clients are.
pub fn stop(daemon: &Daemon, inside: &mut Inside, index: usize) -> Result<(), MpsdError> {
    let process = inside.servers.remove(index).process;
    let pid = process.pid();
    process.stop();
    daemon.note(Which::Server, &format!("server {pid} stopped"));
    daemon.device.reap_dead_processes()?;
    Ok(())
}

/// What has been logged already.
struct Seen {
    xids: u64,
    faulty: [bool; SERVERS],
}

impl Seen {
    fn now(daemon: &Daemon) -> Result<Self, MpsdError> {
        let xids = daemon.device.transact(|state, _| state.xids_raised)?;
        Ok(Self {
            xids,
            faulty: [false; SERVERS],
        })
    }

    /// Logs faults of clients, and servers that came to a fault or out of it.
    fn log_news(&mut self, daemon: &Daemon, inside: &Inside) -> Result<(), MpsdError> {
        let (raised, news, states) = daemon.device.transact(|state, _| {
            let states = inside.servers.iter().map(|server| {
                let row = server.process.row as usize;
                (server.process.pid(), row, state.servers.rows[row].state)
            });
            let states: Vec<_> = states.collect();
            (state.xids_raised, state.xids_since(self.xids), states)
        })?;
        self.xids = raised;
        for xid in news.iter().filter(|xid| inside.clients.contains(&xid.pid)) {
            let who = if xid.number == XID_MEMORY {
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
