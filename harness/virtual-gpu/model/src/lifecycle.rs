//! What the state releases when a process, a context or a stream ends.

use crate::memory;
use crate::mps;
use crate::simulation::{self, Rules, fault};
use crate::state::{Context, Head, NONE, Participant, Process, State, Stream, leave_account};

/// `CUresult` of MPS clients after another client died with work queued, on machines that plant
/// this defect: LAUNCH_FAILED (cuda.h). The vendor leaves the case undefined.
const PEER_DIED: i32 = 719;

/// Releases everything that a dead process held: queues, contexts, memory, clock participants.
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
    mps::reap(state, slot);
    memory::end_where(state, |a| a.process == slot);
    for participant in state.participants.live_mut() {
        if participant.process == slot
            && participant.status != crate::state::ParticipantStatus::Free
        {
            *participant = Participant {
                process: NONE,
                ..Participant::default()
            };
        }
    }
    state.processes.rows[slot as usize] = Process::default();
}

/// Ends a context and updates its MPS server, if it has one.
pub fn close_context(state: &mut State, rules: &Rules, context: u32) {
    let server = state.contexts.rows[context as usize].server;
    drop_context(state, context);
    if server != NONE {
        fault::client_left(state, rules, server);
    }
}

/// Ends a context: its queued work is dropped and its memory freed.
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
    for stream_wait in state.stream_waits.live_mut() {
        stream_wait.live &= state.streams.rows[stream_wait.stream as usize].live;
    }
    memory::note_peak(state, state.contexts.rows[context as usize].process);
    memory::end_where(state, |a| a.context == context);
    // The count of recorded spans continues, so that a later owner of the slot can tell its own
    // spans from older ones.
    let intervals = state.contexts.rows[context as usize].intervals;
    state.contexts.rows[context as usize] = Context {
        intervals,
        ..Context::default()
    };
}

/// Ends a stream at once.
pub fn close_stream(stream: &mut Stream) {
    simulation::drop_queue(stream);
    stream.live = false;
}
