//! What a fault ends: always its own context, and others depending on how the device is shared.
//!
//! The machine's fault table has the answers ([`Answer`]); the machine file can plant deviations. A
//! kernel that fails stops at once, and so do the contexts that its fault reaches. Their calls fail
//! once the driver has noticed the fault. That a surviving neighbour pauses meanwhile, by 4 to 142
//! ms on an H100 (`reports/examples`), is not modelled.

use super::answer::Answer;
use super::{Rules, drop_queue};
use crate::noise::{self, Kind};
use crate::state::{Cause, Context, NEVER, NONE, PendingFault, ServerState, State, WHOLE, Xid};

/// Xid of work removed because its process ended (XID catalogue).
const XID_PREEMPTIVE_REMOVAL: u32 = 45;
/// `CUresult` of MPS clients after another client died with work queued, on machines that plant
/// this where their table leaves them unharmed: LAUNCH_FAILED (cuda.h).
const PEER_DIED: i32 = 719;

/// A fault at the present instant.
struct Raised<'a> {
    cause: Cause,
    answer: &'a Answer,
    culprit: u32,
    /// The context that caused it, as it was then.
    source: Context,
    due_ns: u64,
}

impl<'a> Raised<'a> {
    fn new(state: &State, rules: &'a Rules, cause: Cause, culprit: u32) -> Self {
        let source = state.contexts.rows[culprit as usize];
        let answer = rules.faults.answer(cause, source.server);
        // A context has at most one fault at an instant.
        let due_ns = answer.noticed_at_ns(state, state.now_ns ^ (u64::from(culprit) << 56));
        Self { cause, answer, culprit, source, due_ns }
    }
}

/// Raises the fault in which a stream's operation ended. The context is halted, or has failed, or
/// is unharmed where the table says so.
pub fn raise(state: &mut State, rules: &Rules, stream: usize, cause: Cause) {
    let culprit = state.streams.rows[stream].context;
    let raised = Raised::new(state, rules, cause, culprit);
    log(state, rules, &raised);
    let Answer { own, peer, .. } = *raised.answer;
    if own == 0 && peer == 0 {
        return;
    }
    state.fatal_faults += 1;
    fail(state, culprit, own, raised.due_ns, Meanwhile::Halted);
    reach(state, rules, &raised, Meanwhile::Halted);
}

/// A process ended with work on the device that would have taken `left_ns` more. Work that ends
/// before the driver removes it does no harm.
pub fn process_ended(state: &mut State, rules: &Rules, context: u32, left_ns: u64) {
    let mut raised = Raised::new(state, rules, Cause::ProcessEnd, context);
    let planted = Answer { peer: PEER_DIED, ..*raised.answer };
    if rules.faults.mps_kill_reaches_peers && raised.answer.peer == 0 {
        raised.answer = &planted;
    }
    if left_ns <= raised.due_ns - state.now_ns {
        return;
    }
    log(state, rules, &raised);
    if raised.source.server != NONE {
        reach(state, rules, &raised, Meanwhile::Running);
    }
}

/// The MPS daemon ends a client's context.
pub fn terminate(state: &mut State, rules: &Rules, context: u32) {
    let raised = Raised::new(state, rules, Cause::TerminateClient, context);
    log(state, rules, &raised);
    let halted = Meanwhile::Halted;
    fail(state, context, raised.answer.own, raised.due_ns, halted);
}

/// Whether the Xid log still holds a fatal fault; ends of processes do not count.
pub fn was_fatal(state: &State) -> bool {
    let mut xids = state.xids.live().iter();
    xids.any(|xid| xid.number != XID_PREEMPTIVE_REMOVAL)
}

/// Ends every other context that a fault reaches.
fn reach(state: &mut State, rules: &Rules, raised: &Raised<'_>, meanwhile: Meanwhile) {
    let Answer { own, peer, .. } = *raised.answer;
    // Where the table has no code of a peer, a planted defect spreads that of the culprit.
    let code = if peer == 0 { own } else { peer };
    for other in (0..state.contexts.live().len() as u32).filter(|other| *other != raised.culprit) {
        let context = state.contexts.rows[other as usize];
        let is_green = context.space == raised.source.space
            && context.process == raised.source.process
            && context.live;
        if is_green {
            // Green contexts share an address space and therefore faults.
            fail(state, other, own, raised.due_ns, meanwhile);
        } else if context.live
            && (reaches(state, rules, raised, &context) || escapes(state, rules, raised, other))
        {
            fail(state, other, code, raised.due_ns, meanwhile);
        }
    }
    let server = raised.source.server;
    if server != NONE && raised.answer.refuses_new_clients && !is_contained(rules, raised) {
        state.servers.rows[server as usize].state = ServerState::Fault;
    }
}

/// Whether a fault reaches another context.
fn reaches(state: &State, rules: &Rules, raised: &Raised<'_>, to: &Context) -> bool {
    let (faults, from) = (&rules.faults, &raised.source);
    if faults.cross_contexts {
        return true;
    }
    if from.server != NONE && from.server == to.server {
        let apart = from.partition != to.partition && raised.answer.partitions_contain;
        return raised.answer.peer != 0 && !faults.mps_contained && !apart;
    }
    let (a, b) = (from.engine as usize, to.engine as usize);
    let engines = &state.engines.rows;
    let neighbours =
        a != b && engines[a].instance != WHOLE && engines[a].instance == engines[b].instance;
    neighbours && faults.cross_compute_instances
}

