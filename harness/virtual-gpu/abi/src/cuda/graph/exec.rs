//! Making graphs ready, and launching them.
//!
//! Steps that do not depend on each other run in streams of the graph's own, so that the device
//! may overlap them. A step waits for the steps before it in other streams as a stream waits for
//! an event.
#![expect(
    unsafe_code,
    reason = "a C interface is made of raw pointers and exported names"
)]

use std::ffi::{c_char, c_int, c_uint, c_ulonglong};

use super::super::action::{Action, Pace, run, wait_for};
use super::super::backlog;
use super::super::copies::read;
use super::super::global::entries;
use super::super::layout::InstantiateParams;
use super::super::stream::{NON_BLOCKING, close, open, submitted};
use super::{ExecEntry, Step, in_order};
use crate::process::{Process, Tables, process};
use crate::put;
use gpubench_virtual_gpu_driver::code::{self, Code};
use gpubench_virtual_gpu_driver::entries::StreamEntry;
use gpubench_virtual_gpu_driver::handles::Handle;

/// Streams that one graph may have beside the one it is launched in.
const LANES: usize = 7;

/// `CUgraphInstantiate_flags` (cuda.h): free at the next launch, upload, launch from the device,
/// priorities of nodes.
const AUTO_FREE: u64 = 1;
const DEVICE_LAUNCH: u64 = 4;
const FLAGS: u64 = 15;

entries! {
    fn cuGraphInstantiate(
        exec: *mut Handle,
        graph: Handle,
        error_node: *mut Handle,
        log: *mut c_char,
        log_bytes: usize,
    ) {
        let _ = (log, log_bytes);
        // SAFETY: the caller's places.
        unsafe { older(exec, graph, error_node) }
    }

    fn cuGraphInstantiate_v2(
        exec: *mut Handle,
        graph: Handle,
        error_node: *mut Handle,
        log: *mut c_char,
        log_bytes: usize,
    ) {
        let _ = (log, log_bytes);
        // SAFETY: the caller's places.
        unsafe { older(exec, graph, error_node) }
    }

    fn cuGraphInstantiateWithFlags(exec: *mut Handle, graph: Handle, flags: c_ulonglong) {
        instantiate(exec, graph, flags)
    }

    fn cuGraphInstantiateWithParams(
        exec: *mut Handle,
        graph: Handle,
        params: *mut InstantiateParams,
    ) {
        // SAFETY: the caller's structure, checked for null.
        let mut params_now = unsafe { read(params) }?;
        let made = instantiate(exec, graph, params_now.flags);
        params_now.error_node = std::ptr::null_mut();
        // CUDA_GRAPH_INSTANTIATE_SUCCESS and _ERROR are 0 and 1 (cuda.h).
        params_now.result = c_int::from(made.is_err());
        // SAFETY: the caller's structure, checked for null above.
        unsafe { put(params, params_now) }?;
        made
    }

    fn cuGraphExecDestroy(exec: Handle) {
        let process = process()?;
        let lanes = process.ready()?.execs.get(exec)?.lanes.clone();
        // What is queued still runs; the streams can go only when it has.
        backlog::drain(process)?;
        for lane in &lanes {
            process.device.wait_stream(*lane, submitted(*lane)?)?;
        }
        process.tables().execs.remove(exec)?;
        lanes.into_iter().try_for_each(|lane| close(process, lane))
    }

    fn cuGraphExecGetFlags(exec: Handle, flags: *mut c_ulonglong) {
        let found = process()?.ready()?.execs.get(exec)?.flags;
        // SAFETY: the caller's place, checked for null.
        unsafe { put(flags, found) }
    }

    fn cuGraphExecGetId(exec: Handle, id: *mut c_uint) {
        let found = process()?.ready()?.execs.get(exec)?.number;
        // SAFETY: the caller's place, checked for null.
        unsafe { put(id, found as c_uint) }
    }

    fn cuGraphUpload(exec: Handle, stream: Handle) {
        let process = process()?;
        let stream = process.stream(stream)?;
        same_context(process, exec, &stream)?;
        process.device.charge(process.device.machine().host.other_ns)?;
        Ok(())
    }

    fn cuGraphLaunch(exec: Handle, stream: Handle) {
        let process = process()?;
        let stream = process.stream(stream)?;
        super::capture::forbid(process, &stream)?;
        let entry = same_context(process, exec, &stream)?;
        process.device.charge(process.device.machine().host.launch_ns)?;
        if entry.flags & AUTO_FREE != 0 {
            free_leftovers(process, &entry, &stream)?;
        }
        backlog::pass(process, &stream, Action::Launch(Box::new(entry)), Pace::Graph)
    }
}

/// # Safety
/// `error_node` is null or valid.
unsafe fn older(exec: *mut Handle, graph: Handle, error_node: *mut Handle) -> Result<(), Code> {
    if !error_node.is_null() {
        // SAFETY: not null, the caller's place.
        unsafe { put(error_node, std::ptr::null_mut()) }?;
    }
    instantiate(exec, graph, 0)
}

