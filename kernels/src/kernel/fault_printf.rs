//! `fault_printf`: prints lines from the device.

use crate::catalogue::Kernel;
use crate::driver::{Args, DevicePtr, Grid};
use crate::kernel_set::{KernelSet, Launcher};
use crate::verify::{Check, VerifyError};

/// Prints lines; they go to the process's standard output when it synchronises.
#[derive(Debug, Clone, Copy)]
pub struct FaultPrintf {
    /// Lines per thread.
    pub lines: u32,
    /// One u32, set to one when the kernel reaches its end.
    pub done: DevicePtr,
    /// The launch shape.
    pub grid: Grid,
}

impl FaultPrintf {
    /// Smallest size of one line in the ring buffer: three numbers of four bytes.
    const LINE_BYTES: u32 = 12;

    /// The fault: twice as many lines as a ring buffer of `ring_bytes` holds.
    pub const fn armed(ring_bytes: u32, done: DevicePtr) -> Self {
        let lines = 2 * (ring_bytes / (Self::LINE_BYTES * 1024)) + 2;
        Self { lines, done, grid: Grid::new(4, 256) }
    }
}

impl Launcher for FaultPrintf {
    fn kernel(&self) -> Kernel {
        Kernel::FaultPrintf
    }

    fn grid(&self) -> Grid {
        self.grid
    }

    fn args(&self) -> Args {
        Args::new().u32(self.lines).ptr(self.done)
    }
}

/// With nothing to print it reaches its end.
pub fn verify(kernels: &KernelSet) -> Result<(), VerifyError> {
    let check = Check::new("fault_printf", kernels)?;
    let done = check.zeros::<u32>(1)?;
    check.run(&FaultPrintf { lines: 0, done: done.device_ptr(), grid: Grid::new(2, 32) })?;
    check.same("done", done.to_vec()?[0], 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn armed_it_prints_more_than_the_ring_holds() {
        for ring_bytes in [0, 1 << 20, 64 << 20] {
            let flood = FaultPrintf::armed(ring_bytes, DevicePtr::NULL);
            let bytes = flood.grid.total_threads() * u64::from(flood.lines * 12);
            assert!(bytes > u64::from(ring_bytes), "{ring_bytes}");
        }
    }
}
