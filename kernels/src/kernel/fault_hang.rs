//! `fault_hang`: runs until a flag is set or its budget is spent.

use crate::catalogue::Kernel;
use crate::cost::Cost;
use crate::driver::{Args, DevicePtr, Grid};
use crate::kernel_set::{KernelSet, Launcher};
use crate::verify::{Check, VerifyError};

/// Runs until a flag is set.
#[derive(Debug, Clone, Copy)]
pub struct FaultHang {
    /// One u32, best in pinned host memory: any value but zero ends the kernel.
    pub flag: DevicePtr,
    /// The time limit after which it ends by itself.
    pub budget_ns: u64,
    /// Room for two u64 a block: its start and end on `%globaltimer`.
    pub stamps: DevicePtr,
    /// The launch shape.
    pub grid: Grid,
}

impl Launcher for FaultHang {
    fn kernel(&self) -> Kernel {
        Kernel::FaultHang
    }

    fn grid(&self) -> Grid {
        self.grid
    }

    fn args(&self) -> Args {
        Args::new().ptr(self.flag).u64(self.budget_ns).ptr(self.stamps)
    }

    fn cost(&self) -> Cost {
        let block_busy_ns = self.budget_ns.saturating_mul(u64::from(self.grid.blocks));
        Cost { block_busy_ns, ..Cost::default() }
    }
}

/// A flag ends it at once, and the budget ends it without a flag.
pub fn verify(kernels: &KernelSet) -> Result<(), VerifyError> {
    let check = Check::new("fault_hang", kernels)?;
    let grid = Grid::new(2, 32);
    for (raised, budget_ns) in [(1_u32, u64::MAX), (0, 3_000)] {
        let flag = check.buffer(&[raised])?;
        let stamps = check.zeros::<u64>(4)?;
        let (flag_at, stamps_at) = (flag.device_ptr(), stamps.device_ptr());
        check.run(&FaultHang { flag: flag_at, budget_ns, stamps: stamps_at, grid })?;
        for pair in stamps.to_vec()?.chunks_exact(2) {
            let at_least_ns = if raised == 1 { 0 } else { budget_ns };
            check.lasted("a block", pair[0], pair[1], at_least_ns)?;
        }
    }
    Ok(())
}
