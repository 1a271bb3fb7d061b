//! What concurrent work shares, and what divides it.

/// What concurrent work shares. One capacity each, all of size [`ONE`].
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
    /// What begins one kernel after the other.
    FrontEnd,
}

/// How many resources there are.
pub const RESOURCES: usize = 13;

impl Resource {
    /// Every resource, in the order of their numbers.
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

    /// Where it lies, and so what divides it.
    #[must_use]
    pub const fn place(self) -> Place {
        match self {
            Self::SmSlots
            | Self::Issue
            | Self::Fp32
            | Self::Fp64
            | Self::Int
            | Self::Sfu
            | Self::Tensor
            | Self::Shared => Place::Sm,
            // Compute instances begin kernels side by side (MIG user guide): one in each, we infer.
            Self::FrontEnd => Place::Engine,
            // Atomics are carried out in the slices of the L2.
            Self::L2 | Self::Dram | Self::Atomics => Place::Memory,
            // The last-level TLB stays shared under MIG (STAR, arXiv 2404.18361).
            Self::Tlb => Place::Device,
        }
    }
}

/// Where a resource lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In the SMs: divided with them.
    Sm,
    /// In each compute engine: never divided.
    Engine,
    /// In the memory slices: divided between GPU instances.
    Memory,
    /// In the device, outside all parts: never divided.
    Device,
}
