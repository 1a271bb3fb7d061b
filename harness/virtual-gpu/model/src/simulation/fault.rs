//! Which contexts a fatal fault ends: always its own, and others depending on how the device is
//! shared.
//!
//! The rules are those of the vendor's documents (MPS, "Error containment"; MIG user guide,
//! "Concepts"). The machine file can plant a deviation from each.

use crate::noise::{self, Kind};
use crate::state::{Context, Op, ServerState, State, XIDS, Xid};
use crate::state::{NONE, WHOLE};

use super::{Rules, drop_queue};

/// Xid of faults of the graphics engine, which the SMs raise (XID catalogue).
const XID_SM: u32 = 13;
/// `CUresult` and Xid of a kernel that exceeds the run-time limit: CUDA_ERROR_LAUNCH_TIMEOUT
/// (cuda.h), and the Xid of a GPU that stopped processing, which requires a restart of the
/// application only (XID catalogue).
pub const LATE: (i32, u32) = (702, 8);
/// Xid of work removed because its process ended (XID catalogue).
pub const XID_PREEMPTIVE_REMOVAL: u32 = 45;

/// Which other contexts a fault reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FaultRules {
    /// Faults of an MPS client stay with that client.
    pub mps_contained: bool,
    /// Clients in different static SM partitions do not get each other's SM faults.
    pub partitions_contain_sm_faults: bool,
    /// A fault reaches the other compute instances of its GPU instance.
    pub cross_compute_instances: bool,
    /// A fault reaches every context on the device.
    pub cross_contexts: bool,
    /// Probability that a contained fault reaches another context, in parts per million.
    pub escape_ppm: u32,
    /// The death of an MPS client with work queued is a fault for the other clients.
    pub mps_kill_reaches_peers: bool,
    /// Xid that follows that of a fatal fault; 0 for none.
    pub next_xid: u32,
    /// Recovery time of an MPS server after the last client affected by a fault has disconnected.
    pub mps_recovery_ns: u64,
    /// Relative standard deviation of that time, in parts per million.
    pub recovery_noise_ppm: u32,
}

/// Raises the fault in which a stream's operation ended.
pub fn raise(state: &mut State, rules: &Rules, stream: usize, op: &Op) {
    let culprit = state.streams.rows[stream].context;
    reach(state, rules, culprit, op.fault, op.xid);
    state.fatal_faults += 1;
    for xid in [op.xid, rules.faults.next_xid] {
        if xid != 0 {
            log(state, culprit, xid, op.fault);
        }
    }
}

/// Whether the Xid log still holds a fatal fault; ends of processes do not count.
#[must_use]
pub fn was_fatal(state: &State) -> bool {
    let mut xids = state.xids.live().iter();
    xids.any(|xid| xid.number != XID_PREEMPTIVE_REMOVAL)
}

/// Ends every context that a fault of `culprit` reaches.
pub fn reach(state: &mut State, rules: &Rules, culprit: u32, fault: i32, xid: u32) {
    let source = state.contexts.rows[culprit as usize];
    for other in 0..state.contexts.live().len() {
        let context = state.contexts.rows[other];
        let hit = other as u32 == culprit
            || reaches(state, rules, &source, &context, xid)
            || escapes(state, rules, culprit, other as u32);
        if context.live && hit {
            end(state, other as u32, fault);
        }
    }
    let contained = rules.faults.mps_contained || partition_contains(rules, &source, xid);
    if source.server != NONE && !contained {
        state.servers.rows[source.server as usize].state = ServerState::Fault;
    }
}

/// Whether a fault in one context reaches another one.
fn reaches(state: &State, rules: &Rules, from: &Context, to: &Context, xid: u32) -> bool {
    let faults = &rules.faults;
    // Green contexts share an address space and therefore faults.
    if from.space == to.space && from.process == to.process {
        return true;
    }
    if faults.cross_contexts {
        return true;
    }
    if from.server != NONE && from.server == to.server {
        let apart = from.partition != to.partition;
        return !(faults.mps_contained || apart && partition_contains(rules, from, xid));
    }
    let (a, b) = (from.engine as usize, to.engine as usize);
    let engines = &state.engines.rows;
    let neighbours =
        a != b && engines[a].instance != WHOLE && engines[a].instance == engines[b].instance;
    neighbours && faults.cross_compute_instances
}

/// Whether a contained fault reaches this context, by planted probability.
fn escapes(state: &State, rules: &Rules, culprit: u32, other: u32) -> bool {
    let chance = f64::from(rules.faults.escape_ppm) / 1e6;
    // A context has at most one fault at an instant.
    let what = state.now_ns ^ (u64::from(culprit) << 56) ^ (u64::from(other) << 48);
    noise::happens(chance, state.seed, Kind::Escape, what)
}

fn partition_contains(rules: &Rules, from: &Context, xid: u32) -> bool {
    from.partition != NONE && rules.faults.partitions_contain_sm_faults && xid == XID_SM
}

/// Ends a context: the error is sticky and queued work is dropped.
pub fn end(state: &mut State, context: u32, fault: i32) {
    let slot = &mut state.contexts.rows[context as usize];
    if slot.sticky == 0 {
        slot.sticky = fault;
    }
    let mut dropped = 0u128;
    for (index, stream) in state.streams.live_mut().iter_mut().enumerate() {
        if stream.live && stream.context == context {
            drop_queue(stream);
            dropped |= 1 << index;
        }
    }
    for instance in state.instances.live_mut() {
        for engine in &mut instance.copies {
            if engine.stream != NONE && dropped >> engine.stream & 1 == 1 {
                engine.stream = NONE;
            }
        }
    }
}

/// Adds an Xid that a context caused to the log, with its `CUresult`.
pub fn log(state: &mut State, context: u32, number: u32, fault: i32) {
    let source = &state.contexts.rows[context as usize];
    let process = &state.processes.rows[source.process as usize];
    let (pid, name) = (process.pid, process.name);
    let engine = &state.engines.rows[source.engine as usize];
    let instance = (source.engine != WHOLE).then(|| {
        let gpu_instance = &state.instances.rows[engine.instance as usize];
        (gpu_instance.id, engine.id)
    });
    let at = (state.xids_raised % XIDS as u64) as usize;
    state.xids.rows[at] = Xid {
        number,
        pid,
        name,
        fault,
        time_ns: state.now_ns,
        instance,
    };
    state.xids.used = state.xids.used.max(at as u32 + 1);
    state.xids.touch();
    state.xids_raised += 1;
}

/// After a client has disconnected: its server recovers once all clients affected by the fault are
/// gone.
pub fn client_left(state: &mut State, rules: &Rules, server: u32) {
    let (now, seed) = (state.now_ns, state.seed);
    let waiting = state
        .contexts
        .live()
        .iter()
        .any(|c| c.live && c.server == server && c.sticky != 0);
    let row = &mut state.servers.rows[server as usize];
    if row.live && row.state == ServerState::Fault && !waiting {
        row.state = ServerState::Active;
        let (mean_ns, sd) = (
            rules.faults.mps_recovery_ns,
            rules.faults.recovery_noise_ppm,
        );
        row.ready_ns =
            now + noise::spread_ns(mean_ns, f64::from(sd) / 1e6, seed, Kind::Recovery, now);
    }
}
