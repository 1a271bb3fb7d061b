//! Creating and removing graphs, and adding nodes.

use crate::code::{self, Code, refuse};
use crate::graph::entries::{GraphEntry, NodeEntry};
use crate::handles::Handle;
use crate::operation::Action;
use crate::process::Tables;

pub fn add(
    tables: &mut Tables,
    graph: usize,
    after: Vec<usize>,
    action: Action,
) -> Result<usize, Code> {
    tables.graphs.get(graph as Handle)?;
    for (index, node) in after.iter().enumerate() {
        let elsewhere = tables.nodes.get(*node as Handle)?.graph != graph;
        refuse(elsewhere || after[..index].contains(node), code::INVALID_VALUE)?;
    }
    let node = tables.nodes.insert(NodeEntry { graph, action, after })? as usize;
    tables.graphs.get_mut(graph as Handle)?.nodes.push(node);
    Ok(node)
}

pub fn new_graph(tables: &mut Tables) -> Result<usize, Code> {
    let made = tables.graphs.insert(GraphEntry { nodes: Vec::new() })?;
    Ok(made as usize)
}

pub fn remove_graph(tables: &mut Tables, graph: usize) -> Result<(), Code> {
    let gone = tables.graphs.remove(graph as Handle)?;
    for node in gone.nodes {
        tables.nodes.remove(node as Handle)?;
    }
    Ok(())
}
