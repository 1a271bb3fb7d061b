//! Allocations of device memory.

/// One device allocation.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct Allocation {
    /// Whether the slot is in use.
    pub live: bool,
    /// Context slot that owns it; [`NONE`](super::NONE) if it was allocated without a context.
    pub context: u32,
    /// Process slot that owns it.
    pub process: u32,
    /// Row of the GPU instance that it lies in.
    pub instance: u32,
    /// Offset in device memory.
    pub offset: u64,
    /// Requested length.
    pub bytes: u64,
    /// Length used, in whole pages.
    pub taken: u64,
    /// Unique number.
    pub number: u64,
}
