//! Recording streams into a graph: what would have been queued becomes nodes.

use std::ffi::c_int;

use crate::code::{self, Code, refuse};
use crate::entries::StreamEntry;
use crate::graph::edit::{add, new_graph, remove_graph};
use crate::graph::entries::Capture;
use crate::handles::Handle;
use crate::issue::Issue;
use crate::operation::{Action, WaitPolicy};
use crate::process::{Process, Tables, process};
use crate::stream::{LEGACY, NON_BLOCKING, null_stream};

/// `CU_STREAM_CAPTURE_MODE_GLOBAL` and `_RELAXED` (cuda.h).
const GLOBAL: c_int = 0;
/// `CU_STREAM_CAPTURE_MODE_RELAXED` (cuda.h).
const RELAXED: c_int = 2;

/// `CU_STREAM_CAPTURE_STATUS_NONE`, `_ACTIVE` and `_INVALIDATED` (cuda.h).
const NONE: c_int = 0;
/// `CU_STREAM_CAPTURE_STATUS_ACTIVE` (cuda.h).
const ACTIVE: c_int = 1;

const INVALIDATED: c_int = 2;

pub fn begin(stream: Handle, mode: c_int) -> Result<(), Code> {
    refuse(!(GLOBAL..=RELAXED).contains(&mode), code::INVALID_VALUE)?;
    let process = process()?;
    let entry = process.stream(stream)?;
    // The legacy stream waits for all others, so it cannot be captured.
    let legacy = stream as usize == LEGACY || (stream.is_null() && null_stream() == LEGACY);
    refuse(legacy, code::STREAM_CAPTURE_UNSUPPORTED)?;
    let mut tables = process.ready()?;
    refuse(tables.captures.contains_key(&entry.slot), code::INVALID_VALUE)?;
    let graph = new_graph(&mut tables)?;
    let number = tables.fresh_number();
    let thread = std::thread::current().id();
    let made =
        Capture { number, graph, tips: Vec::new(), mode, origin: true, broken: false, thread };
    tables.captures.insert(entry.slot, made);
    Ok(())
}

/// Ends a recording in the stream in which it began. Gives the graph.
pub fn end(tables: &mut Tables, stream: &StreamEntry) -> Result<usize, Code> {
    let Some(capture) = tables.captures.get(&stream.slot).cloned() else {
        return Err(code::INVALID_VALUE);
    };
    refuse(!capture.origin, code::STREAM_CAPTURE_UNMATCHED)?;
    if capture.mode != RELAXED && capture.thread != std::thread::current().id() {
        return Err(code::STREAM_CAPTURE_WRONG_THREAD);
    }
    let others = tables.captures.values().filter(|other| other.number == capture.number);
    let tips: Vec<usize> = others.flat_map(|other| other.tips.iter().copied()).collect();
    let joined = tips.iter().all(|tip| comes_before(tables, *tip, &capture.tips));
    tables.captures.retain(|_, other| other.number != capture.number);
    tables.captured_events.retain(|_, (number, _)| *number != capture.number);
    let outcome = match (capture.broken, joined) {
        (true, _) => Err(code::STREAM_CAPTURE_INVALIDATED),
        (_, false) => Err(code::STREAM_CAPTURE_UNJOINED),
        _ => Ok(capture.graph),
    };
    if outcome.is_err() {
        remove_graph(tables, capture.graph)?;
    }
    outcome
}

/// Whether a node is among others, or before one of them.
fn comes_before(tables: &Tables, node: usize, others: &[usize]) -> bool {
    let mut visited: Vec<usize> = Vec::new();
    let mut open = others.to_vec();
    while let Some(at) = open.pop() {
        if at == node {
            return true;
        }
        if !visited.contains(&at) {
            visited.push(at);
            open.extend(tables.nodes.get(at as Handle).into_iter().flat_map(|n| &n.after));
        }
    }
    false
}

/// Whether a stream is being recorded (`CUstreamCaptureStatus`).
pub fn status(stream: Handle) -> Result<c_int, Code> {
    let process = process()?;
    let entry = process.stream(stream)?;
    Ok(match process.ready()?.captures.get(&entry.slot) {
        None => NONE,
        Some(capture) if capture.broken => INVALIDATED,
        Some(_) => ACTIVE,
    })
}

/// Adds the nodes that the list lacks.
fn add_missing(to: &mut Vec<usize>, more: &[usize]) {
    for node in more {
        if !to.contains(node) {
            to.push(*node);
        }
    }
}

