//! Recording streams into a graph: what would have been queued becomes nodes.
#![expect(
    unsafe_code,
    reason = "a C interface is made of raw pointers and exported names"
)]

use std::cell::Cell;
use std::ffi::{c_int, c_uint, c_ulonglong, c_void};

use super::super::action::{Action, Pace};
use super::super::global::entries;
use super::super::per_thread::null_stream;
use super::super::stream::NON_BLOCKING;
use super::edit::handles;
use super::{Capture, add, new_graph, remove_graph};
use crate::process::{LEGACY, Process, Tables, process};
use crate::put;
use gpubench_virtual_gpu_driver::code::{self, Code};
use gpubench_virtual_gpu_driver::entries::StreamEntry;
use gpubench_virtual_gpu_driver::handles::Handle;

/// `CU_STREAM_CAPTURE_MODE_GLOBAL` and `_RELAXED` (cuda.h).
const GLOBAL: c_int = 0;
const RELAXED: c_int = 2;

/// `CU_STREAM_CAPTURE_STATUS_NONE`, `_ACTIVE` and `_INVALIDATED` (cuda.h).
const NONE: c_int = 0;
const ACTIVE: c_int = 1;
const INVALIDATED: c_int = 2;

thread_local! {
    /// The thread's mode, which it may exchange.
    static MODE: Cell<c_int> = const { Cell::new(GLOBAL) };
}

