//! A requested launch as plain data: its shape, its kernel, the key that identifies it, its
//! outcome, and work that is repeated once its start time is known.

use crate::code::{self, Code};
use crate::copy_shape::Copy;
use crate::cost::Cost;
use crate::entries::{ContextPlacement, FunctionEntry, StreamEntry};
use gpubench_virtual_gpu_model::state::Cause;
use gpubench_virtual_gpu_ptx as ptx;

#[derive(Debug)]
pub struct Request<'a> {
    pub function: &'a FunctionEntry,
    pub stream: StreamEntry,
    pub shape: Shape,
    pub params: Vec<u8>,
}

/// Inputs of a launch, memory contents aside.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Key {
    pub(crate) hash: u64,
    pub(crate) name: String,
    pub(crate) context: u32,
    pub(crate) placement: ContextPlacement,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared_bytes: u32,
    /// Its blocks are executed together, since they may wait for each other.
    pub(crate) cooperative: bool,
    pub(crate) params: Vec<u8>,
}

#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Blocks in each dimension.
    pub grid: [u32; 3],
    /// Threads of a block in each dimension.
    pub block: [u32; 3],
    /// Dynamic shared memory.
    pub shared_bytes: u32,
    /// All blocks must be resident at the same time.
    pub cooperative: bool,
}

pub fn kernel_of(function: &FunctionEntry) -> Result<&ptx::Kernel, Code> {
    function.program.module().kernel(&function.name).ok_or(code::NOT_FOUND)
}

#[derive(Debug)]
pub struct Outcome {
    /// Cost on its part of the device, without other launches.
    pub cost: Cost,
    /// It ends at an instant of `%globaltimer`, not after an amount of work.
    pub by_clock: bool,
    pub reads: Vec<u64>,
    pub writes: Vec<u64>,
    /// For each of them, the first byte accessed and the one after the last.
    pub extents: Vec<(u64, u64)>,
    /// Only some of its blocks were executed.
    pub sampled: bool,
    /// It executed atomics.
    pub uses_atomics: bool,
    /// It accessed memory that other processes or the host read and write.
    pub open: bool,
    pub printed: bool,
    /// The fault that ended it.
    pub fault: Option<Cause>,
}

/// An operation with results that depend on its start time.
#[derive(Debug, Clone)]
pub(crate) struct Rerun {
    pub(crate) stream: u32,
    pub(crate) context: u32,
    pub(crate) seq: u64,
    /// Allocations that it will write.
    pub(crate) writes: Vec<u64>,
    pub(crate) work: RerunWork,
}

#[derive(Debug, Clone)]
pub(crate) enum RerunWork {
    Launch {
        key: Box<Key>,
        function: FunctionEntry,
        /// Time without other launches; `None` for a kernel that ends by the clock.
        alone_ns: Option<f64>,
    },
    Copy(Copy),
}
