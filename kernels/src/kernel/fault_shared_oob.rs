//! `fault_shared_oob`: stores a word at an offset of shared memory.

use crate::catalogue::Kernel;
use crate::driver::{Args, DevicePtr, Grid};
use crate::kernel_set::{KernelSet, Launcher};
use crate::verify::{Check, VerifyError};

/// Stores a word in shared memory and loads it again.
#[derive(Debug, Clone, Copy)]
pub struct FaultSharedOob {
    /// The offset; inside `WINDOW_BYTES` the store is harmless.
    pub offset_bytes: u32,
    /// The word.
    pub value: u32,
    /// One u32: the loaded word.
    pub out: DevicePtr,
}

impl FaultSharedOob {
    /// Bytes of shared memory of the launch.
    pub const WINDOW_BYTES: u32 = 64;

    /// The fault: error 719 or 700. 16 MiB is beyond the shared memory window of any device.
    pub const fn armed(out: DevicePtr) -> Self {
        Self { offset_bytes: 16 << 20, value: 0, out }
    }
}

impl Launcher for FaultSharedOob {
    fn kernel(&self) -> Kernel {
        Kernel::FaultSharedOob
    }

    fn grid(&self) -> Grid {
        Grid::new(1, 1).with_shared(Self::WINDOW_BYTES)
    }

    fn args(&self) -> Args {
        Args::new().u32(self.offset_bytes).u32(self.value).ptr(self.out)
    }
}

/// At the last word of its window it stores and loads.
pub fn verify(kernels: &KernelSet) -> Result<(), VerifyError> {
    let check = Check::new("fault_shared_oob", kernels)?;
    let out = check.zeros::<u32>(1)?;
    let offset_bytes = FaultSharedOob::WINDOW_BYTES - 4;
    check.run(&FaultSharedOob { offset_bytes, value: 5, out: out.device_ptr() })?;
    check.same("word", out.to_vec()?[0], 5)
}
