//! `page_scan`: counts the words that hold the marker of `page_mark`.

use crate::catalogue::Kernel;
use crate::cost::Cost;
use crate::driver::{Args, DevicePtr, Grid};
use crate::kernel_set::{KernelSet, Launcher};
use crate::pattern::pattern_word;
use crate::verify::{Check, VerifyError};

/// Finds marked pages.
#[derive(Debug, Clone, Copy)]
pub struct PageScan {
    /// The buffer: `pages` times `page_words` u32.
    pub src: DevicePtr,
    /// Number of pages.
    pub pages: u64,
    /// 32-bit words per page.
    pub page_words: u32,
    /// Seed of the marker, at least `page_words`: a smaller seed gives a word of zero, as in a
    /// clean page.
    pub seed: u32,
    /// One u32 per page; the number of found words is added to it.
    pub found: DevicePtr,
    /// The launch shape.
    pub grid: Grid,
}

impl Launcher for PageScan {
    fn kernel(&self) -> Kernel {
        Kernel::PageScan
    }

    fn grid(&self) -> Grid {
        self.grid
    }

    fn args(&self) -> Args {
        let args = Args::new().ptr(self.src).u64(self.pages).u32(self.page_words);
        args.u32(self.seed).ptr(self.found)
    }

    fn cost(&self) -> Cost {
        let words = self.pages * u64::from(self.page_words);
        Cost { dram_read_bytes: 4 * words, ..Cost::default() }
    }
}

/// Distinguishes a whole page, a damaged one, an empty one and one with another marker.
pub fn verify(kernels: &KernelSet) -> Result<(), VerifyError> {
    let check = Check::new("page_scan", kernels)?;
    let seed = 0xc0ff_ee00_u32;
    // More pages than blocks and more words than threads, and fewer of both.
    for (page_words, grid) in [(100_u32, Grid::new(3, 64)), (40, Grid::new(7, 64))] {
        let page = |seed| (0..u64::from(page_words)).map(move |index| pattern_word(index, seed));
        let mut words: Vec<u32> = page(seed).chain(page(seed)).collect();
        words[page_words as usize + 30] ^= 1;
        words.extend(vec![0; page_words as usize]);
        words.extend(page(seed + 1));
        // One more whole page, behind the scanned range.
        words.extend(page(seed).chain(page(seed)));
        let src = check.buffer(&words)?;
        let found = check.zeros::<u32>(6)?;
        let (src, found_at) = (src.device_ptr(), found.device_ptr());
        check.run(&PageScan { src, pages: 5, page_words, seed, found: found_at, grid })?;
        let expected = [page_words, page_words - 1, 0, 0, page_words, 0];
        check.same_slice("words found", &found.to_vec()?, &expected)?;
    }
    Ok(())
}
