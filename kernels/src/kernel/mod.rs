//! One typed launcher per kernel, with the cost of a launch and a check of its results.

/// The launch of a kernel: its shape, its arguments in the order of the PTX, and its cost where it
/// has one.
macro_rules! launcher {
    (
        $kernel:ident($self:ident), $grid:expr,
        [$($kind:ident $value:expr),* $(,)?] $(=> $cost:expr)?
    ) => {
        impl crate::Launcher for $kernel {
            fn kernel(&self) -> crate::Kernel {
                crate::Kernel::$kernel
            }

            fn grid(&$self) -> crate::driver::Grid {
                $grid
            }

            fn args(&$self) -> crate::driver::Args {
                crate::driver::Args::new()$(.$kind($value))*
            }

            $(fn cost(&$self) -> Cost {
                $cost
            })?
        }
    };
}

pub mod arithmetic;
pub mod digest;
pub mod faults;
pub mod inference;
pub mod memory;
pub mod on_chip;
pub mod streams;
pub mod timing;

use crate::driver::Grid;

/// Work of one launch, by resource; zero where the kernel does not target the resource.
///
/// Bytes are those that the instructions access. They are DRAM bytes where the buffer exceeds L2,
/// and L2 bytes where it fits. A multiply-add counts as two operations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cost {
    pub dram_read_bytes: u64,
    pub dram_write_bytes: u64,
    /// Bytes read from L2, past L1.
    pub l2_bytes: u64,
    /// Bytes read from shared memory or L1.
    pub l1_bytes: u64,
    pub fp32_flops: u64,
    pub fp64_flops: u64,
    /// 32-bit integer operations of the chains (not the address arithmetic).
    pub int_ops: u64,
    /// Tensor-core operations, half-precision inputs.
    pub tensor_flops: u64,
    /// Atomic operations on global memory.
    pub atomic_ops: u64,
    /// Dependent loads, one after another.
    pub chase_steps: u64,
    pub page_touches: u64,
    /// Nanoseconds for which blocks hold their slots, summed over the blocks.
    pub block_busy_ns: u64,
}

impl Cost {
    /// DRAM bytes, both ways.
    pub const fn dram_bytes(&self) -> u64 {
        self.dram_read_bytes + self.dram_write_bytes
    }

    /// Blocks that hold their slots for that long, at most for their budget.
    pub(crate) fn busy(duration_ns: u64, budget_ns: u64, grid: Grid) -> Self {
        let busy_ns = duration_ns.min(budget_ns);
        Self { block_busy_ns: busy_ns.saturating_mul(u64::from(grid.blocks)), ..Self::default() }
    }
}

/// Bytes of one access of the streaming kernels.
pub const VECTOR_BYTES: u64 = 16;

/// Number of elements that thread `thread` of `grid` visits: the elements thread, thread + T,
/// thread + 2 T... of a grid-stride loop of T threads over `count` elements.
pub(crate) fn elements_of(
    thread: u64,
    total_threads: u64,
    count: u64,
) -> impl Iterator<Item = u64> {
    let step = usize::try_from(total_threads.max(1)).unwrap_or(usize::MAX);
    (thread..count).step_by(step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grid_stride_loop_visits_every_element_once() {
        let mut visited: Vec<_> = (0..7).flat_map(|t| elements_of(t, 7, 100)).collect();
        visited.sort_unstable();
        assert_eq!(visited, (0..100).collect::<Vec<_>>());
        assert_eq!(elements_of(9, 7, 5).count(), 0);
    }
}
