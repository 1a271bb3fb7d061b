//! `fault_illegal_store`: stores one word at a given address.

use crate::catalogue::Kernel;
use crate::driver::{Args, DevicePtr, Grid};
use crate::kernel_set::{KernelSet, Launcher};
use crate::verify::{Check, VerifyError};

/// Stores one word.
#[derive(Debug, Clone, Copy)]
pub struct FaultIllegalStore {
    /// The address.
    pub target: DevicePtr,
    /// The word.
    pub value: u32,
}

impl FaultIllegalStore {
    /// An address in the first page, which no allocation gets.
    pub const UNMAPPED: DevicePtr = DevicePtr(16);

    /// The fault: error 700, raised by the MMU.
    pub const fn armed() -> Self {
        Self { target: Self::UNMAPPED, value: 0 }
    }
}

impl Launcher for FaultIllegalStore {
    fn kernel(&self) -> Kernel {
        Kernel::FaultIllegalStore
    }

    fn grid(&self) -> Grid {
        Grid::new(1, 1)
    }

    fn args(&self) -> Args {
        Args::new().ptr(self.target).u32(self.value)
    }
}

/// At an allocated address it stores without an error.
pub fn verify(kernels: &KernelSet) -> Result<(), VerifyError> {
    let check = Check::new("fault_illegal_store", kernels)?;
    let words = check.zeros::<u32>(3)?;
    let target = words.device_ptr().offset_bytes(4);
    check.run(&FaultIllegalStore { target, value: 7 })?;
    check.same_slice("words", &words.to_vec()?, &[0, 7, 0])
}
