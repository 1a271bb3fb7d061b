//! Marked pages: writes a mark to every page, and counts the marks that a later owner finds.

use gpubench_kernels::Launcher;
use gpubench_kernels::driver::{DeviceBuffer, DriverError, Grid, codes};
use gpubench_kernels::kernel::page_mark::PageMark;
use gpubench_kernels::kernel::page_scan::PageScan;
use gpubench_record::probe::step::{MarkPages, MarkedPages, ScanPages, ScannedPages};

use super::{KeptMemory, ProbeError, RunStep, StepContext};
use crate::load::Gpu;

/// Maximum pages of one allocation.
const PIECE_PAGES: u64 = 256;
/// Maximum pages of one launch: the virtual GPU executes a launch of this size in full.
const LAUNCH_PAGES: u64 = 64;
/// Threads for each page.
const THREADS: u32 = 128;
/// Matching words that show a mark. One random word matches once in 2^32, which happens on a whole
/// device; eight in one page do not.
const MATCHING_WORDS: u32 = 8;
/// Maximum number of addresses that are reported, those of the first pages.
const ADDRESSES_MAX: u64 = 64;

/// The pattern on marked pages.
#[derive(Debug, Clone, Copy)]
struct Mark {
    page_words: u32,
    seed: u32,
}

impl Mark {
    fn new(page_bytes: u32, seed: u32) -> Result<Self, ProbeError> {
        let page_words = page_bytes / 4;
        if page_words < 2 * MATCHING_WORDS || !page_bytes.is_multiple_of(4) || seed < page_words {
            return Err(ProbeError::parameter(format!(
                "pages of {page_bytes} bytes and seed {seed} (accepted: whole words, at least {} \
                 of them, and a seed of their number or more)",
                2 * MATCHING_WORDS
            )));
        }
        Ok(Self { page_words, seed })
    }

    const fn page_bytes(self) -> u64 {
        self.page_words as u64 * 4
    }
}

/// A piece of memory in pages.
struct Piece {
    memory: DeviceBuffer<u32>,
    pages: u64,
}

impl RunStep for MarkPages {
    fn run(&self, cx: &mut StepContext<'_>) -> Result<MarkedPages, ProbeError> {
        let mark = Mark::new(self.page_bytes, self.seed)?;
        write_marks(cx.gpu, cx.kept, self.pages, mark)
    }
}

impl RunStep for ScanPages {
    fn run(&self, cx: &mut StepContext<'_>) -> Result<ScannedPages, ProbeError> {
        let (gpu, mark) = (cx.gpu, Mark::new(self.page_bytes, self.seed)?);
        let mut pieces = allocate(gpu, self.pages, mark)?;
        let stale = loop {
            match marked_pages(gpu, &pieces, mark) {
                // All memory is allocated, and the counters need some.
                Err(error) if error.code() == Some(codes::OUT_OF_MEMORY) && pieces.len() > 1 => {
                    pieces.pop();
                }
                counted => break counted?,
            }
        };
        let pages = pieces.iter().map(|piece| piece.pages).sum();
        for piece in pieces {
            piece.memory.free()?;
        }
        Ok(ScannedPages { pages, stale })
    }
}

/// Allocates pages, marks them, counts the marks and keeps the pages.
fn write_marks(
    gpu: &Gpu,
    kept: &mut KeptMemory,
    pages: u64,
    mark: Mark,
) -> Result<MarkedPages, ProbeError> {
    let pieces = allocate(gpu, pages, mark)?;
    let mut addresses = Vec::new();
    for piece in &pieces {
        let begin = piece.memory.device_ptr();
        for (from, count) in launches(piece.pages) {
            let launch = PageMark {
                dst: begin.offset_bytes(from * mark.page_bytes()),
                pages: count,
                page_words: mark.page_words,
                seed: mark.seed,
                grid: grid(count),
            };
            launch.launch(&gpu.kernels, &gpu.stream)?;
        }
        let room = ADDRESSES_MAX.saturating_sub(addresses.len() as u64);
        let offsets = (0..piece.pages.min(room)).map(|page| page * mark.page_bytes());
        addresses.extend(offsets.map(|offset| begin.offset_bytes(offset).0));
    }
    gpu.stream.synchronize()?;
    let found = marked_pages(gpu, &pieces, mark)?;
    let pages = pieces.iter().map(|piece| piece.pages).sum();
    kept.extend(pieces.into_iter().map(|piece| piece.memory));
    Ok(MarkedPages { pages, found, addresses })
}

