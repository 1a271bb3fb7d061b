//! A control daemon and its servers, shared by its threads.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::log::{Log, Which};
use super::named::{NamedServer, NamespaceId};
use super::serve::supervisor::Process;
use super::{MpsError, Programs};
use gpubench_virtual_gpu_driver::device::Device;
use gpubench_virtual_gpu_driver::host_process::monotonic_ns;
use gpubench_virtual_gpu_driver::placement;
use gpubench_virtual_gpu_model::mps::ClientRequest;

/// How long a client waits for the server of another user. The client's own timeout is longer.
const BUSY_NS: u64 = 8_000_000_000;
/// Interval at which a waiting client checks again.
const INTERVAL: Duration = Duration::from_millis(20);

pub struct Daemon {
    pub device: Device,
    pub row: u32,
    pub static_partitions: bool,
    pub(super) multiuser: bool,
    pub uid: u32,
    pub(super) protocol: u32,
    pub pipe: PathBuf,
    pub(super) programs: Programs,
    pub(super) log: Log,
    pub(super) shared: Mutex<Shared>,
    /// Notified when a command has work for the main thread.
    pub changed: Condvar,
}

/// Features of protocol version 3, as the daemon has them by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Features {
    pub memacct: bool,
    /// Clients share the context of their server. Otherwise each keeps its own.
    pub context_share: bool,
    /// The same for clients at the daemon's own socket.
    pub default_socket: bool,
}

impl Default for Features {
    fn default() -> Self {
        Self { memacct: true, context_share: true, default_socket: true }
    }
}

/// State shared by the threads of a daemon.
#[derive(Default)]
pub struct Shared {
    pub features: Features,
    pub servers: Vec<Running>,
    pub named: Vec<NamedServer>,
    /// Every process that ever connected as a client, for the log.
    pub clients: BTreeSet<u32>,
    /// Namespace of each client of a named server, by process id.
    pub namespaces_of: BTreeMap<u32, NamespaceId>,
    /// Set when the daemon quits: deadline after which servers end by force.
    pub quit_ns: Option<u64>,
}

pub struct Running {
    pub process: Process,
    /// It accepts no more clients and ends when the present ones have left.
    pub ending: bool,
}

