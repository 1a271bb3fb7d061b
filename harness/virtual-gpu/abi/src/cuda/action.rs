//! What a stream can be told to do. The same value is carried out at once, or kept in a graph.

use super::graph::capture;
use super::mem_ops::MemOp;
use super::{backlog, copy, event, fill, graph, host, pool, stream, values};
use crate::launch::{self, Request, Shape};
use crate::process::Process;
use gpubench_virtual_gpu_driver::code::Code;
use gpubench_virtual_gpu_driver::entries::{FunctionEntry, StreamEntry};
use gpubench_virtual_gpu_model::state::{Op, OpKind};

/// How the caller goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
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
    /// The kernel.
    pub function: FunctionEntry,
    /// Its handle.
    pub handle: usize,
    /// Its shape.
    pub shape: Shape,
    /// The arguments, laid out.
    pub params: Vec<u8>,
}

/// Work for a stream.
#[derive(Debug, Clone)]
pub enum Action {
    /// Nothing: a place to depend on.
    Empty,
    /// A kernel.
    Kernel(Box<Kernel>),
    /// A copy.
    Copy(copy::Copy),
    /// A fill.
    Fill(fill::Fill),
    /// A function of the program.
    Host(host::HostCall),
    /// A function that is told how the context stands.
    Callback(host::Callback),
    /// Recording the event with this handle.
    Record(usize),
    /// Waiting for the event with this handle.
    Wait(usize),
    /// Memory for a reserved address.
    Allocate(pool::Reserved),
    /// Giving back the memory at an address.
    Free(u64),
    /// All of another graph, by its handle.
    Graph(usize),
    /// A batch of operations on words, of a graph.
    Batch(Vec<MemOp>),
    /// Writing a word.
    Write(values::Word),
    /// Waiting for a word.
    Await(values::Word),
    /// A graph that was made ready.
    Launch(Box<graph::ExecEntry>),
    /// The end of the stream, when all before it is done.
    Close,
}

/// Has a stream do something, or keeps it in the graph that the stream is recorded into.
///
/// # Errors
/// As the work itself; and when it cannot be recorded.
pub fn perform(
    process: &Process,
    stream: &StreamEntry,
    action: Action,
    pace: Pace,
) -> Result<(), Code> {
    match capture::recorded(process, stream, action, pace)? {
        None => Ok(()),
        Some(action) => backlog::pass(process, stream, action, pace),
    }
}

/// Has a stream do something.
///
/// # Errors
/// As the work itself.
pub fn run(
    process: &Process,
    stream: &StreamEntry,
    action: &Action,
    pace: Pace,
) -> Result<(), Code> {
    match action {
        // A graph that holds another one has it in parts.
        Action::Empty | Action::Graph(_) => mark(process, stream).map(|_| ()),
        Action::Kernel(kernel) => {
            let request = Request {
                function: &kernel.function,
                stream: *stream,
                shape: kernel.shape,
                params: kernel.params.clone(),
            };
            launch::launch(process, &request, pace)
        }
        Action::Copy(copy) => copy::run(process, stream, copy, pace),
        Action::Fill(fill) => fill::run(process, stream, fill, pace),
        Action::Host(call) => host::run(process, stream, call),
        Action::Callback(call) => host::call_back(process, stream, call),
        Action::Record(event) => event::record(process, stream, *event, pace),
        Action::Wait(event) => event::wait(process, stream, *event, pace),
        Action::Allocate(reserved) => graph::place_reserved(process, stream, *reserved),
        Action::Free(address) => pool::free(process, stream, *address, pace),
        Action::Batch(ops) => values::run_batch(process, stream, ops),
        Action::Write(word) => values::write(process, stream, word, pace),
        Action::Await(word) => values::follow(process, stream, word, pace),
        Action::Launch(graph) => graph::launch(process, graph, stream),
        Action::Close => stream::finish(process, stream.slot),
    }
}

/// Puts a mark in a stream. Gives its sequence number: what a wait for all before it needs.
///
/// # Errors
/// When the clock stalls.
pub fn mark(process: &Process, stream: &StreamEntry) -> Result<u64, Code> {
    let op = Op {
        kind: OpKind::Marker,
        ..Op::default()
    };
    Ok(process.device.submit(stream.slot, op)?)
}

/// Lets a stream wait until another one has come to a place.
///
/// # Errors
/// When the clock stalls.
pub fn wait_for(process: &Process, stream: u32, target: u32, target_seq: u64) -> Result<(), Code> {
    let op = Op {
        kind: OpKind::Wait,
        target,
        target_seq,
        ..Op::default()
    };
    process.device.submit(stream, op)?;
    Ok(())
}

/// Charges the calling thread for host work, unless a graph has been charged for it already.
///
/// # Errors
/// When the clock stalls.
pub fn charge(process: &Process, pace: Pace, cost_ns: u64) -> Result<(), Code> {
    if pace != Pace::Graph {
        process.device.charge(cost_ns)?;
    }
    Ok(())
}
