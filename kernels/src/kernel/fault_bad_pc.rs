//! `fault_bad_pc`: calls a function through a pointer that the host can offset.

use crate::catalogue::Kernel;
use crate::driver::{Args, DevicePtr, Grid};
use crate::kernel_set::{KernelSet, Launcher};
use crate::verify::{Check, VerifyError};

/// Calls a function through a pointer.
#[derive(Debug, Clone, Copy)]
pub struct FaultBadPc {
    /// Added to the function's address; zero is harmless.
    pub offset_bytes: u64,
    /// The argument.
    pub x: u32,
    /// One u32: the argument plus one.
    pub out: DevicePtr,
}

impl FaultBadPc {
    /// The fault: error 718, raised by the SM. The address is beyond any code, and aligned.
    pub const fn armed(out: DevicePtr) -> Self {
        Self { offset_bytes: 1 << 40, x: 0, out }
    }
}

impl Launcher for FaultBadPc {
    fn kernel(&self) -> Kernel {
        Kernel::FaultBadPc
    }

    fn grid(&self) -> Grid {
        Grid::new(1, 1)
    }

    fn args(&self) -> Args {
        Args::new().u64(self.offset_bytes).u32(self.x).ptr(self.out)
    }
}

/// With an unchanged pointer it calls the function.
pub fn verify(kernels: &KernelSet) -> Result<(), VerifyError> {
    let check = Check::new("fault_bad_pc", kernels)?;
    let out = check.zeros::<u32>(1)?;
    check.run(&FaultBadPc { offset_bytes: 0, x: 41, out: out.device_ptr() })?;
    check.same("result", out.to_vec()?[0], 42)
}
