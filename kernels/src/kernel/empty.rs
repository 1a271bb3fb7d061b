//! `empty`: a kernel that does nothing.

use crate::catalogue::Kernel;
use crate::driver::{Args, Grid};
use crate::kernel_set::{KernelSet, Launcher};
use crate::verify::{Check, VerifyError};

/// A launch that does nothing.
#[derive(Debug, Clone, Copy)]
pub struct Empty {
    /// The launch shape.
    pub grid: Grid,
}

impl Launcher for Empty {
    fn kernel(&self) -> Kernel {
        Kernel::Empty
    }

    fn grid(&self) -> Grid {
        self.grid
    }

    fn args(&self) -> Args {
        Args::new()
    }
}

/// It launches and completes without an error.
pub fn verify(kernels: &KernelSet) -> Result<(), VerifyError> {
    let check = Check::new("empty", kernels)?;
    for grid in [Grid::new(1, 1), Grid::new(7, 33)] {
        check.run(&Empty { grid })?;
    }
    check.same("stream done", check.stream.is_done()?, true)
}
