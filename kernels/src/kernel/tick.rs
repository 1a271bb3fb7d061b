//! `tick`: the smallest kernel with a visible effect.

use crate::catalogue::Kernel;
use crate::cost::Cost;
use crate::driver::{Args, DevicePtr, Grid};
use crate::kernel_set::{KernelSet, Launcher};
use crate::verify::{Check, VerifyError};

/// Adds one to a count.
#[derive(Debug, Clone, Copy)]
pub struct Tick {
    /// One u32.
    pub count: DevicePtr,
    /// The launch shape; every launch adds one, whatever its shape.
    pub grid: Grid,
}

impl Launcher for Tick {
    fn kernel(&self) -> Kernel {
        Kernel::Tick
    }

    fn grid(&self) -> Grid {
        self.grid
    }

    fn args(&self) -> Args {
        Args::new().ptr(self.count)
    }

    fn cost(&self) -> Cost {
        Cost { atomic_ops: 1, ..Cost::default() }
    }
}

/// Every launch of a burst is counted once.
pub fn verify(kernels: &KernelSet) -> Result<(), VerifyError> {
    let check = Check::new("tick", kernels)?;
    let count = check.zeros::<u32>(1)?;
    let tick = Tick { count: count.device_ptr(), grid: Grid::new(2, 64) };
    for _ in 0..20 {
        tick.launch(check.kernels, &check.stream)?;
    }
    check.stream.synchronize()?;
    check.same("launches counted", count.to_vec()?[0], 20)
}
