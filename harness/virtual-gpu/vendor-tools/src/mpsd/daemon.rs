//! A control daemon and its servers, as its threads share them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::log::{Log, Which};
use super::named::{Named, NamespaceId};
use super::serve::from_outside::Process;
use super::{MpsdError, Programs};
use gpubench_virtual_gpu_driver::device::Device;
use gpubench_virtual_gpu_driver::host_process::monotonic_ns;
use gpubench_virtual_gpu_driver::placement;
use gpubench_virtual_gpu_model::mps::Wish;

/// How long a client waits for another user's server to become free. Its own patience is longer.
const BUSY_NS: u64 = 8_000_000_000;
/// How often a waiting client looks again.
const PACE: Duration = Duration::from_millis(20);

/// A running daemon.
pub struct Daemon {
    /// The device.
    pub device: Device,
    /// Its row.
    pub row: u32,
    /// Static partitions instead of percentages.
    pub static_partitions: bool,
    /// One server for all users.
    pub(super) multiuser: bool,
    /// User that it runs as.
    pub uid: u32,
    /// Version of the interface that it speaks.
    pub(super) protocol: u32,
    /// Its pipe directory.
    pub pipe: PathBuf,
    pub(super) programs: Programs,
    pub(super) log: Log,
    pub(super) inside: Mutex<Inside>,
    /// Told when a command wants the main thread to look.
    pub changed: Condvar,
}

/// What the threads of a daemon share.
#[derive(Default)]
pub struct Inside {
    /// Its servers' processes.
    pub servers: Vec<Running>,
    /// Those of the servers that have names.
    pub named: Vec<Named>,
    /// Everybody who ever asked for a server, for the log.
    pub clients: BTreeSet<u32>,
    /// Where those stand who asked for one with a name, by process id.
    pub namespaces_of: BTreeMap<u32, NamespaceId>,
    /// When set, the daemon ends with its servers, by force at that instant.
    pub quit_ns: Option<u64>,
}

/// One server.
pub struct Running {
    /// Its process.
    pub process: Process,
    /// It takes no clients any more and ends when they have left.
    pub ending: bool,
}

impl Daemon {
    /// What the threads share.
    pub fn inside(&self) -> MutexGuard<'_, Inside> {
        // Between statements it is whole, whatever became of a thread.
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a line in a log.
    pub fn note(&self, which: Which, text: &str) {
        self.log.write(which, self.device.now_ns(), text);
    }

    /// The answer to a client: its server, or that it is refused.
    pub fn welcome(&self, pid: u32, uid: u32, namespace_id: Option<&NamespaceId>) -> String {
        let found = match namespace_id {
            Some(namespace_id) => self.named(uid, namespace_id),
            None => self.server(uid).map(|row| (row, Wish::default())),
        };
        match found {
            Ok((row, bounds)) => {
                let mut inside = self.inside();
                inside.clients.insert(pid);
                match namespace_id {
                    Some(namespace_id) => {
                        _ = inside.namespaces_of.insert(pid, namespace_id.clone())
                    }
                    None => _ = inside.namespaces_of.remove(&pid),
                }
                drop(inside);
                self.note(
                    Which::Control,
                    &format!("client {pid} of user {uid}: server row {row}"),
                );
                placement::admitted(row, &bounds)
            }
            Err(error) => {
                self.note(
                    Which::Control,
                    &format!("client {pid} of user {uid} refused: {error}"),
                );
                format!("refused {error}\n")
            }
        }
    }

    /// The row of a server with a name, and what clients of the namespace may have at most.
    fn named(&self, uid: u32, namespace_id: &NamespaceId) -> Result<(u32, Wish), MpsdError> {
        let refused = |text: String| MpsdError::Refused(text);
        let mut inside = self.inside();
        self.forget_dead(&mut inside)?;
        let mut all = inside.named.iter();
        let server = all.find(|server| server.name == namespace_id.server);
        let running = |row: u32| inside.servers.iter().any(|s| s.process.row == row);
        let server = server.filter(|server| running(server.row));
        let server =
            server.ok_or_else(|| refused(format!("server {} is gone", namespace_id.server)))?;
        if !self.multiuser && server.uid != uid {
            let of = server.uid;
            return Err(refused(format!(
                "server {} is for user {of}",
                namespace_id.server
            )));
        }
        let mut namespaces = server.namespaces.iter();
        let namespace = namespaces.find(|known| known.name == namespace_id.namespace);
        let gone = || refused(format!("namespace {} is gone", namespace_id.namespace));
        Ok((server.row, namespace.ok_or_else(gone)?.bounds))
    }

    /// The row of the server for a user's clients, started if there is none. While another user's
    /// server has clients, that takes until they have left: one user is served at a time.
    pub fn server(&self, uid: u32) -> Result<u32, MpsdError> {
        let refused = |text: &str| Err(MpsdError::Refused(text.to_owned()));
        let uid = if self.multiuser { self.uid } else { uid };
        if self.uid != 0 && uid != self.uid {
            return refused("this daemon serves its own user only");
        }
        let until = monotonic_ns() + BUSY_NS;
        let mut inside = self.inside();
        loop {
            if inside.quit_ns.is_some() {
                return refused("this daemon is quitting");
            }
            self.forget_dead(&mut inside)?;
            let named: Vec<u32> = inside.named.iter().map(|server| server.row).collect();
            let unnamed = |server: &&Running| !named.contains(&server.process.row);
            let taken = self.device.transact(|state, _| {
                let mut servers = inside.servers.iter().filter(unnamed);
                let found = servers.find(|server| {
                    let row = &state.servers.rows[server.process.row as usize];
                    !server.ending && row.uid == uid
                });
                found.map(|server| server.process.row)
            })?;
            if let Some(row) = taken {
                return Ok(row);
            }
            if !inside.servers.iter().any(|server| unnamed(&server)) {
                return self.start(&mut inside, uid);
            }
            if monotonic_ns() >= until {
                return refused("the server of another user is busy");
            }
            for server in &mut inside.servers {
                server.ending |= !named.contains(&server.process.row);
            }
            self.changed.notify_all();
            let waited = self.changed.wait_timeout(inside, PACE);
            inside = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Starts a server for a user's clients.
    pub fn start(&self, inside: &mut Inside, uid: u32) -> Result<u32, MpsdError> {
        let process = Process::start((self.programs.server)(), self.row, uid)?;
        let (row, pid) = (process.row, process.pid());
        inside.servers.push(Running {
            process,
            ending: false,
        });
        let text = format!("server {pid} started for user {uid}");
        self.note(Which::Control, &text);
        self.note(Which::Server, &text);
        Ok(row)
    }

    /// Takes back what ended servers held.
    pub fn forget_dead(&self, inside: &mut Inside) -> Result<(), MpsdError> {
        let before = inside.servers.len();
        inside.servers.retain_mut(|server| {
            let over = server.process.is_over();
            if over {
                let pid = server.process.pid();
                self.note(Which::Server, &format!("server {pid} ended unasked"));
            }
            !over
        });
        if inside.servers.len() < before {
            self.device.reap_dead_processes()?;
        }
        Ok(())
    }
}
