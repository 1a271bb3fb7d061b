//! `atomic_add`: atomic additions to words of global memory.

use crate::catalogue::Kernel;
use crate::cost::Cost;
use crate::driver::{Args, DevicePtr, Grid};
use crate::kernel_set::{KernelSet, Launcher};
use crate::verify::{Check, VerifyError};

/// Adds one atomically to words of global memory.
#[derive(Debug, Clone, Copy)]
pub struct AtomicAdd {
    /// The words: `slots` u32.
    pub words: DevicePtr,
    /// Number of words, a power of two: few words collide, many spread over L2.
    pub slots: u32,
    /// Additions per thread.
    pub iterations: u32,
    /// The launch shape.
    pub grid: Grid,
}

impl Launcher for AtomicAdd {
    fn kernel(&self) -> Kernel {
        Kernel::AtomicAdd
    }

    fn grid(&self) -> Grid {
        self.grid
    }

    fn args(&self) -> Args {
        Args::new().ptr(self.words).u32(self.slots.wrapping_sub(1)).u32(self.iterations)
    }

    fn cost(&self) -> Cost {
        let atomic_ops = self.grid.total_threads() * u64::from(self.iterations);
        Cost { atomic_ops, ..Cost::default() }
    }
}

/// No addition is lost, and each hits the right word, with one slot and with many.
pub fn verify(kernels: &KernelSet) -> Result<(), VerifyError> {
    let check = Check::new("atomic_add", kernels)?;
    let grid = Grid::new(3, 64);
    for (slots, iterations) in [(1_u32, 7), (256, 11), (256, 4), (256, 2), (1, 0)] {
        let words = check.zeros::<u32>(slots as usize + 1)?;
        check.run(&AtomicAdd { words: words.device_ptr(), slots, iterations, grid })?;
        let mut expected = vec![0_u32; slots as usize + 1];
        for thread in 0..grid.total_threads() as u32 {
            for i in 0..iterations {
                expected[((thread + i) % slots) as usize] += 1;
            }
        }
        check.same_slice("slots", &words.to_vec()?, &expected)?;
    }
    Ok(())
}