entries! {
    fn cuStreamBeginCapture(stream: Handle) {
        begin(stream, GLOBAL, None)
    }

    fn cuStreamBeginCapture_v2(stream: Handle, mode: c_int) {
        begin(stream, mode, None)
    }

    fn cuStreamBeginCaptureToGraph(
        stream: Handle,
        graph: Handle,
        after: *const Handle,
        data: *const c_void,
        count: usize,
        mode: c_int,
    ) {
        let _ = data;
        // SAFETY: the caller's array of `count` entries.
        let after = unsafe { handles(after, count) }?;
        begin(stream, mode, Some((graph as usize, after)))
    }

    fn cuStreamEndCapture(stream: Handle, graph: *mut Handle) {
        if graph.is_null() {
            return Err(code::INVALID_VALUE);
        }
        let process = process()?;
        let entry = process.stream(stream)?;
        let ended = end(&mut *process.ready()?, &entry);
        let found = ended.as_ref().map_or(std::ptr::null_mut(), |made| *made as Handle);
        // SAFETY: the caller's place, checked for null above.
        unsafe { put(graph, found) }?;
        ended.map(|_| ())
    }

    fn cuStreamIsCapturing(stream: Handle, status: *mut c_int) {
        let process = process()?;
        let entry = process.stream(stream)?;
        let found = status_of(process.ready()?.captures.get(&entry.slot));
        // SAFETY: the caller's place, checked for null.
        unsafe { put(status, found) }
    }

    fn cuStreamGetCaptureInfo(stream: Handle, status: *mut c_int, id: *mut c_ulonglong) {
        let (graph, tips, count) =
            (std::ptr::null_mut(), std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: the caller's places.
        unsafe { info(stream, status, id, graph, tips, count) }
    }

    fn cuStreamGetCaptureInfo_v2(
        stream: Handle,
        status: *mut c_int,
        id: *mut c_ulonglong,
        graph: *mut Handle,
        tips: *mut *const Handle,
        count: *mut usize,
    ) {
        // SAFETY: the caller's places.
        unsafe { info(stream, status, id, graph, tips, count) }
    }

    fn cuStreamGetCaptureInfo_v3(
        stream: Handle,
        status: *mut c_int,
        id: *mut c_ulonglong,
        graph: *mut Handle,
        tips: *mut *const Handle,
        data: *mut *const c_void,
        count: *mut usize,
    ) {
        // SAFETY: the caller's places; all edges are plain, which a null pointer says (cuda.h).
        unsafe {
            if !data.is_null() {
                put(data, std::ptr::null())?;
            }
            info(stream, status, id, graph, tips, count)
        }
    }

    fn cuStreamUpdateCaptureDependencies(
        stream: Handle,
        tips: *mut Handle,
        count: usize,
        flags: c_uint,
    ) {
        // SAFETY: the caller's array of `count` entries.
        unsafe { update_tips(stream, tips, count, flags) }
    }

    fn cuStreamUpdateCaptureDependencies_v2(
        stream: Handle,
        tips: *mut Handle,
        data: *const c_void,
        count: usize,
        flags: c_uint,
    ) {
        let _ = data;
        // SAFETY: the caller's array of `count` entries.
        unsafe { update_tips(stream, tips, count, flags) }
    }

    fn cuThreadExchangeStreamCaptureMode(mode: *mut c_int) {
        if mode.is_null() {
            return Err(code::INVALID_VALUE);
        }
        // SAFETY: not null, the caller's place.
        let wanted = unsafe { mode.read_unaligned() };
        if !(GLOBAL..=RELAXED).contains(&wanted) {
            return Err(code::INVALID_VALUE);
        }
        // SAFETY: not null, the caller's place.
        unsafe { put(mode, MODE.replace(wanted)) }
    }
}

fn begin(stream: Handle, mode: c_int, into: Option<(usize, Vec<usize>)>) -> Result<(), Code> {
    if !(GLOBAL..=RELAXED).contains(&mode) {
        return Err(code::INVALID_VALUE);
    }
    let process = process()?;
    let entry = process.stream(stream)?;
    // The legacy stream waits for everybody, so it cannot be recorded.
    let legacy = stream as usize == LEGACY || (stream.is_null() && null_stream() == LEGACY);
    if legacy {
        return Err(code::STREAM_CAPTURE_UNSUPPORTED);
    }
    let mut tables = process.ready()?;
    if tables.captures.contains_key(&entry.slot) {
        return Err(code::INVALID_VALUE);
    }
    let given = into.is_some();
    let (graph, tips) = match into {
        None => (new_graph(&mut tables, false)?, Vec::new()),
        Some((graph, tips)) => {
            tables.graphs.get(graph as Handle)?;
            check_tips(&tables, graph, &tips)?;
            (graph, tips)
        }
    };
    let number = tables.fresh_number();
    let shown = Vec::new();
    let thread = std::thread::current().id();
    let made = Capture {
        number,
        graph,
        tips,
        shown,
        mode,
        origin: true,
        given,
        broken: false,
        thread,
    };
    tables.captures.insert(entry.slot, made);
    Ok(())
}

fn check_tips(tables: &Tables, graph: usize, tips: &[usize]) -> Result<(), Code> {
    for node in tips {
        if tables.nodes.get(*node as Handle)?.graph != graph {
            return Err(code::INVALID_VALUE);
        }
    }
    Ok(())
}

/// Ends a recording in the stream in which it began. Gives the graph.
fn end(tables: &mut Tables, stream: &StreamEntry) -> Result<usize, Code> {
    let Some(capture) = tables.captures.get(&stream.slot).cloned() else {
        return Err(code::INVALID_VALUE);
    };
    if !capture.origin {
        return Err(code::STREAM_CAPTURE_UNMATCHED);
    }
    if capture.mode != RELAXED && capture.thread != std::thread::current().id() {
        return Err(code::STREAM_CAPTURE_WRONG_THREAD);
    }
    let others = tables
        .captures
        .values()
        .filter(|other| other.number == capture.number);
    let tips: Vec<usize> = others
        .flat_map(|other| other.tips.iter().copied())
        .collect();
    let joined = tips
        .iter()
        .all(|tip| comes_before(tables, *tip, &capture.tips));
    tables
        .captures
        .retain(|_, other| other.number != capture.number);
    tables
        .captured_events
        .retain(|_, (number, _)| *number != capture.number);
    let outcome = match (capture.broken, joined) {
        (true, _) => Err(code::STREAM_CAPTURE_INVALIDATED),
        (_, false) => Err(code::STREAM_CAPTURE_UNJOINED),
        _ => Ok(capture.graph),
    };
    if outcome.is_err() && !capture.given {
        remove_graph(tables, capture.graph)?;
    }
    outcome
}

/// Whether a node is among others, or before one of them.
fn comes_before(tables: &Tables, node: usize, others: &[usize]) -> bool {
    let mut seen: Vec<usize> = Vec::new();
    let mut open = others.to_vec();
    while let Some(at) = open.pop() {
        if at == node {
            return true;
        }
        if !seen.contains(&at) {
            seen.push(at);
            open.extend(
                tables
                    .nodes
                    .get(at as Handle)
                    .into_iter()
                    .flat_map(|n| &n.after),
            );
        }
    }
    false
}

fn status_of(capture: Option<&Capture>) -> c_int {
    match capture {
        None => NONE,
        Some(capture) if capture.broken => INVALIDATED,
        Some(_) => ACTIVE,
    }
}

/// # Safety
/// The places are null or valid.
unsafe fn info(
    stream: Handle,
    status: *mut c_int,
    id: *mut c_ulonglong,
    graph: *mut Handle,
    tips: *mut *const Handle,
    count: *mut usize,
) -> Result<(), Code> {
    let process = process()?;
    let entry = process.stream(stream)?;
    let mut tables = process.ready()?;
    let capture = tables.captures.get_mut(&entry.slot);
    let found = status_of(capture.as_deref());
    // SAFETY: the caller's places; the first is checked, the others may be left out (cuda.h).
    unsafe {
        put(status, found)?;
        let Some(capture) = capture.filter(|_| found == ACTIVE) else {
            return Ok(());
        };
        if !id.is_null() {
            put(id, capture.number)?;
        }
        if !graph.is_null() {
            put(graph, capture.graph as Handle)?;
        }
        capture.shown.clone_from(&capture.tips);
        if !tips.is_null() {
            put(tips, capture.shown.as_ptr().cast())?;
        }
        if !count.is_null() {
            put(count, capture.shown.len())?;
        }
    }
    Ok(())
}

/// # Safety
/// `tips` is null or has `count` entries.
unsafe fn update_tips(
    stream: Handle,
    tips: *const Handle,
    count: usize,
    flags: c_uint,
) -> Result<(), Code> {
    // SAFETY: the caller's contract.
    let tips = unsafe { handles(tips, count) }?;
    let process = process()?;
    let entry = process.stream(stream)?;
    let mut tables = process.ready()?;
    let graph = tables
        .captures
        .get(&entry.slot)
        .ok_or(code::INVALID_VALUE)?
        .graph;
    check_tips(&tables, graph, &tips)?;
    let capture = tables
        .captures
        .get_mut(&entry.slot)
        .ok_or(code::INVALID_VALUE)?;
    // CU_STREAM_ADD_CAPTURE_DEPENDENCIES and CU_STREAM_SET_... are 0 and 1 (cuda.h).
    match flags {
        0 => add_missing(&mut capture.tips, &tips),
        1 => capture.tips = tips,
        _ => return Err(code::INVALID_VALUE),
    }
    Ok(())
}

fn add_missing(to: &mut Vec<usize>, more: &[usize]) {
    for node in more {
        if !to.contains(node) {
            to.push(*node);
        }
    }
}

/// Keeps the action as a node if the stream is being recorded; gives it back if it is not.
///
/// # Errors
/// When the recording broke, or this cannot be recorded.
pub(in super::super) fn recorded(
    process: &Process,
    stream: &StreamEntry,
    action: Action,
    pace: Pace,
) -> Result<Option<Action>, Code> {
    let mut tables = process.ready()?;
    refuse_implicit(&mut tables, stream)?;
    let Some(capture) = tables.captures.get_mut(&stream.slot) else {
        return Ok(Some(action));
    };
    if capture.broken {
        return Err(code::STREAM_CAPTURE_INVALIDATED);
    }
    if pace == Pace::Now {
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
///
/// # Errors
/// When the stream is being recorded.
pub(in super::super) fn forbid(process: &Process, stream: &StreamEntry) -> Result<(), Code> {
    let mut tables = process.ready()?;
    refuse_implicit(&mut tables, stream)?;
    let capture = tables.captures.get(&stream.slot);
    let Some(number) = capture.map(|capture| capture.number) else {
        return Ok(());
    };
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
    let Some(number) = recorded else {
        return Ok(());
    };
    spoil(tables, number);
    Err(code::STREAM_CAPTURE_IMPLICIT)
}

/// Lets an event stand for the present place of a recording. Says whether there is one.
///
/// # Errors
/// When the recording broke.
pub(in super::super) fn mark(
    process: &Process,
    stream: &StreamEntry,
    event: Handle,
) -> Result<bool, Code> {
    let mut tables = process.ready()?;
    let Some(capture) = tables.captures.get(&stream.slot) else {
        return Ok(false);
    };
    if capture.broken {
        return Err(code::STREAM_CAPTURE_INVALIDATED);
    }
    let place = (capture.number, capture.tips.clone());
    tables.captured_events.insert(event as usize, place);
    Ok(true)
}

/// Lets a stream wait for an event that stands for a place in a recording, and be recorded with
/// it. Says whether the event does.
///
/// # Errors
/// When the stream belongs to another recording, or waits for work outside of its own.
pub(in super::super) fn join(
    process: &Process,
    stream: &StreamEntry,
    event: Handle,
) -> Result<bool, Code> {
    let mut tables = process.ready()?;
    let marked = tables.captured_events.get(&(event as usize)).cloned();
    let Some((number, tips)) = marked else {
        let capturing = tables.captures.contains_key(&stream.slot);
        // A recording that waited for work outside of it could not be run again.
        return if capturing {
            Err(code::STREAM_CAPTURE_ISOLATION)
        } else {
            Ok(false)
        };
    };
    let origin = tables
        .captures
        .values()
        .find(|capture| capture.number == number)
        .cloned();
    let origin = origin.ok_or(code::INVALID_VALUE)?;
    match tables.captures.get_mut(&stream.slot) {
        Some(capture) if capture.number != number => Err(code::STREAM_CAPTURE_MERGE),
        Some(capture) => {
            add_missing(&mut capture.tips, &tips);
            Ok(true)
        }
        None => {
            let joined = Capture {
                tips,
                shown: Vec::new(),
                origin: false,
                ..origin
            };
            tables.captures.insert(stream.slot, joined);
            Ok(true)
        }
    }
}
