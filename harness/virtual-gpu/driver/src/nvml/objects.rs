//! The objects behind the handles of a program.

use gpubench_virtual_gpu_model::state::Usage;

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct EventSet {
    pub(super) types: u64,
    /// Number of the next Xid to deliver, counted from the device's start.
    pub(super) next: u64,
}

/// The counters at one instant.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// Generation of the instance that they are of, 0 for the whole device.
    pub(super) of: u64,
    pub(super) at_ns: u64,
    pub(super) busy_ns: u64,
    pub(super) used: Usage,
    /// Bytes over the link: to the device, to the host.
    pub(super) moved: [u64; 2],
    /// SMs, and shares of SMs and of DRAM, of the target.
    pub(super) sm_count: u32,
    pub(super) sm_share: u64,
    pub(super) bandwidth: u64,
}
