//! `fault_bad_space`: an atomic addition through a generic pointer, to local memory when armed.

use crate::catalogue::Kernel;
use crate::driver::{Args, DevicePtr, Grid};
use crate::kernel_set::{KernelSet, Launcher};
use crate::verify::{Check, VerifyError};

/// Adds atomically through a generic pointer.
#[derive(Debug, Clone, Copy)]
pub struct FaultBadSpace {
    /// Whether the pointer leads to local memory (error 717, raised by the SM).
    pub armed: bool,
    /// One u32, incremented when unarmed.
    pub global: DevicePtr,
}

impl Launcher for FaultBadSpace {
    fn kernel(&self) -> Kernel {
        Kernel::FaultBadSpace
    }

    fn grid(&self) -> Grid {
        Grid::new(1, 1)
    }

    fn args(&self) -> Args {
        Args::new().u32(u32::from(self.armed)).ptr(self.global)
    }
}

/// Unarmed it adds one to global memory.
pub fn verify(kernels: &KernelSet) -> Result<(), VerifyError> {
    let check = Check::new("fault_bad_space", kernels)?;
    let global = check.buffer(&[8_u32])?;
    check.run(&FaultBadSpace { armed: false, global: global.device_ptr() })?;
    check.same("word", global.to_vec()?[0], 9)
}
