//! Making a graph ready to launch: its steps in order, and the streams that they run in.

use crate::code::{self, Code};
use crate::entries::StreamEntry;
use crate::graph::edit::in_order;
use crate::graph::entries::{ExecEntry, Step};
use crate::handles::Handle;
use crate::operation::Action;
use crate::process::{Process, Tables};

/// Streams that one graph may have beside the one it is launched in.
const LANES: usize = 7;

/// `CUgraphInstantiate_flags` (cuda.h): free at the next launch, upload, launch from the device,
/// priorities of nodes.
pub const AUTO_FREE: u64 = 1;

/// Launch from the device.
pub const DEVICE_LAUNCH: u64 = 4;

/// All flags that cuda.h knows.
pub const FLAGS: u64 = 15;

/// Appends a graph's nodes as steps, those of inner graphs in place of the node that holds them.
/// Gives the places of the steps with which the graph ends.
pub fn flatten(
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
    if entry.context == stream.context {
        Ok(entry)
    } else {
        Err(code::INVALID_HANDLE)
    }
}
