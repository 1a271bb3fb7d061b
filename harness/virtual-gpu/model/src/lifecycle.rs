//! What the state releases when a process, a context or a stream ends.

use crate::simulation::{self, Rules, fault};
use crate::state::{Context, Head, NONE, Participant, Process, State, Stream};
use crate::{memory, mps};

/// Releases everything that a dead process held: queues, contexts, memory, clock participants.
pub fn reap(state: &mut State, rules: &Rules, slot: u32) {
    let own: Vec<u32> = (0..state.contexts.live().len() as u32)
        .filter(|&index| {
            let context = &state.contexts.rows[index as usize];
            context.live && context.process == slot
        })
        .collect();
    let streams = state.streams.live().iter();
    let at_work = streams
        .filter(|s| s.live && s.head == Head::Started && own.contains(&s.context))
        // A fault of its own ends that work.
        .filter(|s| !state.contexts.rows[s.context as usize].halted)
        .map(|s| (simulation::left_ns(s), s.context));
    if let Some((left_ns, context)) = at_work.max_by_key(|(left_ns, _)| *left_ns) {
        fault::process_ended(state, rules, context, left_ns);
    }
    for context in own {
        close_context(state, rules, context);
    }
    mps::reap(state, rules, slot);
    memory::end_where(state, |a| a.process == slot);
    for participant in state.participants.live_mut() {
        if participant.process == slot
            && participant.status != crate::state::ParticipantStatus::Free
        {
            *participant = Participant { process: NONE, ..Participant::default() };
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
    memory::end_where(state, |a| a.context == context);
    // The count of recorded spans continues, so that a later owner of the slot can tell its own
    // spans from older ones.
    let intervals = state.contexts.rows[context as usize].intervals;
    state.contexts.rows[context as usize] = Context { intervals, ..Context::default() };
}

pub fn close_stream(stream: &mut Stream) {
    simulation::drop_queue(stream);
    stream.live = false;
}