fn instantiate(exec: *mut Handle, graph: Handle, flags: u64) -> Result<(), Code> {
    if exec.is_null() || flags & !FLAGS != 0 {
        return Err(code::INVALID_VALUE);
    }
    if flags & DEVICE_LAUNCH != 0 {
        return Err(code::NOT_SUPPORTED);
    }
    let process = process()?;
    let context = process.current()?;
    process
        .device
        .charge(process.device.machine().host.other_ns)?;
    let mut steps = Vec::new();
    flatten(&*process.ready()?, graph as usize, &[], &mut steps)?;
    let wanted = lay_out(&mut steps);
    let mut lanes = Vec::new();
    for _ in 0..wanted {
        lanes.push(open(process, &context, NON_BLOCKING, 0)?.slot);
    }
    let mut tables = process.tables();
    let number = tables.fresh_number();
    let made = ExecEntry {
        context: context.slot,
        number,
        flags,
        steps,
        lanes,
    };
    let handle = tables.execs.insert(made)?;
    // SAFETY: the caller's place, checked for null above.
    unsafe { put(exec, handle) }
}

/// Appends a graph's nodes as steps, those of inner graphs in place of the node that holds them.
/// Gives the places of the steps with which the graph ends.
pub(super) fn flatten(
    tables: &Tables,
    graph: usize,
    before: &[usize],
    steps: &mut Vec<Step>,
) -> Result<Vec<usize>, Code> {
    // Where each node of this graph ended up: an inner graph ends at several places.
    let mut ends: Vec<(usize, Vec<usize>)> = Vec::new();
    let mut open: Vec<usize> = before.to_vec();
    for node in in_order(tables, graph)? {
        let entry = tables.nodes.get(node as Handle)?;
        let mut after: Vec<usize> = Vec::new();
        for earlier in &entry.after {
            let found = ends.iter().find(|(node, _)| node == earlier);
            after.extend(found.into_iter().flat_map(|(_, places)| places));
        }
        if entry.after.is_empty() {
            after.extend(before);
        }
        open.retain(|place| !after.contains(place));
        let places = match &entry.action {
            Action::Graph(inner) => flatten(tables, *inner, &after, steps)?,
            action => {
                let (action, lane, enabled) = (action.clone(), 0, true);
                steps.push(Step {
                    node,
                    action,
                    after,
                    lane,
                    enabled,
                });
                vec![steps.len() - 1]
            }
        };
        open.extend(&places);
        ends.push((node, places));
    }
    open.sort_unstable();
    open.dedup();
    Ok(open)
}

/// Gives every step a lane: that of a step before it, if that is the last one there; else a new
/// one. Gives the number of lanes beside the first.
fn lay_out(steps: &mut [Step]) -> usize {
    let mut last: Vec<usize> = Vec::new();
    for (at, step) in steps.iter_mut().enumerate() {
        let lanes = last.iter().enumerate();
        let mut free = lanes.filter(|(_, last)| step.after.contains(last));
        let lane = match free.next() {
            Some((lane, _)) => lane,
            None if last.len() <= LANES => {
                last.push(at);
                last.len() - 1
            }
            None => at % last.len(),
        };
        last[lane] = at;
        step.lane = lane;
    }
    last.len().saturating_sub(1)
}

/// A graph that belongs to the stream's context.
fn same_context(process: &Process, exec: Handle, stream: &StreamEntry) -> Result<ExecEntry, Code> {
    let entry = process.ready()?.execs.get(exec)?.clone();
    if entry.context == stream.context {
        Ok(entry)
    } else {
        Err(code::INVALID_HANDLE)
    }
}

/// Frees what the last launch allocated and nobody freed.
fn free_leftovers(process: &Process, entry: &ExecEntry, stream: &StreamEntry) -> Result<(), Code> {
    for step in &entry.steps {
        if let Action::Allocate(reserved) = &step.action
            && process.tables().allocations.contains_key(&reserved.address)
        {
            run(
                process,
                stream,
                &Action::Free(reserved.address),
                Pace::Graph,
            )?;
        }
    }
    Ok(())
}

/// Queues every step of a graph.
///
/// # Errors
/// As the steps.
pub(in super::super) fn launch(
    process: &Process,
    entry: &ExecEntry,
    stream: &StreamEntry,
) -> Result<(), Code> {
    let lane_of = |lane: usize| match lane {
        0 => *stream,
        _ => StreamEntry {
            slot: entry.lanes[lane - 1],
            ..*stream
        },
    };
    if !entry.lanes.is_empty() {
        // The lanes wait for what the stream waits for, which a mark in it stands for.
        run(process, stream, &Action::Empty, Pace::Graph)?;
    }
    let begin = submitted(stream.slot)?;
    for lane in &entry.lanes {
        wait_for(process, *lane, stream.slot, begin)?;
    }
    let mut done: Vec<u64> = Vec::new();
    for step in &entry.steps {
        let own = lane_of(step.lane);
        for &earlier in &step.after {
            let other = lane_of(entry.steps[earlier].lane).slot;
            if other != own.slot {
                wait_for(process, own.slot, other, done[earlier])?;
            }
        }
        let action = if step.enabled {
            &step.action
        } else {
            &Action::Empty
        };
        run(process, &own, action, Pace::Graph)?;
        backlog::notice(process, Some(own.slot))?;
        done.push(submitted(own.slot)?);
    }
    for lane in &entry.lanes {
        wait_for(process, stream.slot, *lane, submitted(*lane)?)?;
    }
    Ok(())
}
