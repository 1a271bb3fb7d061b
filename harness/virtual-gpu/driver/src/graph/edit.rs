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

/// An action on an event that exists.
pub fn event_action(event: Handle, action: impl FnOnce(usize) -> Action) -> Result<Action, Code> {
    process()?.ready()?.events.get(event)?;
    Ok(action(event as usize))
}

/// The graph as graphviz reads it.
pub fn dot(graph: Handle) -> Result<String, Code> {
    let tables = process()?.ready()?;
    let mut text = String::from("digraph graph_0 {\n");
    for node in &tables.graphs.get(graph)?.nodes {
        let entry = tables.nodes.get(*node as Handle)?;
        let label = match &entry.action {
            Action::Kernel(kernel) => kernel.function.name.clone(),
            other => format!("{other:?}")
                .split(['(', ' ', '{'])
                .next()
                .unwrap_or("")
                .to_owned(),
        };
        text.push_str(&format!("  n{node} [label=\"{label}\"];\n"));
        for before in &entry.after {
            text.push_str(&format!("  n{before} -> n{node};\n"));
        }
    }
    text.push_str("}\n");
    Ok(text)
}

/// `CUgraphNodeType` (cuda.h).
pub fn kind_of(action: &Action) -> c_int {
    match action {
        Action::Kernel(_) => 0,
        Action::Copy(_) => 1,
        Action::Fill(_) => 2,
        Action::Host(_) => 3,
        Action::Graph(_) => 4,
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

/// The nodes that come after a node.
pub fn dependents(node: Handle) -> Result<Vec<usize>, Code> {
    let tables = process()?.ready()?;
    let graph = tables.nodes.get(node)?.graph;
    let nodes = &tables.graphs.get(graph as Handle)?.nodes;
    let depends = |other: &&usize| {
        tables
            .nodes
            .get(**other as Handle)
            .is_ok_and(|o| o.after.contains(&(node as usize)))
    };
    Ok(nodes.iter().filter(depends).copied().collect())
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
