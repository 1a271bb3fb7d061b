//! Patterns and marks in device memory, strides through the TLB, and atomic additions.

use crate::driver::{DevicePtr, Grid};
use crate::kernel::Cost;
use crate::kernel_set::KernelSet;
use crate::verify::{Check, VerifyError, pattern_word};

// `pattern_fill`: sets every word to a value derived from its index and a seed.

#[derive(Debug, Clone, Copy)]
pub struct PatternFill {
    /// The target, aligned to 4 bytes.
    pub dst: DevicePtr,
    /// Number of 32-bit words.
    pub words: u64,
    pub seed: u32,
    pub grid: Grid,
}

launcher! {
    PatternFill(self), self.grid, [ptr self.dst, u64 self.words, u32 self.seed]
        => Cost { dram_write_bytes: 4 * self.words, ..Cost::default() }
}

/// Every word equals the host's, and the word behind the buffer is unchanged.
pub fn verify_pattern_fill(kernels: &KernelSet) -> Result<(), VerifyError> {
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

// `pattern_check`: counts the words that differ from a pattern.

/// Counts words that differ from a pattern.
#[derive(Debug, Clone, Copy)]
pub struct PatternCheck {
    /// The words, aligned to 4 bytes.
    pub src: DevicePtr,
    pub words: u64,
    pub seed: u32,
    /// One u32; the count is added to it.
    pub mismatches: DevicePtr,
    pub grid: Grid,
}

launcher! {
    PatternCheck(self), self.grid,
    [ptr self.src, u64 self.words, u32 self.seed, ptr self.mismatches]
        => Cost { dram_read_bytes: 4 * self.words, ..Cost::default() }
}

/// Zero on the pattern, the exact number after some words change, and nearly all words under
/// another seed.
pub fn verify_pattern_check(kernels: &KernelSet) -> Result<(), VerifyError> {
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

// `page_mark`: writes a marker into every page of a buffer.

#[derive(Debug, Clone, Copy)]
pub struct PageMark {
    /// The buffer: `pages` times `page_words` u32.
    pub dst: DevicePtr,
    pub pages: u64,
    /// 32-bit words per page.
    pub page_words: u32,
    /// Seed of the marker, at least `page_words`: a smaller seed gives a word of zero, as in a
    /// clean page.
    pub seed: u32,
    pub grid: Grid,
}

launcher! {
    PageMark(self), self.grid,
    [ptr self.dst, u64 self.pages, u32 self.page_words, u32 self.seed] => {
        let words = self.pages * u64::from(self.page_words);
        Cost { dram_write_bytes: 4 * words, ..Cost::default() }
    }
}

/// Every page has the same marker, and the word behind the last page is unchanged.
pub fn verify_page_mark(kernels: &KernelSet) -> Result<(), VerifyError> {
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

// `page_scan`: counts the words that hold the marker of `page_mark`.

#[derive(Debug, Clone, Copy)]
pub struct PageScan {
    /// The buffer: `pages` times `page_words` u32.
    pub src: DevicePtr,
    pub pages: u64,
    /// 32-bit words per page.
    pub page_words: u32,
    /// Seed of the marker, at least `page_words`: a smaller seed gives a word of zero, as in a
    /// clean page.
    pub seed: u32,
    /// One u32 per page; the number of found words is added to it.
    pub found: DevicePtr,
    pub grid: Grid,
}

launcher! {
    PageScan(self), self.grid,
    [ptr self.src, u64 self.pages, u32 self.page_words, u32 self.seed, ptr self.found] => {
        let words = self.pages * u64::from(self.page_words);
        Cost { dram_read_bytes: 4 * words, ..Cost::default() }
    }
}

/// Distinguishes a whole page, a damaged one, an empty one and one with another marker.
pub fn verify_page_scan(kernels: &KernelSet) -> Result<(), VerifyError> {
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

// `tlb_stride`: one load from each of many pages.

/// Bytes between the lines of neighbouring pages.
const LINE_BYTES: u64 = 128;

/// Loads one word from each of many pages.
#[derive(Debug, Clone, Copy)]
pub struct TlbStride {
    /// The buffer: `pages` times `page_bytes`.
    pub base: DevicePtr,
    /// Number of pages, at least one.
    pub pages: u64,
    /// Bytes of a page, a power of two of at least 128.
    pub page_bytes: u64,
    /// Loads per thread.
    pub steps: u32,
    /// One u32 per thread.
    pub sums: DevicePtr,
    pub grid: Grid,
}

impl TlbStride {
    /// Bytes of a large page of the GPU, the largest that `cuMemAlloc` is known to map.
    pub const PAGE_BYTES: u64 = crate::sizes::PAGE_BYTES;
}

launcher! {
    TlbStride(self), self.grid,
    [ptr self.base, u64 self.pages, u64 self.page_bytes, u32 self.steps, ptr self.sums] => {
        let touches = self.grid.total_threads() * u64::from(self.steps);
        // A load of one word moves one sector of 32 bytes (Nsight Compute guide, "L2 cache").
        Cost { page_touches: touches, l2_bytes: 32 * touches, ..Cost::default() }
    }
}

/// Every thread has the host's sum.
pub fn verify_tlb_stride(kernels: &KernelSet) -> Result<(), VerifyError> {
    let check = Check::new("tlb_stride", kernels)?;
    let (pages, page_bytes, grid) = (37_u64, 1_024_u64, Grid::new(2, 32));
    let words: Vec<u32> = (0..pages * page_bytes / 4).map(|i| pattern_word(i, 3)).collect();
    let base = check.buffer(&words)?;
    let threads = grid.total_threads();
    let word = |page: u64| {
        let line = page % (page_bytes / LINE_BYTES);
        words[((page * page_bytes + line * LINE_BYTES) / 4) as usize]
    };
    for steps in [0_u32, 3, 12] {
        let sums = check.zeros::<u32>(threads as usize)?;
        check.run(&TlbStride {
            base: base.device_ptr(),
            pages,
            page_bytes,
            steps,
            sums: sums.device_ptr(),
            grid,
        })?;
        let sum = |thread: u64| {
            let visited = (0..u64::from(steps)).map(|step| (thread + step * threads) % pages);
            visited.fold(0_u32, |sum, page| sum.wrapping_add(word(page)))
        };
        check.same_slice("sums", &sums.to_vec()?, &(0..threads).map(sum).collect::<Vec<_>>())?;
    }
    Ok(())
}

// `atomic_add`: atomic additions to words of global memory.

/// Adds one atomically to words of global memory.
#[derive(Debug, Clone, Copy)]
pub struct AtomicAdd {
    /// The words: `slots` u32.
    pub words: DevicePtr,
    /// Number of words, a power of two: few words collide, many spread over L2.
    pub slots: u32,
    /// Additions per thread.
    pub iterations: u32,
    pub grid: Grid,
}

launcher! {
    AtomicAdd(self), self.grid,
    [ptr self.words, u32 self.slots.wrapping_sub(1), u32 self.iterations] => {
        let atomic_ops = self.grid.total_threads() * u64::from(self.iterations);
        Cost { atomic_ops, ..Cost::default() }
    }
}

/// No addition is lost, and each hits the right word, with one slot and with many.
pub fn verify_atomic_add(kernels: &KernelSet) -> Result<(), VerifyError> {
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
