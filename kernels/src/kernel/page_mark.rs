//! `page_mark`: writes a marker into every page of a buffer.

use crate::catalogue::Kernel;
use crate::cost::Cost;
use crate::driver::{Args, DevicePtr, Grid};
use crate::kernel_set::{KernelSet, Launcher};
use crate::pattern::pattern_word;
use crate::verify::{Check, VerifyError};

/// Marks pages.
#[derive(Debug, Clone, Copy)]
pub struct PageMark {
    /// The buffer: `pages` times `page_words` u32.
    pub dst: DevicePtr,
    /// Number of pages.
    pub pages: u64,
    /// 32-bit words per page.
    pub page_words: u32,
    /// Seed of the marker, at least `page_words`: a smaller seed gives a word of zero, as in a
    /// clean page.
    pub seed: u32,
    /// The launch shape.
    pub grid: Grid,
}

impl Launcher for PageMark {
    fn kernel(&self) -> Kernel {
        Kernel::PageMark
    }

    fn grid(&self) -> Grid {
        self.grid
    }

    fn args(&self) -> Args {
        Args::new().ptr(self.dst).u64(self.pages).u32(self.page_words).u32(self.seed)
    }

    fn cost(&self) -> Cost {
        let words = self.pages * u64::from(self.page_words);
        Cost { dram_write_bytes: 4 * words, ..Cost::default() }
    }
}

/// Every page has the same marker, and the word behind the last page is unchanged.
pub fn verify(kernels: &KernelSet) -> Result<(), VerifyError> {
    let check = Check::new("page_mark", kernels)?;
    let (pages, seed) = (5_u64, 0xc0ff_ee00_u32);
    // More pages than blocks and more words than threads, and fewer of both.
    for (page_words, grid) in [(100_u32, Grid::new(2, 64)), (40, Grid::new(7, 64))] {
        let words = check.zeros::<u32>(pages as usize * page_words as usize + 1)?;
        check.run(&PageMark { dst: words.device_ptr(), pages, page_words, seed, grid })?;
        let page = (0..u64::from(page_words)).map(|index| pattern_word(index, seed));
        let mut expected: Vec<u32> = (0..pages).flat_map(|_| page.clone()).collect();
        expected.push(0);
        check.same_slice("words", &words.to_vec()?, &expected)?;
    }
    Ok(())
}
