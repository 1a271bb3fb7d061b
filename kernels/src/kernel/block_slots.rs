//! `block_slots`: small blocks that sleep in block slots.

use crate::catalogue::Kernel;
use crate::cost::Cost;
use crate::driver::{Args, DevicePtr, Grid};
use crate::kernel_set::{KernelSet, Launcher};
use crate::verify::{Check, VerifyError};

/// Occupies block slots and sleeps in them.
#[derive(Debug, Clone, Copy)]
pub struct BlockSlots {
    pub duration_ns: u64,
    /// Upper limit of the duration.
    pub budget_ns: u64,
    /// Length of one sleep; the device sleeps up to twice as long, and a millisecond at most.
    pub nap_ns: u32,
    /// Null, or room for two u64 a block: its start and end on `%globaltimer`.
    pub stamps: DevicePtr,
    /// The launch shape: one warp per block occupies a slot and little else.
    pub grid: Grid,
}

impl Launcher for BlockSlots {
    fn kernel(&self) -> Kernel {
        Kernel::BlockSlots
    }

    fn grid(&self) -> Grid {
        self.grid
    }

    fn args(&self) -> Args {
        let args = Args::new().u64(self.duration_ns).u64(self.budget_ns);
        args.u32(self.nap_ns).ptr(self.stamps)
    }

    fn cost(&self) -> Cost {
        let busy_ns = self.duration_ns.min(self.budget_ns);
        Cost {
            block_busy_ns: busy_ns.saturating_mul(u64::from(self.grid.blocks)),
            ..Cost::default()
        }
    }
}

/// A launch lasts the requested duration and never longer than its budget.
pub fn verify(kernels: &KernelSet) -> Result<(), VerifyError> {
    let check = Check::new("block_slots", kernels)?;
    let (grid, nap_ns, long_ns) = (Grid::new(3, 32), 200, 1_000_000_000);
    for (duration_ns, budget_ns) in [(3_000, long_ns), (u64::MAX, 3_000)] {
        let stamps = check.zeros::<u64>(6)?;
        let stamps_at = stamps.device_ptr();
        check.run(&BlockSlots { duration_ns, budget_ns, nap_ns, stamps: stamps_at, grid })?;
        for pair in stamps.to_vec()?.chunks_exact(2) {
            check.lasted("a block", pair[0], pair[1], 3_000)?;
        }
    }
    // Without a stamp buffer it must not write.
    let stamps = DevicePtr::NULL;
    check.run(&BlockSlots { duration_ns: 100, budget_ns: 100, nap_ns, stamps, grid })
}
