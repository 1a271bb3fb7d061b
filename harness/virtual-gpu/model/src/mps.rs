//! MPS in the shared state: daemons, servers, and which process can be a client of which server.
//!
//! A daemon and its servers are processes with a row here; a client finds its daemon by the pipe
//! directory. Clients run concurrently in the group of the server's context. The rules are those of
//! the vendor's MPS documentation (release 615).

pub use crate::cgroup::folder_key;
use crate::compute_mode;
use crate::machine::Machine;
use crate::simulation::{Rules, fault};
use crate::state::{Cause, Context, MpsDaemon, MpsServer, NONE, ONE, SERVERS, ServerState, State};

/// Why a process cannot be a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The server no longer exists.
    Gone,
    /// The server has not recovered from a fault.
    NotReady,
    /// The server has its maximum number of clients.
    Full,
    /// The daemon has static partitions and the client selects none of them.
    NoPartition,
}

/// Settings of a client, from its environment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClientRequest {
    /// Active-thread percentage; can only lower the server's.
    pub percentage: Option<u32>,
    /// Memory limit in bytes; can only lower the server's.
    pub memory_limit: Option<u64>,
    /// 0 normal, 1 below normal.
    pub priority: Option<u32>,
    pub partition: Option<u32>,
}

impl ClientRequest {
    pub fn within(self, bounds: &Self) -> Self {
        let least = |a: Option<u64>, b: Option<u64>| a.into_iter().chain(b).min();
        let percentage = least(self.percentage.map(u64::from), bounds.percentage.map(u64::from));
        Self {
            percentage: percentage.and_then(|percent| u32::try_from(percent).ok()),
            memory_limit: least(self.memory_limit, bounds.memory_limit),
            priority: self.priority.or(bounds.priority),
            partition: self.partition,
        }
    }
}

/// Adds a daemon. `None` when the table is full.
pub fn add_daemon(state: &mut State, daemon: MpsDaemon) -> Option<u32> {
    let row = state.daemons.claim(|d| !d.live)?;
    state.daemons.rows[row] = MpsDaemon { live: true, ..daemon };
    Some(row as u32)
}

/// Adds a server of a daemon, with the context that its clients join. `None` when a table or the
/// memory is full, or the compute mode refuses the context.
pub fn add_server(
    state: &mut State,
    machine: &Machine,
    daemon: u32,
    process: u32,
    uid: u32,
) -> Option<u32> {
    if !compute_mode::admits(state, process, None) {
        return None;
    }
    let parent = state.daemons.rows[daemon as usize];
    let instance = state.engines.rows[parent.engine as usize].instance;
    let bytes = machine.mps_server_bytes();
    if crate::memory::free_bytes(state, instance) < bytes {
        return None;
    }
    let row = free_row(state)?;
    let context = state.contexts.claim(|c| !c.live)?;
    let intervals = state.contexts.rows[context].intervals;
    state.contexts.rows[context] = Context {
        live: true,
        process,
        group: context as u32,
        engine: parent.engine,
        bytes,
        intervals,
        ..Context::default()
    };
    state.servers.rows[row] = MpsServer {
        live: true,
        state: ServerState::Active,
        daemon,
        process,
        uid,
        context: context as u32,
        percentage: parent.percentage,
        memory_limit: parent.memory_limit,
        ready_ns: 0,
    };
    Some(row as u32)
}

/// A free row for a server. The row of a dead server stays reserved while it has clients, so that
/// they do not become clients of the next server.
fn free_row(state: &mut State) -> Option<usize> {
    let contexts = || state.contexts.live().iter().filter(|c| c.live);
    let has_clients = |row: usize| contexts().any(|c| c.server as usize == row);
    let row = (0..SERVERS).find(|&row| !state.servers.rows[row].live && !has_clients(row))?;
    state.servers.used = state.servers.used.max(row as u32 + 1);
    Some(row)
}

/// Process rows of a server's clients, without duplicates.
pub fn clients(state: &State, server: u32) -> Vec<u32> {
    let contexts = state.contexts.live().iter();
    let mut rows: Vec<u32> =
        contexts.filter(|c| c.live && c.server == server).map(|c| c.process).collect();
    rows.sort_unstable();
    rows.dedup();
    rows
}

