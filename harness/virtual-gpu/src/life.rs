//! Processes and threads of the host, as far as the model needs to know them.
#![expect(
    unsafe_code,
    reason = "thread ids and processor affinity have no safe form in std"
)]

use crate::model;
use crate::state::{Context, NONE, Participant, Process, State, Stream};

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

/// Takes back everything a dead process held: queues, contexts, memory, its places on the clock.
pub fn reap(state: &mut State, slot: u32) {
    for context in 0..state.contexts.live().len() {
        if state.contexts.rows[context].live && state.contexts.rows[context].process == slot {
            close_context(state, context as u32);
        }
    }
    let mut freed = false;
    for allocation in state.allocations.live_mut() {
        if allocation.live && allocation.process == slot {
            allocation.live = false;
            freed = true;
        }
    }
    if freed {
        state.allocations.touch();
    }
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

/// Ends a context: what it queued is dropped and what it owned is free.
pub fn close_context(state: &mut State, context: u32) {
    for stream in 0..state.streams.live().len() {
        let slot = &mut state.streams.rows[stream];
        if slot.live && slot.context == context {
            close_stream(slot);
            for engine in &mut state.copies {
                if engine.stream == stream as u32 {
                    engine.stream = NONE;
                }
            }
        }
    }
    let mut freed = false;
    for allocation in state.allocations.live_mut() {
        if allocation.live && allocation.context == context {
            allocation.live = false;
            freed = true;
        }
    }
    if freed {
        state.allocations.touch();
    }
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
