//! The copy engines: one per direction in every GPU instance, one copy at a time. Address spaces
//! are served first come first served; within one, a stream keeps the engine as long as it has a
//! copy ready (measured on an H100: beside a stream that is never empty, another stream of the same
//! context keeps 0.5 to 0.8 % of its rate, one of another process 29 %; `reports/examples`). The
//! host link is shared evenly by the copies of different instances.

use crate::state::{GpuInstance, Head, NONE, ONE, OpKind, State};

use super::{Bound, Queues, Rules};

const fn engine_of(kind: OpKind) -> Option<usize> {
    match kind {
        OpKind::ToDevice => Some(0),
        OpKind::ToHost => Some(1),
        _ => None,
    }
}

fn instance_of(state: &State, stream: usize) -> usize {
    let context = state.streams.rows[stream].context as usize;
    let engine = state.contexts.rows[context].engine as usize;
    state.engines.rows[engine].instance as usize
}

/// Puts the copy that was submitted first on each free engine.
pub fn start(state: &mut State, queues: &dyn Queues) -> bool {
    let mut changed = false;
    for instance in 0..state.instances.live().len() {
        for direction in 0..2 {
            if state.instances.rows[instance].copies[direction].stream == NONE
                && let Some(index) = first(state, queues, instance, direction)
            {
                let now = state.now_ns;
                let stream = &mut state.streams.rows[index];
                stream.head = Head::Started;
                stream.started_ns = now;
                state.instances.rows[instance].copies[direction].stream = index as u32;
                let space = space_of(state, index);
                state.contexts.rows[space].copying[direction] = index as u32;
                changed = true;
            }
        }
    }
    changed
}

fn space_of(state: &State, stream: usize) -> usize {
    let context = state.streams.rows[stream].context as usize;
    state.contexts.rows[context].space as usize
}

/// The copy that has waited longest for an engine, of those that may have it.
fn first(state: &State, queues: &dyn Queues, instance: usize, direction: usize) -> Option<usize> {
    let streams = state.streams.live().iter().enumerate();
    let ready: Vec<(u64, usize)> = streams
        .filter(|(_, stream)| stream.live && stream.head == Head::Ready)
        .filter(|(_, stream)| !state.contexts.rows[stream.context as usize].halted)
        .map(|(index, stream)| (index, queues.op(index, stream.completed)))
        .filter(|(index, op)| {
            engine_of(op.kind) == Some(direction) && instance_of(state, *index) == instance
        })
        .map(|(index, op)| (op.stamp_ns, index))
        .collect();
    let may_have = |&(_, index): &(u64, usize)| {
        let space = space_of(state, index);
        let holder = state.contexts.rows[space].copying[direction] as usize;
        let is_ready = |&(_, other): &(u64, usize)| other == holder;
        // A stream with this number may meanwhile belong to another address space.
        let holds = ready.iter().any(is_ready) && space_of(state, holder) == space;
        index == holder || !holds
    };
    let found = ready.iter().filter(|one| may_have(one)).min();
    found.map(|(_, index)| *index)
}

/// Sets the speed of every running copy to its share of the link.
pub fn set_speeds(state: &mut State, rules: &Rules) {
    for direction in 0..2 {
        let busy = |instance: &&GpuInstance| instance.copies[direction].stream != NONE;
        let count = state.instances.live().iter().filter(busy).count() as u64;
        for instance in 0..state.instances.live().len() {
            let stream = state.instances.rows[instance].copies[direction].stream;
            if stream != NONE {
                let context = state.streams.rows[stream as usize].context;
                let speed = Bound::Copies.beside(state, rules, context, ONE / count.max(1));
                state.streams.rows[stream as usize].speed = speed;
            }
        }
    }
}

/// Frees the engine of a completed copy, if it had one, and counts its bytes.
pub fn finish(state: &mut State, stream: usize, bytes: u64) {
    for instance in state.instances.live_mut() {
        for engine in &mut instance.copies {
            if engine.stream == stream as u32 {
                engine.stream = NONE;
                engine.bytes += bytes;
            }
        }
    }
}

/// Accounts for time that passes on busy engines.
pub fn account(state: &mut State, dt_ns: u64) {
    for instance in state.instances.live_mut() {
        for engine in &mut instance.copies {
            if engine.stream != NONE {
                engine.busy_ns += dt_ns;
            }
        }
    }
}
