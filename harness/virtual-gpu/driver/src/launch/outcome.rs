//! The outcome of an execution: plain data.

use crate::cost::Cost;
use gpubench_virtual_gpu_model::state::Cause;

/// The outcome of an execution.
#[derive(Debug)]
pub struct Outcome {
    /// Cost on its part of the device, without other launches.
    pub cost: Cost,
    /// It ends at an instant of `%globaltimer`, not after an amount of work.
    pub by_clock: bool,
    /// Allocations read.
    pub reads: Vec<u64>,
    /// Allocations written.
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