/// Makes a context a client of a server and sets its SMs and its memory limit.
/// Errors: Why it cannot be a client.
pub fn admit(
    state: &State,
    machine: &Machine,
    server: u32,
    wish: &ClientRequest,
    context: &mut Context,
) -> Result<(), Refusal> {
    let row = state.servers.rows.get(server as usize);
    let row = row.filter(|row| row.live).ok_or(Refusal::Gone)?;
    if row.state == ServerState::Fault || state.now_ns < row.ready_ns {
        return Err(Refusal::NotReady);
    }
    let there = clients(state, server);
    let limit = machine.mps.as_ref().map_or(0, |mps| mps.clients as usize);
    if !there.contains(&context.process) && there.len() >= limit {
        return Err(Refusal::Full);
    }
    let daemon = &state.daemons.rows[row.daemon as usize];
    let engine = &state.engines.rows[daemon.engine as usize];
    context.engine = daemon.engine;
    context.server = server;
    context.group = row.context;
    (context.sm_first, context.sm_count) = if daemon.static_partitions {
        let (partition, first, count) = partition(state, row.daemon, wish)?;
        context.partition = partition;
        (first, count)
    } else {
        let percentage = wish.percentage.map_or(row.percentage, |p| p.min(row.percentage));
        (0, machine.mps_sms(percentage, engine.sm_count))
    };
    if context.sm_count < engine.sm_count {
        context.sm_share = ONE * u64::from(context.sm_count) / u64::from(machine.gpu.sm_count);
    }
    context.memory_limit = memory_limit(machine, row.memory_limit, wish.memory_limit);
    context.priority = wish.priority.unwrap_or(daemon.priority) as i32;
    Ok(())
}

fn partition(state: &State, daemon: u32, wish: &ClientRequest) -> Result<(u32, u32, u32), Refusal> {
    let mut rows = state.partitions.live().iter().enumerate();
    let found = rows.find(|(_, p)| p.live && p.daemon == daemon && Some(p.id) == wish.partition);
    let (row, found) = found.ok_or(Refusal::NoPartition)?;
    Ok((row as u32, found.sm_first, found.sm_count))
}

/// The lower of two limits, where 0 means none, with the planted excess.
pub fn memory_limit(machine: &Machine, server: u64, client: Option<u64>) -> u64 {
    let limit = match (server, client.unwrap_or(0)) {
        (0, limit) | (limit, 0) => limit,
        (a, b) => a.min(b),
    };
    machine.defects.with_overshoot(limit)
}

/// Removes a daemon and its partitions. Its servers continue with their clients.
pub fn remove_daemon(state: &mut State, daemon: u32) {
    state.daemons.rows[daemon as usize].live = false;
    for partition in state.partitions.live_mut() {
        partition.live &= partition.daemon != daemon;
    }
}

pub fn remove_server(state: &mut State, rules: &Rules, server: u32) {
    let error = rules.faults.answer(Cause::ServerEnd, server).peer;
    for context in 0..state.contexts.live().len() {
        let row = &state.contexts.rows[context];
        if row.live && row.server == server {
            fault::end(state, context as u32, error);
        }
    }
    let row = &mut state.servers.rows[server as usize];
    row.live = false;
    let own = row.context;
    crate::lifecycle::drop_context(state, own);
}

/// Ends the work of one client (`terminate_client`).
pub fn terminate(state: &mut State, rules: &Rules, server: u32, process: u32) -> bool {
    let mut found = false;
    for context in 0..state.contexts.live().len() {
        let row = state.contexts.rows[context];
        if row.live && row.server == server && row.process == process {
            fault::terminate(state, rules, context as u32);
            found = true;
        }
    }
    found
}

/// Removes a dead process from MPS, as daemon, server or client.
pub fn reap(state: &mut State, rules: &Rules, process: u32) {
    for daemon in 0..state.daemons.live().len() {
        let row = &state.daemons.rows[daemon];
        if row.live && row.process == process {
            remove_daemon(state, daemon as u32);
        }
    }
    for server in 0..state.servers.live().len() {
        let row = &state.servers.rows[server];
        if row.live && row.process == process {
            remove_server(state, rules, server as u32);
        }
    }
}

/// Whether this context belongs to MPS, for the process type in process lists.
pub const fn is_client(context: &Context) -> bool {
    context.server != NONE
}
