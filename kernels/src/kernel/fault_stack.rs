//! `fault_stack`: calls itself to a given depth.

use crate::catalogue::Kernel;
use crate::driver::{Args, DevicePtr, Grid};
use crate::kernel_set::{KernelSet, Launcher};
use crate::verify::{Check, VerifyError};

/// Calls itself recursively.
#[derive(Debug, Clone, Copy)]
pub struct FaultStack {
    /// Recursion depth; each call uses `FRAME_BYTES` of stack or more.
    pub depth: u32,
    /// One u32: the sum of the numbers up to `depth`.
    pub out: DevicePtr,
}

impl FaultStack {
    /// Smallest stack frame of one call: an array of 64 words.
    pub const FRAME_BYTES: u32 = 256;

    /// The fault (714, 700 or 719): twice the depth that a stack of `stack_bytes` allows.
    pub const fn armed(stack_bytes: u32, out: DevicePtr) -> Self {
        Self { depth: 2 * (stack_bytes / Self::FRAME_BYTES) + 2, out }
    }
}

impl Launcher for FaultStack {
    fn kernel(&self) -> Kernel {
        Kernel::FaultStack
    }

    fn grid(&self) -> Grid {
        Grid::new(1, 1)
    }

    fn args(&self) -> Args {
        Args::new().u32(self.depth).ptr(self.out)
    }
}

/// Within the stack of any context it returns the sum.
pub fn verify(kernels: &KernelSet) -> Result<(), VerifyError> {
    let check = Check::new("fault_stack", kernels)?;
    let out = check.zeros::<u32>(1)?;
    // The stack of a new context is 1 KiB (CUDA driver API, CU_LIMIT_STACK_SIZE).
    check.run(&FaultStack { depth: 2, out: out.device_ptr() })?;
    check.same("sum", out.to_vec()?[0], 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn armed_it_needs_more_than_the_stack() {
        for stack_bytes in [0, 1024, 1 << 19] {
            let depth = FaultStack::armed(stack_bytes, DevicePtr::NULL).depth;
            assert!(depth * FaultStack::FRAME_BYTES > stack_bytes);
        }
    }
}
