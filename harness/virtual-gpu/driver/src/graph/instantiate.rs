//! Graphs made ready to launch, and the memory that they allocate.

use std::ffi::c_int;

use crate::code::{self, Code, refuse};
use crate::entries::{Origin, PoolEntry, StreamEntry};
use crate::graph::entries::{ExecEntry, Step};
use crate::handles::Handle;
use crate::operation::Reserved;
use crate::pool;
use crate::process::{Process, Tables};
use crate::submit::mark;

/// Streams that one graph may have beside the one it is launched in.
const LANES: usize = 7;

/// `CUgraphInstantiate_flags` (cuda.h): free at the next launch, upload, launch from the device,
/// priorities of nodes.
pub const AUTO_FREE: u64 = 1;

/// Launch from the device.
pub const DEVICE_LAUNCH: u64 = 4;

/// All flags that cuda.h knows.
pub const FLAGS: u64 = 15;

/// The steps of a graph, in the order in which nodes were added: each comes after those that it
/// depends on, because these exist when it is added.
pub fn steps_of(tables: &Tables, graph: usize) -> Result<Vec<Step>, Code> {
    let nodes = &tables.graphs.get(graph as Handle)?.nodes;
    let step = |&node: &usize| {
        let entry = tables.nodes.get(node as Handle)?;
        let place = |earlier: &usize| nodes.iter().position(|node| node == earlier);
        Ok(Step {
            action: entry.action.clone(),
            after: entry.after.iter().filter_map(place).collect(),
            lane: 0,
        })
    };
    nodes.iter().map(step).collect()
}

/// Gives every step a lane: that of a step before it, if that is the last one there; else a new
/// one. Gives the number of lanes beside the first.
pub fn lay_out(steps: &mut [Step]) -> usize {
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
pub fn same_context(
    process: &Process,
    exec: Handle,
    stream: &StreamEntry,
) -> Result<ExecEntry, Code> {
    let entry = process.ready()?.execs.get(exec)?.clone();
    if entry.context == stream.context { Ok(entry) } else { Err(code::INVALID_HANDLE) }
}

// A node has its address from the start and memory behind it while the graph that allocated it
// runs, until something frees it. What is freed stays with the process for the next graph, and so
// in its account, until `cuDeviceGraphMemTrim`: a pool that never returns memory by itself.

pub fn pool_on(process: &Process, device: c_int) -> Result<usize, Code> {
    let mut tables = process.ready()?;
    refuse(device != 0, code::INVALID_DEVICE)?;
    pool_of(&mut tables)
}

/// What the driver keeps for graphs, made at first use.
fn pool_of(tables: &mut Tables) -> Result<usize, Code> {
    if let Some(pool) = tables.graph_pool {
        return Ok(pool);
    }
    let made = PoolEntry { is_default: true, release_threshold: u64::MAX, ..PoolEntry::default() };
    let pool = tables.pools.insert(made)? as usize;
    tables.graph_pool = Some(pool);
    Ok(pool)
}

/// Puts memory behind a reserved address.
pub fn place_reserved(
    process: &Process,
    stream: &StreamEntry,
    Reserved { address, bytes }: Reserved,
) -> Result<(), Code> {
    let pool = {
        let mut tables = process.ready()?;
        refuse(tables.is_mapped(address, bytes), code::INVALID_VALUE)?;
        pool_of(&mut tables)?
    };
    let offset = pool::offset_from(process, stream, pool, bytes)?;
    let origin = Origin::Pool(pool);
    process.tables().enter(address, bytes, stream.context, offset, origin);
    mark(process, stream).map(|_| ())
}