impl Daemon {
    /// Locks the shared state.
    pub fn shared(&self) -> MutexGuard<'_, Shared> {
        // The state is consistent between statements, also after a panic of a thread.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn note(&self, which: Which, text: &str) {
        self.log.write(which, self.device.now_ns(), text);
    }

    /// The answer to a client: its server, or a refusal.
    pub fn admit(&self, pid: u32, uid: u32, namespace_id: Option<&NamespaceId>) -> String {
        let features = self.shared().features;
        let shares = features.context_share && (namespace_id.is_some() || features.default_socket);
        let found = match namespace_id {
            Some(namespace_id) => self.named(uid, namespace_id),
            None if !shares => Ok((0, ClientRequest::default())),
            None => self.server(uid).map(|row| (row, ClientRequest::default())),
        };
        match found {
            Ok((row, mut bounds)) => {
                // Without memory accounting nothing limits the memory of a context of its own.
                bounds.memory_limit = bounds.memory_limit.filter(|_| shares || features.memacct);
                let mut shared = self.shared();
                shared.clients.insert(pid);
                match namespace_id {
                    Some(namespace_id) => {
                        _ = shared.namespaces_of.insert(pid, namespace_id.clone())
                    }
                    None => _ = shared.namespaces_of.remove(&pid),
                }
                drop(shared);
                let text = format!("NEW CLIENT {pid} from user {uid}: Server already exists");
                self.note(Which::Control, &text);
                placement::admitted(shares.then_some(row), &bounds)
            }
            Err(error) => {
                let text = format!("client {pid} of user {uid} refused: {error}");
                self.note(Which::Control, &text);
                format!("refused {error}\n")
            }
        }
    }

    /// The row of a named server, and the limits of a namespace.
    fn named(
        &self,
        uid: u32,
        namespace_id: &NamespaceId,
    ) -> Result<(u32, ClientRequest), MpsError> {
        let refused = |text: String| MpsError::Refused(text);
        let mut shared = self.shared();
        self.remove_dead_servers(&mut shared)?;
        let mut all = shared.named.iter();
        let server = all.find(|server| server.name == namespace_id.server);
        let running = |row: u32| shared.servers.iter().any(|s| s.process.row == row);
        let server = server.filter(|server| running(server.row));
        let server =
            server.ok_or_else(|| refused(format!("server {} is gone", namespace_id.server)))?;
        if !self.multiuser && server.uid != uid {
            let of = server.uid;
            return Err(refused(format!("server {} is for user {of}", namespace_id.server)));
        }
        let mut namespaces = server.namespaces.iter();
        let namespace = namespaces.find(|known| known.name == namespace_id.namespace);
        let gone = || refused(format!("namespace {} is gone", namespace_id.namespace));
        let bounds = namespace.ok_or_else(gone)?.bounds;
        let mps = self.device.machine().mps.as_ref();
        let is_bound = mps.is_some_and(|mps| mps.server_bounds_namespaces);
        let of_server = server.namespaces.first().filter(|_| is_bound);
        Ok((server.row, of_server.map_or(bounds, |server| bounds.within(&server.bounds))))
    }

    /// The row of the server for a user's clients; starts one if needed. One user is served at a
    /// time, so this waits until the clients of another user's server have left.
    pub fn server(&self, uid: u32) -> Result<u32, MpsError> {
        let refused = |text: &str| Err(MpsError::Refused(text.to_owned()));
        let uid = if self.multiuser { self.uid } else { uid };
        if self.uid != 0 && uid != self.uid {
            return refused("this daemon serves its own user only");
        }
        let until = monotonic_ns() + BUSY_NS;
        let mut shared = self.shared();
        loop {
            if shared.quit_ns.is_some() {
                return refused("this daemon is quitting");
            }
            self.remove_dead_servers(&mut shared)?;
            let named: Vec<u32> = shared.named.iter().map(|server| server.row).collect();
            let unnamed = |server: &&Running| !named.contains(&server.process.row);
            let taken = self.device.transact(|state, _| {
                let mut servers = shared.servers.iter().filter(unnamed);
                let found = servers.find(|server| {
                    let row = &state.servers.rows[server.process.row as usize];
                    !server.ending && row.uid == uid
                });
                found.map(|server| server.process.row)
            })?;
            if let Some(row) = taken {
                return Ok(row);
            }
            if !shared.servers.iter().any(|server| unnamed(&server)) {
                return self.start(&mut shared, uid);
            }
            if monotonic_ns() >= until {
                return refused("the server of another user is busy");
            }
            for server in &mut shared.servers {
                server.ending |= !named.contains(&server.process.row);
            }
            self.changed.notify_all();
            let waited = self.changed.wait_timeout(shared, INTERVAL);
            shared = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Starts a server for a user's clients.
    pub fn start(&self, shared: &mut Shared, uid: u32) -> Result<u32, MpsError> {
        let process = Process::start((self.programs.server)(), self.row, uid)
            .inspect_err(|error| self.note(Which::Control, &error.to_string()))?;
        let (row, pid) = (process.row, process.pid());
        shared.servers.push(Running { process, ending: false });
        let text = format!("Starting new server {pid} for user {uid}");
        self.note(Which::Control, &text);
        self.note(Which::Server, &text);
        Ok(row)
    }

    pub fn remove_dead_servers(&self, shared: &mut Shared) -> Result<(), MpsError> {
        let before = shared.servers.len();
        shared.servers.retain_mut(|server| {
            let over = server.process.is_over();
            if over {
                let pid = server.process.pid();
                self.note(Which::Server, &format!("server {pid} ended unasked"));
            }
            !over
        });
        if shared.servers.len() < before {
            self.device.reap_dead_processes()?;
        }
        Ok(())
    }
}
