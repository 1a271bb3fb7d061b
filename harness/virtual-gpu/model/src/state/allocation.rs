//! Allocations of device memory.

/// One device allocation.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct Allocation {
    /// Whether the slot is in use.
    pub live: bool,
    /// Context slot that owns it; [`NONE`](super::NONE) for a descriptor.
    pub context: u32,
    /// Process slot that owns it; [`NONE`](super::NONE) for a descriptor.
    pub process: u32,
    /// Row of the GPU instance that it lies in.
    pub instance: u32,
    /// Offset in device memory.
    pub offset: u64,
    /// Requested length.
    pub bytes: u64,
    /// Length used, in whole pages; 0 for a holder of another allocation.
    pub taken: u64,
    /// Unique number; all holders of the same memory share it.
    pub number: u64,
    /// It holds memory of another row, and becomes its owner when that row is freed.
    pub borrowed: bool,
    /// Index of the export, from 1; 0 if a context owns it.
    pub export: u32,
}