/// Whether a contained fault reaches this context, by planted probability.
fn escapes(state: &State, rules: &Rules, raised: &Raised<'_>, other: u32) -> bool {
    let chance = f64::from(rules.faults.escape_ppm) / 1e6;
    // A context has at most one fault at an instant.
    let what = state.now_ns ^ (u64::from(raised.culprit) << 56) ^ (u64::from(other) << 48);
    noise::happens(chance, state.seed, Kind::Escape, what)
}

/// Whether the server of the culprit continues to serve.
fn is_contained(rules: &Rules, raised: &Raised<'_>) -> bool {
    let in_partition = raised.source.partition != NONE && raised.answer.partitions_contain;
    rules.faults.mps_contained || in_partition || raised.answer.peer == 0
}

/// What the kernels of a context do until its calls fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meanwhile {
    Halted,
    Running,
}

/// Lets the calls of a context fail from an instant on; 0 is no failure.
fn fail(state: &mut State, context: u32, code: i32, at_ns: u64, meanwhile: Meanwhile) {
    if code == 0 {
        return;
    }
    if at_ns <= state.now_ns {
        return end(state, context, code);
    }
    let slot = &mut state.contexts.rows[context as usize];
    if at_ns < slot.fails_ns {
        (slot.fails_ns, slot.fails_with) = (at_ns, code);
    }
    if meanwhile == Meanwhile::Halted {
        slot.halted = true;
        for stream in state.streams.live_mut() {
            if stream.live && stream.context == context {
                stream.last_ns = NEVER;
            }
        }
    }
}

/// Ends a context: the error is sticky and queued work is dropped.
pub fn end(state: &mut State, context: u32, fault: i32) {
    let slot = &mut state.contexts.rows[context as usize];
    if slot.sticky == 0 {
        slot.sticky = fault;
    }
    (slot.fails_ns, slot.halted) = (NEVER, false);
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

/// The instant at which the driver notices the next fault.
pub(super) fn next_ns(state: &State) -> u64 {
    let failing = state.contexts.live().iter().map(|c| c.fails_ns);
    let pending = state.pending_faults.live().iter().map(|fault| fault.due_ns);
    let due = failing.chain(pending.filter(|due_ns| *due_ns != 0));
    due.min().unwrap_or(NEVER)
}

/// Carries out what the driver notices now.
pub(super) fn notice(state: &mut State, rules: &Rules) {
    for index in 0..state.pending_faults.live().len() {
        let fault = state.pending_faults.rows[index];
        if let Some(cause) = fault.cause
            && (1..=state.now_ns).contains(&fault.due_ns)
        {
            state.pending_faults.rows[index] = PendingFault::default();
            write(state, rules, cause, fault.server, fault.xid);
        }
    }
    for context in 0..state.contexts.live().len() {
        let row = state.contexts.rows[context];
        if row.live && row.fails_ns <= state.now_ns {
            end(state, context as u32, row.fails_with);
        }
    }
}

/// Logs the Xids of a fault when the driver notices it.
fn log(state: &mut State, rules: &Rules, raised: &Raised<'_>) {
    let (server, cause) = (raised.source.server, raised.cause);
    let mut xid = Xid::of_context(state, raised.culprit, raised.answer.own);
    if raised.answer.names_server && server != NONE {
        xid = xid.naming(state, state.servers.rows[server as usize].process);
    }
    let slot = (raised.due_ns > state.now_ns)
        .then(|| state.pending_faults.claim(|fault| fault.due_ns == 0))
        .flatten();
    let Some(slot) = slot else { return write(state, rules, cause, server, xid) };
    state.pending_faults.rows[slot] =
        PendingFault { due_ns: raised.due_ns, cause: Some(cause), server, xid };
}

/// Writes the Xids of a fault, and the planted one after those of a fatal fault.
fn write(state: &mut State, rules: &Rules, cause: Cause, server: u32, xid: Xid) {
    let answer = *rules.faults.answer(cause, server);
    for number in answer.log_before.into_iter().take_while(|xid| *xid != 0) {
        state.log_xid(Xid { number, log_only: true, fault: xid.fault, ..Xid::default() });
    }
    let is_kernels = !matches!(cause, Cause::ProcessEnd | Cause::TerminateClient);
    let planted = (is_kernels && answer.own != 0).then_some(rules.faults.next_xid);
    let own = answer.xids.into_iter().take_while(|xid| *xid != 0);
    for number in own.chain(planted.filter(|xid| *xid != 0)) {
        state.log_xid(Xid { number, ..xid });
    }
}

/// After a client has disconnected: its server recovers once all clients affected by the fault are
/// gone.
pub fn client_left(state: &mut State, rules: &Rules, server: u32) {
    let (now, seed) = (state.now_ns, state.seed);
    let failed = |c: &Context| c.sticky != 0 || c.fails_ns != NEVER;
    let mut contexts = state.contexts.live().iter();
    let waiting = contexts.any(|c| c.live && c.server == server && failed(c));
    let row = &mut state.servers.rows[server as usize];
    if row.live && row.state == ServerState::Fault && !waiting {
        row.state = ServerState::Active;
        let (mean_ns, sd) = (rules.faults.mps_recovery_ns, rules.faults.recovery_noise_ppm);
        row.ready_ns =
            now + noise::spread_ns(mean_ns, f64::from(sd) / 1e6, seed, Kind::Recovery, now);
    }
}
