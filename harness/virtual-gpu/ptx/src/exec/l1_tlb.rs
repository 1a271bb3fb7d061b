//! L1 and TLB model of an SM: cached lines of device memory, and translations of pages.
//!
//! The L1 is direct-mapped. The TLB is fully associative and replaces the oldest entry. Both start
//! empty for every block, which has a private share of them. Atomics are counted by word, to find
//! the hottest one.

use rustc_hash::FxHashMap;

/// Bytes of an L1 line and of its sectors (Nsight Compute documentation, "Memory Tables": four
/// sectors of 32 bytes each).
const LINE_BITS: u32 = 7;

const SECTOR_BITS: u32 = 5;

/// A translation covers a large page, which `cuMemAlloc` maps.
pub(crate) const PAGE_BITS: u32 = 21;

/// Marks an empty entry: addresses end below it.
const EMPTY: u64 = u64::MAX;

/// Maximum number of words of atomics that are counted in a block.
const WORDS: usize = 4096;

/// The range of an empty set of words.
const NO_WORDS: (u64, u64) = (u64::MAX, 0);

/// One line of the L1.
#[derive(Debug, Clone, Copy)]
struct Line {
    number: u64,
    sectors: u8,
}

const NO_LINE: Line = Line { number: EMPTY, sectors: 0 };

/// L1, TLB and atomic words of the running block.
#[derive(Debug)]
pub(crate) struct L1Tlb {
    /// Number of lines of the L1, and their contents: not allocated until the first load.
    line_count: u64,
    lines: Vec<Line>,
    lines_used: bool,
    pages: Vec<u64>,
    next_page: usize,
    last_page: u64,
    words: FxHashMap<u64, u64>,
    words_within: (u64, u64),
    /// Whether the last load hit in L1 with all its sectors.
    pub hit: bool,
}

impl L1Tlb {
    pub(crate) fn new(l1_bytes: u64, tlb_pages: u32) -> Self {
        Self {
            line_count: l1_bytes >> LINE_BITS,
            // Allocated on the first load: most launches of a burst load nothing, and an L1 is
            // large to clear.
            lines: Vec::new(),
            lines_used: false,
            pages: vec![EMPTY; tlb_pages as usize],
            next_page: 0,
            last_page: EMPTY,
            words: FxHashMap::default(),
            words_within: NO_WORDS,
            hit: false,
        }
    }

    /// Empties L1, TLB and words.
    pub(crate) fn reset(&mut self) {
        if std::mem::take(&mut self.lines_used) {
            self.lines.fill(NO_LINE);
        }
        self.pages.fill(EMPTY);
        (self.next_page, self.last_page) = (0, EMPTY);
        self.words.clear();
        self.words_within = NO_WORDS;
    }

    /// Counts an atomic on a word of device memory; returns the number of the block so far.
    pub(crate) fn atomic_on(&mut self, address: u64) -> u64 {
        // A contended word is among the first ones: further words are not counted.
        let (first, last) = self.words_within;
        if self.words.len() >= WORDS {
            if address < first || address > last {
                return 1;
            }
            let Some(count) = self.words.get_mut(&address) else { return 1 };
            *count += 1;
            return *count;
        }
        self.words_within = (first.min(address), last.max(address));
        let count = self.words.entry(address).or_default();
        *count += 1;
        *count
    }

    /// Bytes of the sectors of a warp's load that hit in L1; the others are filled. Sets `hit`.
    pub(crate) fn load(&mut self, addresses: impl Iterator<Item = u64>) -> u64 {
        self.hit = false;
        if self.line_count == 0 {
            return 0;
        }
        if self.lines.is_empty() {
            self.lines = vec![NO_LINE; self.line_count as usize];
        }
        self.lines_used = true;
        let (mut last, mut hits, mut all) = (EMPTY, 0, true);
        for address in addresses {
            let sector = address >> SECTOR_BITS;
            if sector == last {
                continue;
            }
            last = sector;
            let number = address >> LINE_BITS;
            let at = (number % self.lines.len() as u64) as usize;
            let line = &mut self.lines[at];
            if line.number != number {
                (line.number, line.sectors) = (number, 0);
            }
            let bit = 1 << (sector & 3);
            if line.sectors & bit == 0 {
                line.sectors |= bit;
                all = false;
            } else {
                hits += 1 << SECTOR_BITS;
            }
        }
        self.hit = all && hits > 0;
        hits
    }

    /// Number of pages of a warp's access that miss in the TLB; they are filled.
    pub(crate) fn translate(&mut self, addresses: impl Iterator<Item = u64>) -> u64 {
        if self.pages.is_empty() {
            return 0;
        }
        let mut missed = 0;
        for address in addresses {
            let page = address >> PAGE_BITS;
            if page == self.last_page {
                continue;
            }
            self.last_page = page;
            if !self.pages.contains(&page) {
                missed += 1;
                self.pages[self.next_page] = page;
                self.next_page = (self.next_page + 1) % self.pages.len();
            }
        }
        missed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn l1_hits_only_what_fits() {
        let mut model = L1Tlb::new(1024, 0);
        let sweep = |bytes: u64| (0..bytes).step_by(4);
        assert_eq!((model.load(sweep(1024)), model.hit), (0, false));
        assert_eq!((model.load(sweep(1024)), model.hit), (1024, true));
        // Twice the size: every line evicts the one that is loaded next.
        model.reset();
        assert_eq!(model.load(sweep(2048)), 0);
        assert_eq!((model.load(sweep(2048)), model.hit), (0, false));
        // A line with only another sector filled misses.
        model.reset();
        assert_eq!(model.load([0].into_iter()), 0);
        assert_eq!(model.load([32].into_iter()), 0);
        assert_eq!((model.load([32, 64].into_iter()), model.hit), (32, false));
        model.reset();
        assert_eq!((model.load([32].into_iter()), model.hit), (0, false));
    }

    #[test]
    fn atomics_are_counted_by_word_and_block() {
        let mut model = L1Tlb::new(0, 0);
        let counts: Vec<u64> = [8, 8, 16, 8].map(|at| model.atomic_on(at)).to_vec();
        assert_eq!(counts, [1, 2, 1, 3]);
        model.reset();
        assert_eq!(model.atomic_on(8), 1, "another block");
        for at in 1..=WORDS as u64 {
            model.atomic_on(1 << 20 | at);
        }
        assert_eq!((model.atomic_on(8), model.atomic_on(2 << 20)), (2, 1));
        assert_eq!(model.atomic_on(2 << 20), 1, "too many to count");
    }

    #[test]
    fn a_page_misses_after_as_many_others_as_entries() {
        let mut model = L1Tlb::new(0, 4);
        let page = |number: u64| number << PAGE_BITS;
        assert_eq!(model.translate([page(1), page(1) + 8].into_iter()), 1);
        assert_eq!(model.translate((1..=4).map(page)), 3);
        assert_eq!(model.translate((1..=4).map(page)), 0);
        assert_eq!(model.translate([page(5)].into_iter()), 1);
        assert_eq!(model.translate([page(1), page(5)].into_iter()), 1);
        // Five pages cycle through four entries: every access misses.
        assert_eq!(model.translate((10..15).cycle().take(50).map(page)), 50);
        assert_eq!(L1Tlb::new(0, 0).translate([page(1)].into_iter()), 0);
    }
}
