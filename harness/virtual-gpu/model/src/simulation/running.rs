//! A kernel that runs now, as contention sees it.

use crate::state::{InFlight, RESOURCES};

/// One running kernel.
#[derive(Debug, Clone, Copy)]
pub struct Running {
    pub stream: usize,
    /// Context of the stream.
    pub context: u32,
    /// Power above idle at full speed, in milliwatts.
    pub power_mw: u32,
    /// SMs that it has blocks on.
    pub sms: u32,
    /// Share of each resource of the whole device that it uses at full speed, in fixed point.
    pub demand: [u32; RESOURCES],
    /// What it keeps in flight to memory.
    pub in_flight: InFlight,
    /// Some of its blocks wait for others to end.
    pub blocks_wait: bool,
    /// Lower numbers go first.
    pub priority: i32,
}
