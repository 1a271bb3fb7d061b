//! The operations of streams, as plain data.
//!
//! The same value is carried out at once, kept in a graph, or deferred until it can begin.

use std::ffi::{c_int, c_void};

use crate::copy_shape::Copy;
use crate::entries::FunctionEntry;
use crate::fill_shape::Fill;
use crate::graph::entries::ExecEntry;
use crate::handles::Handle;
use crate::launch::shape::Shape;
use crate::memory_op::MemOp;
use gpubench_virtual_gpu_model::state::stream_wait::Test;

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

/// Work for a stream.
#[derive(Debug, Clone)]
pub enum Action {
    /// No work: a node or mark to depend on.
    Empty,
    Kernel(Box<Kernel>),
    Copy(Copy),
    Fill(Fill),
    /// A function of the program.
    Host(HostCall),
    /// A function that gets the status of the context.
    Callback(Callback),
    /// Recording the event with this handle.
    Record(usize),
    /// Waiting for the event with this handle.
    Wait(usize),
    /// Memory for a reserved address.
    Allocate(Reserved),
    /// Freeing the memory at an address.
    Free(u64),
    /// A batch of operations on words, of a graph.
    Batch(Vec<MemOp>),
    /// Writing a word.
    Write(Word),
    /// Waiting for a word.
    Await(Word),
    /// A graph that was made ready.
    Launch(Box<ExecEntry>),
    /// The end of the stream, when all before it is done.
    Close,
}

/// A word, with the value that is written to it or compared with it.
#[derive(Debug, Clone, Copy)]
pub struct Word {
    pub pointer: u64,
    /// Length, value and, for waits, the kind of comparison.
    pub test: Test,
}

/// Memory for an address that a graph has reserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reserved {
    pub address: u64,
    pub bytes: u64,
}

/// `CUhostFn`.
pub type HostFunction = unsafe extern "C" fn(*mut c_void);

/// `CUstreamCallback`.
pub type StreamCallback = unsafe extern "C" fn(Handle, c_int, *mut c_void);

/// A function of the program with its argument.
#[derive(Debug, Clone, Copy)]
pub struct HostCall {
    pub function: HostFunction,
    pub data: usize,
}

/// A function that also gets the stream and the status of its context.
#[derive(Debug, Clone, Copy)]
pub struct Callback {
    pub function: StreamCallback,
    /// The stream's handle.
    pub stream: usize,
    pub data: usize,
}
