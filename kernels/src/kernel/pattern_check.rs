//! `pattern_check`: counts the words that differ from a pattern.

use crate::catalogue::Kernel;
use crate::cost::Cost;
use crate::driver::{Args, DevicePtr, Grid};
use crate::kernel_set::{KernelSet, Launcher};
use crate::pattern::pattern_word;
use crate::verify::{Check, VerifyError};

/// Counts words that differ from a pattern.
#[derive(Debug, Clone, Copy)]
pub struct PatternCheck {
    /// The words, aligned to 4 bytes.
    pub src: DevicePtr,
    /// Number of words.
    pub words: u64,
    /// Seed of the pattern.
    pub seed: u32,
    /// One u32; the count is added to it.
    pub mismatches: DevicePtr,
    /// The launch shape.
    pub grid: Grid,
}

impl Launcher for PatternCheck {
    fn kernel(&self) -> Kernel {
        Kernel::PatternCheck
    }

    fn grid(&self) -> Grid {
        self.grid
    }

    fn args(&self) -> Args {
        Args::new().ptr(self.src).u64(self.words).u32(self.seed).ptr(self.mismatches)
    }

    fn cost(&self) -> Cost {
        Cost { dram_read_bytes: 4 * self.words, ..Cost::default() }
    }
}

/// Zero on the pattern, the exact number after some words change, and nearly all words under
/// another seed.
pub fn verify(kernels: &KernelSet) -> Result<(), VerifyError> {
    let check = Check::new("pattern_check", kernels)?;
    let words = 3_001_u64;
    let mut values: Vec<u32> = (0..words).map(|index| pattern_word(index, 5)).collect();
    let count = |values: &[u32], seed| -> Result<u32, VerifyError> {
        let words = values.len() as u64;
        let buffer = check.buffer(values)?;
        let wrong = check.zeros::<u32>(1)?;
        let grid = Grid::new(3, 64);
        let (src, mismatches) = (buffer.device_ptr(), wrong.device_ptr());
        check.run(&PatternCheck { src, words, seed, mismatches, grid })?;
        Ok(wrong.to_vec()?[0])
    };
    check.same("mismatches of the pattern", count(&values, 5)?, 0)?;
    let expected = (0..words).filter(|i| pattern_word(*i, 6) != values[*i as usize]).count();
    check.same("mismatches of another seed", count(&values, 6)? as usize, expected)?;
    check.same("mismatches of fewer words than threads", count(&values[..20], 6)?, 20)?;
    for at in [0, 1_500, 3_000] {
        values[at] ^= 1 << 31;
    }
    check.same("mismatches after three changes", count(&values, 5)?, 3)
}
