//! The copy engines: one for each direction, one copy at a time, first come first served.

use crate::state::{CopyEngine, Head, NONE, ONE, OpKind, State};

use super::Queues;

/// The engine that serves a kind of operation.
const fn engine_of(kind: OpKind) -> Option<usize> {
    match kind {
        OpKind::ToDevice => Some(0),
        OpKind::ToHost => Some(1),
        _ => None,
    }
}

/// Puts the copy that was submitted first on each free engine.
pub fn start(state: &mut State, queues: &dyn Queues) -> bool {
    let mut changed = false;
    for engine in 0..state.copies.len() {
        if state.copies[engine].stream != NONE {
            continue;
        }
        let first = state
            .streams
            .live()
            .iter()
            .enumerate()
            .filter(|(_, stream)| stream.live && stream.head == Head::Ready)
            .map(|(index, stream)| (index, queues.op(index, stream.completed)))
            .filter(|(_, op)| engine_of(op.kind) == Some(engine))
            .min_by_key(|(index, op)| (op.stamp_ns, *index));
        if let Some((index, _)) = first {
            let now = state.now_ns;
            let stream = &mut state.streams.rows[index];
            stream.head = Head::Started;
            stream.speed = ONE;
            stream.started_ns = now;
            state.copies[engine].stream = index as u32;
            changed = true;
        }
    }
    changed
}

/// Frees the engine that a completed stream was on, if it was on one, and counts what it moved.
pub fn finish(state: &mut State, stream: usize, bytes: u64) {
    for engine in &mut state.copies {
        if engine.stream == stream as u32 {
            engine.stream = NONE;
            engine.bytes += bytes;
        }
    }
}

/// Counts the time that passes on busy engines.
pub fn account(state: &mut State, dt_ns: u64) {
    for CopyEngine {
        stream, busy_ns, ..
    } in &mut state.copies
    {
        if *stream != NONE {
            *busy_ns += dt_ns;
        }
    }
}
