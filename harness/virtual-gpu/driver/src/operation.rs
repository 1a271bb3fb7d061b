//! The operations of streams, as plain data.
//!
//! The same value is carried out at once or kept in a graph.

use crate::copy_shape::Copy;
use crate::entries::FunctionEntry;
use crate::fill_shape::Fill;
use crate::launch::request::Shape;

/// When the call returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitPolicy {
    /// The call returns when the work is done.
    Now,
    /// The call returns when the work is queued.
    Later,
    /// A graph queues it: the host pays for the graph, not for each node.
    Graph,
}

/// A kernel with its shape and arguments.
#[derive(Debug, Clone)]
pub struct Kernel {
    pub function: FunctionEntry,
    pub handle: usize,
    pub shape: Shape,
    pub params: Vec<u8>,
}

#[derive(Debug, Clone)]
pub enum Action {
    Kernel(Box<Kernel>),
    Copy(Copy),
    Fill(Fill),
    /// Recording the event with this handle.
    Record(usize),
    /// Waiting for the event with this handle.
    Wait(usize),
    Allocate(Reserved),
    /// Freeing the memory at an address.
    Free(u64),
}

/// Memory for an address that a graph has reserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reserved {
    pub address: u64,
    pub bytes: u64,
}
