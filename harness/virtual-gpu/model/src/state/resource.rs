//! Resources that concurrent work shares, what divides them, and requests in flight to memory.

/// Resources and where they are located.
macro_rules! resources {
    ($($(#[$doc:meta])* $resource:ident $location:ident,)*) => {
        /// A resource that concurrent work shares; its capacity is [`ONE`].
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(usize)]
        pub enum Resource {
            $($(#[$doc])* $resource),*
        }

        pub const RESOURCES: usize = Resource::ALL.len();

        impl Resource {
            /// Every resource, by number.
            pub const ALL: [Self; [$(Location::$location),*].len()] = [$(Self::$resource),*];

            /// What divides it.
            pub const fn location(self) -> Location {
                [$(Location::$location),*][self as usize]
            }
        }
    };
}

resources! {
    /// Slots for thread blocks.
    SmSlots Sm,
    /// Issue slots of the warp schedulers.
    Issue Sm,
    /// Single-precision pipe.
    Fp32 Sm,
    /// Double-precision pipe.
    Fp64 Sm,
    Int Sm,
    /// Special functions and conversions.
    Sfu Sm,
    /// Tensor pipe.
    Tensor Sm,
    /// L1 and shared memory.
    Shared Sm,
    // The last-level TLB is shared under MIG (STAR, arXiv 2404.18361).
    Tlb Device,
    /// Atomic units.
    // The slices of the L2 execute atomics.
    Atomics Memory,
    /// L2 bandwidth.
    L2 Memory,
    /// DRAM bandwidth.
    Dram Memory,
    // Compute instances start kernels concurrently (MIG user guide); one dispatch unit each
    // is inferred.
    FrontEnd Engine,
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
