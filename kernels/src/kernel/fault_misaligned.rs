//! `fault_misaligned`: loads a word from an address that may not be a multiple of four.

use crate::catalogue::Kernel;
use crate::driver::{Args, DevicePtr, Grid};
use crate::kernel_set::{KernelSet, Launcher};
use crate::verify::{Check, VerifyError};

/// Loads one word.
#[derive(Debug, Clone, Copy)]
pub struct FaultMisaligned {
    /// Memory of the process, at least eight bytes.
    pub base: DevicePtr,
    /// Offset in that memory.
    pub offset_bytes: u32,
    /// One u32: the loaded word.
    pub out: DevicePtr,
}

impl FaultMisaligned {
    /// The fault: error 716, raised by the SM.
    pub const fn armed(base: DevicePtr, out: DevicePtr) -> Self {
        Self { base, offset_bytes: 1, out }
    }
}

impl Launcher for FaultMisaligned {
    fn kernel(&self) -> Kernel {
        Kernel::FaultMisaligned
    }

    fn grid(&self) -> Grid {
        Grid::new(1, 1)
    }

    fn args(&self) -> Args {
        Args::new().ptr(self.base).u32(self.offset_bytes).ptr(self.out)
    }
}

/// At an aligned offset it loads the stored word.
pub fn verify(kernels: &KernelSet) -> Result<(), VerifyError> {
    let check = Check::new("fault_misaligned", kernels)?;
    let words = check.buffer(&[11_u32, 22])?;
    let out = check.zeros::<u32>(1)?;
    let (base, out_at) = (words.device_ptr(), out.device_ptr());
    check.run(&FaultMisaligned { base, offset_bytes: 4, out: out_at })?;
    check.same("word", out.to_vec()?[0], 22)
}
