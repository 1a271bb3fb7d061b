//! Calls on graphs and on graphs that are ready to launch.

use crate::code::{self, Code, refuse};
use crate::entries::StreamEntry;
use crate::execute::{launch_graph, run};
use crate::graph::capture;
use crate::graph::edit::{new_graph, remove_graph};
use crate::graph::entries::ExecEntry;
use crate::graph::instantiate::{AUTO_FREE, DEVICE_LAUNCH, FLAGS, lay_out, same_context, steps_of};
use crate::handles::Handle;
use crate::issue::Issue;
use crate::operation::{Action, WaitPolicy};
use crate::process::{Process, process};
use crate::stream::{NON_BLOCKING, close, open};
use crate::submit::submitted;

pub fn create() -> Result<Handle, Code> {
    Ok(new_graph(&mut *process()?.ready()?)? as Handle)
}

/// Destroys a graph that is not being captured.
pub fn destroy(graph: Handle) -> Result<(), Code> {
    let mut tables = process()?.ready()?;
    tables.graphs.get(graph)?;
    let mut captures = tables.captures.values();
    refuse(captures.any(|capture| capture.graph == graph as usize), code::INVALID_VALUE)?;
    remove_graph(&mut tables, graph as usize)
}

/// Makes a graph ready to launch. Steps that do not depend on each other run in streams of the
/// graph's own, so that the device can overlap them.
pub fn instantiate(graph: Handle, flags: u64) -> Result<Handle, Code> {
    refuse(flags & !FLAGS != 0, code::INVALID_VALUE)?;
    refuse(flags & DEVICE_LAUNCH != 0, code::NOT_SUPPORTED)?;
    let process = process()?;
    let context = process.current()?;
    process.charge(process.host().other_ns)?;
    let mut steps = steps_of(&*process.ready()?, graph as usize)?;
    let wanted = lay_out(&mut steps);
    let mut lanes = Vec::new();
    for _ in 0..wanted {
        lanes.push(open(process, &context, NON_BLOCKING, 0)?.slot);
    }
    let mut tables = process.tables();
    tables.execs.insert(ExecEntry { context: context.slot, flags, steps, lanes })
}

/// Destroys a graph that was made ready, once its queued work is done.
pub fn destroy_exec(exec: Handle) -> Result<(), Code> {
    let process = process()?;
    let lanes = process.ready()?.execs.get(exec)?.lanes.clone();
    for lane in &lanes {
        process.device.wait_stream(*lane, submitted(*lane)?)?;
    }
    process.tables().execs.remove(exec)?;
    lanes.into_iter().try_for_each(|lane| close(process, lane))
}

pub fn launch(exec: Handle, stream: Handle) -> Result<(), Code> {
    let process = process()?;
    let stream = process.stream(stream)?;
    capture::forbid(process, &stream)?;
    let entry = same_context(process, exec, &stream)?;
    process.charge(process.host().launch_ns)?;
    if entry.flags & AUTO_FREE != 0 {
        free_leftovers(process, &entry, &stream)?;
    }
    launch_graph(process, &entry, &stream)
}

/// Frees what the last launch allocated and did not free.
fn free_leftovers(process: &Process, exec: &ExecEntry, stream: &StreamEntry) -> Result<(), Code> {
    for step in &exec.steps {
        if let Action::Allocate(reserved) = &step.action
            && process.tables().allocations.contains_key(&reserved.address)
        {
            let free = Action::Free(reserved.address);
            run(Issue { process, stream, policy: WaitPolicy::Graph }, &free)?;
        }
    }
    Ok(())
}
