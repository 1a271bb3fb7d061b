//! `pattern_fill`: sets every word to a value derived from its index and a seed.

use crate::catalogue::Kernel;
use crate::cost::Cost;
use crate::driver::{Args, DevicePtr, Grid};
use crate::kernel_set::{KernelSet, Launcher};
use crate::pattern::pattern_word;
use crate::verify::{Check, VerifyError};

/// Fills words with a pattern.
#[derive(Debug, Clone, Copy)]
pub struct PatternFill {
    /// The target, aligned to 4 bytes.
    pub dst: DevicePtr,
    /// Number of 32-bit words.
    pub words: u64,
    /// Seed of the pattern.
    pub seed: u32,
    /// The launch shape.
    pub grid: Grid,
}

impl Launcher for PatternFill {
    fn kernel(&self) -> Kernel {
        Kernel::PatternFill
    }

    fn grid(&self) -> Grid {
        self.grid
    }

    fn args(&self) -> Args {
        Args::new().ptr(self.dst).u64(self.words).u32(self.seed)
    }

    fn cost(&self) -> Cost {
        Cost { dram_write_bytes: 4 * self.words, ..Cost::default() }
    }
}

/// Every word equals the host's, and the word behind the buffer is unchanged.
pub fn verify(kernels: &KernelSet) -> Result<(), VerifyError> {
    let check = Check::new("pattern_fill", kernels)?;
    let guard = 0xdead_beef;
    // More words than threads, and fewer.
    for words in [3_001_u64, 20] {
        let buffer = check.buffer(&vec![guard; words as usize + 1])?;
        let dst = buffer.device_ptr();
        check.run(&PatternFill { dst, words, seed: 77, grid: Grid::new(3, 64) })?;
        let mut expected: Vec<u32> = (0..words).map(|index| pattern_word(index, 77)).collect();
        expected.push(guard);
        check.same_slice("words", &buffer.to_vec()?, &expected)?;
    }
    Ok(())
}
