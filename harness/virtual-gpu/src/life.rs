//! Processes and threads of the host, as far as the model needs to know them.
#![expect(
    unsafe_code,
    reason = "thread ids and processor affinity have no safe form in std"
)]

use crate::memory;
use crate::model::{self, Rules, fault};
use crate::mps;
use crate::state::{Context, Head, NONE, Participant, Process, State, Stream, leave_account};

/// The name of the calling process, cut to fit.
#[must_use]
pub fn own_name() -> [u8; 32] {
    let mut out = [0; 32];
    // A process without a readable name is listed without one.
    let name = std::fs::read("/proc/self/comm").unwrap_or_default();
    let text = name.strip_suffix(b"\n").unwrap_or(&name);
    let length = text.len().min(out.len() - 1);
    out[..length].copy_from_slice(&text[..length]);
    out
}

/// The calling thread's kernel id.
#[must_use]
pub fn own_tid() -> u32 {
    // SAFETY: plain call without arguments.
    unsafe { libc::gettid() as u32 }
}

/// The user that the process runs as.
#[must_use]
pub fn own_uid() -> u32 {
    // SAFETY: plain call without arguments that cannot fail.
    unsafe { libc::getuid() }
}

/// Keeps the calling thread on one core. In virtual time one participant runs at a time, and a
/// hand-over within a core costs a tenth of one between cores. Failing to pin costs speed only.
pub fn pin_to(core: Option<u32>) {
    let Some(core) = core else { return };
    // SAFETY: the set is plain data, all zero is the empty set, and `core` is checked by the
    // macro-like setter against the set's size.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        if (core as usize) < 8 * size_of::<libc::cpu_set_t>() {
            libc::CPU_SET(core as usize, &mut set);
            libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
        }
    }
}

/// `CUresult` of MPS clients whose peer died at work, where the machine plants that:
/// LAUNCH_FAILED (cuda.h). The vendor leaves the case undefined.
const PEER_DIED: i32 = 719;

/// Takes back everything a dead process held: queues, contexts, memory, its places on the clock.
pub fn reap(state: &mut State, rules: &Rules, slot: u32) {
    let own: Vec<u32> = (0..state.contexts.live().len() as u32)
        .filter(|&index| {
            let context = &state.contexts.rows[index as usize];
            context.live && context.process == slot
        })
        .collect();
    let working = |context: &&u32| {
        let streams = state.streams.live().iter();
        streams
            .into_iter()
            .any(|s| s.live && s.context == **context && s.head == Head::Started)
    };
    if let Some(&context) = own.iter().find(working) {
        fault::log(state, context, fault::XID_PREEMPTIVE_REMOVAL, 0);
        let client = state.contexts.rows[context as usize].server != NONE;
        if client && rules.faults.mps_kill_reaches_peers {
            fault::reach(state, rules, context, PEER_DIED, 0);
        }
    }
    memory::note_peak(state, slot);
    leave_account(state, slot);
    for context in own {
        close_context(state, rules, context);
    }
    mps::bury(state, slot);
    memory::end_where(state, |a| a.process == slot);
    for participant in state.participants.live_mut() {
        if participant.process == slot && participant.standing != crate::state::Standing::Free {
            *participant = Participant {
                process: NONE,
                ..Participant::default()
            };
        }
    }
    state.processes.rows[slot as usize] = Process::default();
}

/// Ends a context, and tells its MPS server, if it has one, that a client has left.
pub fn close_context(state: &mut State, rules: &Rules, context: u32) {
    let server = state.contexts.rows[context as usize].server;
    drop_context(state, context);
    if server != NONE {
        fault::client_left(state, rules, server);
    }
}

/// Ends a context: what it queued is dropped and what it owned is free.
pub fn drop_context(state: &mut State, context: u32) {
    for stream in 0..state.streams.live().len() {
        let slot = &mut state.streams.rows[stream];
        if slot.live && slot.context == context {
            close_stream(slot);
            for instance in state.instances.live_mut() {
                for engine in &mut instance.copies {
                    if engine.stream == stream as u32 {
                        engine.stream = NONE;
                    }
                }
            }
        }
    }
    for hold in state.holds.live_mut() {
        hold.live &= state.streams.rows[hold.stream as usize].live;
    }
    memory::note_peak(state, state.contexts.rows[context as usize].process);
    memory::end_where(state, |a| a.context == context);
    // The number of recorded spans goes on counting, so that a later owner of the slot can tell
    // its own spans from these.
    let intervals = state.contexts.rows[context as usize].intervals;
    state.contexts.rows[context as usize] = Context {
        intervals,
        ..Context::default()
    };
}

/// Ends a stream at once.
pub fn close_stream(stream: &mut Stream) {
    model::drop_queue(stream);
    stream.live = false;
}

/// `CLOCK_MONOTONIC` in nanoseconds: the one clock that all processes of a host share.
#[must_use]
pub fn monotonic_ns() -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: plain call that fills its argument; it cannot fail for this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    (now.tv_sec as u64) * 1_000_000_000 + now.tv_nsec as u64
}
