//! Graphs: work with its dependencies, kept to be launched as a whole, again and again.
//!
//! `edit` makes and changes graphs, `nodes` adds what they do, `memory` those nodes that allocate,
//! `exec` launches them, `update` changes what is ready to launch, `capture` records streams into
//! them.

pub mod capture;
mod edit;
mod exec;
mod memory;
mod nodes;
mod update;

pub(super) use exec::launch;
pub(super) use memory::place_reserved;
pub(super) use nodes::{enter, known, replace as replace_node};
pub(super) use update::replace as replace_step;

use std::thread::ThreadId;

use super::action::Action;
use crate::process::Tables;
use gpubench_virtual_gpu_driver::code::{self, Code};
use gpubench_virtual_gpu_driver::handles::Handle;

/// Every entry point on graphs.
pub mod calls {
    pub use super::capture::*;
    pub use super::edit::*;
    pub use super::exec::*;
    pub use super::memory::*;
    pub use super::nodes::*;
    pub use super::update::*;
}

/// A graph.
#[derive(Debug, Clone, Default)]
pub struct GraphEntry {
    /// Handles of its nodes, in the order in which they came.
    pub nodes: Vec<usize>,
    /// Its number.
    pub number: u64,
    /// It is part of another graph's node, with which it goes.
    pub inner: bool,
}

/// A node of a graph.
#[derive(Debug, Clone)]
pub struct NodeEntry {
    /// Handle of its graph.
    pub graph: usize,
    /// What it does.
    pub action: Action,
    /// Handles of the nodes that come before it.
    pub after: Vec<usize>,
}

/// One step of a graph that is ready to launch.
#[derive(Debug, Clone)]
pub struct Step {
    /// Handle of the node that it was made from.
    pub node: usize,
    /// What it does.
    pub action: Action,
    /// Places of the steps that come before it.
    pub after: Vec<usize>,
    /// Which of the graph's streams it runs in.
    pub lane: usize,
    /// Disabled steps do nothing.
    pub enabled: bool,
}

/// A graph made ready to launch.
#[derive(Debug, Clone)]
pub struct ExecEntry {
    /// Context slot.
    pub context: u32,
    /// Its number.
    pub number: u64,
    /// Flags it was made with.
    pub flags: u64,
    /// What it does, in an order that respects all dependencies.
    pub steps: Vec<Step>,
    /// Streams for what can run beside the stream it is launched in.
    pub lanes: Vec<u32>,
}

/// A stream that is being recorded into a graph.
#[derive(Debug, Clone)]
pub struct Capture {
    /// Number of the recording, the same for all streams in it.
    pub number: u64,
    /// Handle of the graph.
    pub graph: usize,
    /// The nodes that the next one comes after.
    pub tips: Vec<usize>,
    /// The tips as they were last shown to the program, which keeps a pointer to them.
    pub shown: Vec<usize>,
    /// `CUstreamCaptureMode`.
    pub mode: i32,
    /// It began in this stream.
    pub origin: bool,
    /// The graph was there before.
    pub given: bool,
    /// Something happened that cannot be recorded.
    pub broken: bool,
    /// The thread that began it.
    pub thread: ThreadId,
}

/// Puts a node into a graph.
///
/// # Errors
/// When the graph or a node before it is not there.
pub fn add(
    tables: &mut Tables,
    graph: usize,
    after: Vec<usize>,
    action: Action,
) -> Result<usize, Code> {
    tables.graphs.get(graph as Handle)?;
    for (index, node) in after.iter().enumerate() {
        let elsewhere = tables.nodes.get(*node as Handle)?.graph != graph;
        if elsewhere || after[..index].contains(node) {
            return Err(code::INVALID_VALUE);
        }
    }
    let node = tables.nodes.insert(NodeEntry {
        graph,
        action,
        after,
    })? as usize;
    tables.graphs.get_mut(graph as Handle)?.nodes.push(node);
    Ok(node)
}

/// An empty graph.
///
/// # Errors
/// When there is no room for another one.
pub fn new_graph(tables: &mut Tables, inner: bool) -> Result<usize, Code> {
    let number = tables.fresh_number();
    let made = tables.graphs.insert(GraphEntry {
        nodes: Vec::new(),
        number,
        inner,
    })?;
    Ok(made as usize)
}

/// Removes a graph with its nodes and the graphs within.
///
/// # Errors
/// When it is not there.
pub fn remove_graph(tables: &mut Tables, graph: usize) -> Result<(), Code> {
    let gone = tables.graphs.remove(graph as Handle)?;
    for node in gone.nodes {
        let node = tables.nodes.remove(node as Handle)?;
        if let Action::Graph(inner) = node.action {
            remove_graph(tables, inner)?;
        }
    }
    Ok(())
}

/// A copy of a graph with nodes of its own.
///
/// # Errors
/// When it is not there.
pub fn copy_graph(tables: &mut Tables, graph: usize, inner: bool) -> Result<usize, Code> {
    let nodes = tables.graphs.get(graph as Handle)?.nodes.clone();
    let target = new_graph(tables, inner)?;
    let mut made = Vec::new();
    for node in &nodes {
        let mut action = tables.nodes.get(*node as Handle)?.action.clone();
        if let Action::Graph(inside) = &mut action {
            *inside = copy_graph(tables, *inside, true)?;
        }
        made.push(add(tables, target, Vec::new(), action)?);
    }
    for (node, copy) in nodes.iter().zip(&made) {
        let after = tables.nodes.get(*node as Handle)?.after.clone();
        let place = |old: &usize| nodes.iter().position(|node| node == old).map(|at| made[at]);
        tables.nodes.get_mut(*copy as Handle)?.after = after.iter().filter_map(place).collect();
    }
    Ok(target)
}

/// The nodes of a graph in an order that respects all dependencies.
///
/// # Errors
/// When they go round in a circle.
pub fn in_order(tables: &Tables, graph: usize) -> Result<Vec<usize>, Code> {
    let nodes = &tables.graphs.get(graph as Handle)?.nodes;
    let mut out: Vec<usize> = Vec::new();
    let mut left = nodes.clone();
    while !left.is_empty() {
        let before = left.len();
        let mut waiting = Vec::new();
        for node in left {
            let after = &tables.nodes.get(node as Handle)?.after;
            if after.iter().all(|node| out.contains(node)) {
                out.push(node);
            } else {
                waiting.push(node);
            }
        }
        if waiting.len() == before {
            return Err(code::INVALID_VALUE);
        }
        left = waiting;
    }
    Ok(out)
}
