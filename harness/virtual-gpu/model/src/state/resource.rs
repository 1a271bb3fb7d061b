//! Resources that concurrent work shares, what divides them, and requests in flight to memory.

/// A resource that concurrent work shares; its capacity is [`ONE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Resource {
    /// Slots for thread blocks.
    SmSlots,
    /// Issue slots of the warp schedulers.
    Issue,
    /// Single-precision pipe.
    Fp32,
    /// Double-precision pipe.
    Fp64,
    /// Integer pipe.
    Int,
    /// Special functions and conversions.
    Sfu,
    /// Tensor pipe.
    Tensor,
    /// L1 and shared memory.
    Shared,
    /// Address translation.
    Tlb,
    /// Atomic units.
    Atomics,
    /// L2 bandwidth.
    L2,
    /// DRAM bandwidth.
    Dram,
    /// Kernel dispatch.
    FrontEnd,
}

/// Number of resources.
pub const RESOURCES: usize = 13;

impl Resource {
    /// Every resource, by number.
    pub const ALL: [Self; RESOURCES] = [
        Self::SmSlots,
        Self::Issue,
        Self::Fp32,
        Self::Fp64,
        Self::Int,
        Self::Sfu,
        Self::Tensor,
        Self::Shared,
        Self::Tlb,
        Self::Atomics,
        Self::L2,
        Self::Dram,
        Self::FrontEnd,
    ];

    /// What divides it.
    #[must_use]
    pub const fn location(self) -> Location {
        match self {
            Self::SmSlots
            | Self::Issue
            | Self::Fp32
            | Self::Fp64
            | Self::Int
            | Self::Sfu
            | Self::Tensor
            | Self::Shared => Location::Sm,
            // Compute instances start kernels concurrently (MIG user guide); one dispatch unit each
            // is inferred.
            Self::FrontEnd => Location::Engine,
            // The slices of the L2 execute atomics.
            Self::L2 | Self::Dram | Self::Atomics => Location::Memory,
            // The last-level TLB is shared under MIG (STAR, arXiv 2404.18361).
            Self::Tlb => Location::Device,
        }
    }
}

/// Where a resource is located, which decides what divides it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Location {
    /// In the SMs, and divided with them.
    Sm,
    /// In each compute engine; not divided.
    Engine,
    /// In the memory slices, divided between GPU instances.
    Memory,
    /// In the device, shared by all GPU instances.
    Device,
}

/// What the resident blocks of a kernel keep in flight to memory. Where memory is full, kernels get
/// bandwidth in proportion to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct InFlight {
    /// Bytes to DRAM.
    pub dram: u32,
    /// Bytes to L2.
    pub l2: u32,
}
