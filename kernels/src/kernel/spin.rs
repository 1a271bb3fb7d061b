//! `spin`: keeps SMs busy for a given time.

use crate::catalogue::Kernel;
use crate::cost::Cost;
use crate::driver::{Args, DevicePtr, Grid};
use crate::kernel_set::{KernelSet, Launcher};
use crate::verify::{Check, VerifyError};

/// Keeps every launched thread busy.
#[derive(Debug, Clone, Copy)]
pub struct Spin {
    pub duration_ns: u64,
    /// Upper limit of the duration.
    pub budget_ns: u64,
    /// Null, or room for two u64 a block: its start and end on `%globaltimer`.
    pub stamps: DevicePtr,
    /// The launch shape.
    pub grid: Grid,
}

impl Launcher for Spin {
    fn kernel(&self) -> Kernel {
        Kernel::Spin
    }

    fn grid(&self) -> Grid {
        self.grid
    }

    fn args(&self) -> Args {
        Args::new().u64(self.duration_ns).u64(self.budget_ns).ptr(self.stamps)
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
    let check = Check::new("spin", kernels)?;
    let grid = Grid::new(2, 32);
    let long_ns = 1_000_000_000;
    for (duration_ns, budget_ns) in [(2_000, long_ns), (u64::MAX, 2_000)] {
        let stamps = check.zeros::<u64>(4)?;
        let stamps_at = stamps.device_ptr();
        check.run(&Spin { duration_ns, budget_ns, stamps: stamps_at, grid })?;
        for pair in stamps.to_vec()?.chunks_exact(2) {
            check.lasted("a block", pair[0], pair[1], 2_000)?;
        }
    }
    for (duration_ns, budget_ns) in [(0, u64::MAX), (u64::MAX, 0)] {
        let stamps = check.zeros::<u64>(4)?;
        let stamps_at = stamps.device_ptr();
        check.run(&Spin { duration_ns, budget_ns, stamps: stamps_at, grid })?;
        for pair in stamps.to_vec()?.chunks_exact(2) {
            check.same("end of a block without time", pair[1], pair[0])?;
        }
    }
    // Without a stamp buffer it must not write.
    check.run(&Spin { duration_ns: 100, budget_ns: 100, stamps: DevicePtr::NULL, grid })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budget_caps_the_cost() {
        let stamps = DevicePtr::NULL;
        let grid = Grid::new(3, 32);
        let spin = Spin { duration_ns: 500, budget_ns: 200, stamps, grid };
        assert_eq!(spin.cost().block_busy_ns, 600);
    }
}
