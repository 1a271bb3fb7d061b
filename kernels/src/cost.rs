//! The work of one launch, computed from its arguments and not measured.

/// Work of one launch, by resource; zero where the kernel does not target the resource.
///
/// Bytes are those that the instructions access. They are DRAM bytes where the buffer exceeds L2,
/// and L2 bytes where it fits. A multiply-add counts as two operations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cost {
    pub dram_read_bytes: u64,
    /// Bytes written to DRAM.
    pub dram_write_bytes: u64,
    /// Bytes read from L2, past L1.
    pub l2_bytes: u64,
    /// Bytes read from shared memory or L1.
    pub l1_bytes: u64,
    /// Single-precision operations.
    pub fp32_flops: u64,
    /// Double-precision operations.
    pub fp64_flops: u64,
    /// 32-bit integer operations of the chains (not the address arithmetic).
    pub int_ops: u64,
    /// Tensor-core operations, half-precision inputs.
    pub tensor_flops: u64,
    /// Atomic operations on global memory.
    pub atomic_ops: u64,
    /// Dependent loads, one after another.
    pub chase_steps: u64,
    /// Accesses that each touch another page.
    pub page_touches: u64,
    /// Nanoseconds for which blocks hold their slots, summed over the blocks.
    pub block_busy_ns: u64,
}

impl Cost {
    /// DRAM bytes, both ways.
    pub const fn dram_bytes(&self) -> u64 {
        self.dram_read_bytes + self.dram_write_bytes
    }
}