/// Allocates that many pages, or fewer if the driver refuses.
fn allocate(gpu: &Gpu, pages: u64, mark: Mark) -> Result<Vec<Piece>, DriverError> {
    let (mut pieces, mut left) = (Vec::new(), pages);
    while left > 0 {
        let pages = left.min(PIECE_PAGES);
        let words = usize::try_from(pages * u64::from(mark.page_words)).unwrap_or(usize::MAX);
        match DeviceBuffer::alloc(&gpu.context, words) {
            Ok(memory) => pieces.push(Piece { memory, pages }),
            Err(error) if error.code() == Some(codes::OUT_OF_MEMORY) => break,
            Err(error) => return Err(error),
        }
        left -= pages;
    }
    Ok(pieces)
}

/// Number of pages that carry the mark.
fn marked_pages(gpu: &Gpu, pieces: &[Piece], mark: Mark) -> Result<u64, DriverError> {
    let pages_max = pieces.iter().map(|piece| piece.pages).max().unwrap_or(0);
    if pages_max == 0 {
        return Ok(0);
    }
    let found = DeviceBuffer::<u32>::alloc(&gpu.context, pages_max as usize)?;
    let mut marked = 0;
    for piece in pieces {
        found.fill(0)?;
        for (from, count) in launches(piece.pages) {
            let scan = PageScan {
                src: piece.memory.device_ptr().offset_bytes(from * mark.page_bytes()),
                pages: count,
                page_words: mark.page_words,
                seed: mark.seed,
                found: found.device_ptr().offset_bytes(4 * from),
                grid: grid(count),
            };
            scan.launch(&gpu.kernels, &gpu.stream)?;
        }
        gpu.stream.synchronize()?;
        let mut words = vec![0; piece.pages as usize];
        found.read(0, &mut words)?;
        marked += words.iter().filter(|&&matching| matching >= MATCHING_WORDS).count() as u64;
    }
    Ok(marked)
}

fn grid(pages: u64) -> Grid {
    Grid::new(u32::try_from(pages).unwrap_or(u32::MAX).max(1), THREADS)
}

/// The launches over a piece: first page and number of pages.
fn launches(pages: u64) -> impl Iterator<Item = (u64, u64)> {
    (0..pages)
        .step_by(LAUNCH_PAGES as usize)
        .map(move |from| (from, LAUNCH_PAGES.min(pages - from)))
}

#[cfg(test)]
mod tests {
    use super::{LAUNCH_PAGES, Mark, launches};

    #[test]
    fn every_page_is_in_one_launch() {
        for pages in [1, LAUNCH_PAGES, LAUNCH_PAGES + 1, 5 * LAUNCH_PAGES - 1] {
            let mut next = 0;
            for (from, count) in launches(pages) {
                assert_eq!(from, next);
                next += count;
            }
            assert_eq!(next, pages);
        }
        assert_eq!(launches(0).count(), 0);
    }

    #[test]
    fn refuses_a_mark_that_a_clean_page_could_have() {
        assert!(Mark::new(4096, 1024).is_ok());
        for (bytes, seed) in [(4096, 1023), (4098, 4096), (32, 4096), (0, 4096)] {
            assert!(Mark::new(bytes, seed).is_err(), "{bytes} {seed}");
        }
    }
}