/// Adds the action as a node if the stream is being recorded; returns it otherwise.
pub fn recorded(issue: Issue<'_>, action: Action) -> Result<Option<Action>, Code> {
    let Issue { process, stream, policy } = issue;
    let mut tables = process.ready()?;
    refuse_implicit(&mut tables, stream)?;
    let Some(capture) = tables.captures.get_mut(&stream.slot) else { return Ok(Some(action)) };
    refuse(capture.broken, code::STREAM_CAPTURE_INVALIDATED)?;
    if policy == WaitPolicy::Now {
        capture.broken = true;
        return Err(code::STREAM_CAPTURE_UNSUPPORTED);
    }
    let (graph, tips) = (capture.graph, capture.tips.clone());
    let node = add(&mut tables, graph, tips, action)?;
    if let Some(capture) = tables.captures.get_mut(&stream.slot) {
        capture.tips = vec![node];
    }
    Ok(None)
}

/// Refuses what cannot be done to a stream that is being recorded, and breaks the recording.
pub fn forbid(process: &Process, stream: &StreamEntry) -> Result<(), Code> {
    let mut tables = process.ready()?;
    refuse_implicit(&mut tables, stream)?;
    let capture = tables.captures.get(&stream.slot);
    let Some(number) = capture.map(|capture| capture.number) else { return Ok(()) };
    spoil(&mut tables, number);
    Err(code::STREAM_CAPTURE_UNSUPPORTED)
}

/// Breaks a recording in all its streams.
fn spoil(tables: &mut Tables, number: u64) {
    let captures = tables.captures.values_mut();
    for capture in captures.filter(|capture| capture.number == number) {
        capture.broken = true;
    }
}

/// The legacy stream may not be used while a blocking stream of its context is being recorded: it
/// would wait for what has not been queued (CUDA C++ Programming Guide, "Prohibited and Unhandled
/// Operations"). The attempt breaks the recording.
fn refuse_implicit(tables: &mut Tables, stream: &StreamEntry) -> Result<(), Code> {
    let is_legacy = |tables: &Tables| {
        let mut contexts = tables.contexts.values();
        contexts.any(|context| context.default_stream == stream.slot)
    };
    if tables.captures.is_empty() || !is_legacy(tables) {
        return Ok(());
    }
    let recorded = tables.streams.values().find_map(|other| {
        let blocking = other.flags & NON_BLOCKING == 0 && other.context == stream.context;
        let capture = tables.captures.get(&other.slot).filter(|_| blocking)?;
        Some(capture.number)
    });
    let Some(number) = recorded else { return Ok(()) };
    spoil(tables, number);
    Err(code::STREAM_CAPTURE_IMPLICIT)
}

/// Records an event in the capture of a stream. False if the stream is not being captured.
pub fn mark(process: &Process, stream: &StreamEntry, event: Handle) -> Result<bool, Code> {
    let mut tables = process.ready()?;
    let Some(capture) = tables.captures.get(&stream.slot) else { return Ok(false) };
    refuse(capture.broken, code::STREAM_CAPTURE_INVALIDATED)?;
    let place = (capture.number, capture.tips.clone());
    tables.captured_events.insert(event as usize, place);
    Ok(true)
}

/// Makes a stream wait for an event of a capture, which adds the stream to the capture. False if
/// the event was not recorded in a capture.
pub fn join(process: &Process, stream: &StreamEntry, event: Handle) -> Result<bool, Code> {
    let mut tables = process.ready()?;
    let marked = tables.captured_events.get(&(event as usize)).cloned();
    let Some((number, tips)) = marked else {
        let capturing = tables.captures.contains_key(&stream.slot);
        // A graph that waited for work outside of it could not be launched again.
        return if capturing { Err(code::STREAM_CAPTURE_ISOLATION) } else { Ok(false) };
    };
    let origin = tables.captures.values().find(|capture| capture.number == number).cloned();
    let origin = origin.ok_or(code::INVALID_VALUE)?;
    match tables.captures.get_mut(&stream.slot) {
        Some(capture) if capture.number != number => Err(code::STREAM_CAPTURE_MERGE),
        Some(capture) => {
            add_missing(&mut capture.tips, &tips);
            Ok(true)
        }
        None => {
            let joined = Capture { tips, origin: false, ..origin };
            tables.captures.insert(stream.slot, joined);
            Ok(true)
        }
    }
}
