//! Graphs, their nodes and recordings, as data.

use std::thread::ThreadId;

use crate::operation::Action;

#[derive(Debug, Clone, Default)]
pub struct GraphEntry {
    /// Handles of its nodes, in the order in which they came.
    pub nodes: Vec<usize>,
}

#[derive(Debug, Clone)]
pub struct NodeEntry {
    pub graph: usize,
    pub action: Action,
    /// Handles of the nodes that come before it.
    pub after: Vec<usize>,
}

/// One step of a graph that is ready to launch.
#[derive(Debug, Clone)]
pub struct Step {
    pub action: Action,
    /// Places of the steps that come before it.
    pub after: Vec<usize>,
    /// Which of the graph's streams it runs in.
    pub lane: usize,
}

/// A graph made ready to launch.
#[derive(Debug, Clone)]
pub struct ExecEntry {
    pub context: u32,
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
    pub graph: usize,
    /// The nodes that the next one comes after.
    pub tips: Vec<usize>,
    /// `CUstreamCaptureMode`.
    pub mode: i32,
    /// It began in this stream.
    pub origin: bool,
    /// Something happened that cannot be recorded.
    pub broken: bool,
    /// The thread that began it.
    pub thread: ThreadId,
}
