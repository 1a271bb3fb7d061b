//! `page_scan`: counts the words that carry the canary of `page_mark`.

use crate::catalogue::Kernel;
use crate::cost::Cost;
use crate::driver::{Args, DevicePtr, Grid};
use crate::kernel_set::{KernelSet, Launcher};
use crate::pattern::pattern_word;
use crate::verify::{Check, VerifyError};

/// Looks for marked pages.
#[derive(Debug, Clone, Copy)]
pub struct PageScan {
    /// The buffer: `pages` times `page_words` u32.
    pub src: DevicePtr,
    /// How many pages.
    pub pages: u64,
    /// 32-bit words of a page.
    pub page_words: u32,
    /// Which canary.
    pub seed: u32,
    /// One u32 a page; the words found are added to it.
    pub found: DevicePtr,
    /// Its shape.
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
        let args = Args::new()
            .ptr(self.src)
            .u64(self.pages)
            .u32(self.page_words);
        args.u32(self.seed).ptr(self.found)
    }

    fn cost(&self) -> Cost {
        let words = self.pages * u64::from(self.page_words);
        Cost {
            dram_read_bytes: 4 * words,
            ..Cost::default()
        }
    }
}

/// A whole page, a damaged one, an empty one and one with another canary are told apart.
pub fn verify(kernels: &KernelSet) -> Result<(), VerifyError> {
    let check = Check::new("page_scan", kernels)?;
    let (page_words, seed) = (100_u32, 9_u32);
    let page = |seed| (0..u64::from(page_words)).map(move |index| pattern_word(index, seed));
    let mut words: Vec<u32> = page(seed).chain(page(seed)).collect();
    words[130] ^= 1;
    words.extend(vec![0; page_words as usize]);
    words.extend(page(seed + 1));
    let src = check.buffer(&words)?;
    let found = check.zeros::<u32>(4)?;
    check.run(&PageScan {
        src: src.device_ptr(),
        pages: 4,
        page_words,
        seed,
        found: found.device_ptr(),
        grid: Grid::new(3, 64),
    })?;
    check.same_slice(
        "words found",
        &found.to_vec()?,
        &[page_words, page_words - 1, 0, 0],
    )
}
