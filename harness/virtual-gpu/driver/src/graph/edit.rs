//! Creating, reading and changing graphs and their nodes.

use std::ffi::c_int;

use crate::code::{self, Code};
use crate::graph::entries::{GraphEntry, NodeEntry};
use crate::handles::Handle;
use crate::operation::Action;
use crate::process::{Tables, process};

/// Replaces the action of a node by one of the same kind.
pub fn replace_node(node: Handle, action: Result<Action, Code>) -> Result<(), Code> {
    let mut tables = process()?.ready()?;
    let same = std::mem::discriminant(&tables.nodes.get(node)?.action);
    // The lock is not needed to make the action, but the node has to be there first.
    let action = action?;
    if std::mem::discriminant(&action) != same {
        return Err(code::INVALID_VALUE);
    }
    tables.nodes.get_mut(node)?.action = action;
    Ok(())
}

/// Refuses a context that does not exist; null means the current one.
pub fn known_context(context: Handle) -> Result<(), Code> {
    // Newer callers leave the context to the driver.
    if context.is_null() {
        return process()?.current().map(|_| ());
    }
    process()?
        .ready()?
        .contexts
        .get(context)
        .map(|_| ())
        .map_err(|_| code::INVALID_CONTEXT)
}

/// `CUgraphNodeType` (cuda.h).
pub fn kind_of(action: &Action) -> c_int {
    match action {
        Action::Kernel(_) => 0,
        Action::Copy(_) => 1,
        Action::Fill(_) => 2,
        Action::Host(_) => 3,
        Action::Empty => 5,
        Action::Wait(_) => 6,
        Action::Record(_) => 7,
        Action::Allocate(_) => 10,
        Action::Free(_) => 11,
        Action::Batch(_) => 12,
        // No node holds these.
        Action::Callback(_)
        | Action::Write(_)
        | Action::Await(_)
        | Action::Launch(_)
        | Action::Close => 12,
    }
}

/// Puts a node into a graph.
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
pub fn new_graph(tables: &mut Tables) -> Result<usize, Code> {
    let made = tables.graphs.insert(GraphEntry { nodes: Vec::new() })?;
    Ok(made as usize)
}

/// Removes a graph with its nodes.
pub fn remove_graph(tables: &mut Tables, graph: usize) -> Result<(), Code> {
    let gone = tables.graphs.remove(graph as Handle)?;
    for node in gone.nodes {
        tables.nodes.remove(node as Handle)?;
    }
    Ok(())
}

/// The nodes of a graph in an order that respects all dependencies.
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
