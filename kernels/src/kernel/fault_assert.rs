//! `fault_assert`: fails a device-side assertion when armed.

use crate::catalogue::Kernel;
use crate::driver::{Args, DevicePtr, Grid};
use crate::kernel_set::{KernelSet, Launcher};
use crate::verify::{Check, VerifyError};

/// Fails an assertion when armed.
#[derive(Debug, Clone, Copy)]
pub struct FaultAssert {
    /// Whether to fail (710); the driver prints the message to standard error.
    pub armed: bool,
    /// One u32, set to one when the kernel reaches its end.
    pub done: DevicePtr,
}

impl Launcher for FaultAssert {
    fn kernel(&self) -> Kernel {
        Kernel::FaultAssert
    }

    fn grid(&self) -> Grid {
        Grid::new(1, 1)
    }

    fn args(&self) -> Args {
        Args::new().u32(u32::from(self.armed)).ptr(self.done)
    }
}

/// Unarmed it reaches its end.
pub fn verify(kernels: &KernelSet) -> Result<(), VerifyError> {
    let check = Check::new("fault_assert", kernels)?;
    let done = check.zeros::<u32>(1)?;
    check.run(&FaultAssert { armed: false, done: done.device_ptr() })?;
    check.same("done", done.to_vec()?[0], 1)
}
