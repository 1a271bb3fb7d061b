//! Marked pages: writes a mark to every page, and counts the marks that a later owner finds.

use gpubench_kernels::Launcher;
use gpubench_kernels::driver::{DeviceBuffer, DriverError, Grid, codes};
use gpubench_kernels::kernel::page_mark::PageMark;
use gpubench_kernels::kernel::page_scan::PageScan;
use gpubench_record::ProbeTold;

use super::ProbeError;
use crate::load::Gpu;

/// Pages of one allocation at most.
const PIECE_PAGES: u64 = 256;
/// Pages of one launch at most: a check, which is small enough to be executed in full everywhere.
const LAUNCH_PAGES: u64 = 64;
/// Threads for each page.
const THREADS: u32 = 128;
/// Words with which a page carries the canary for sure. A word of anything else is the right one
/// once in 2^32 times, which in a whole device happens; eight times in one page it does not.
const CERTAIN_WORDS: u32 = 8;
/// Addresses that are reported: those of the first pages are enough.
const TOLD_MAX: u64 = 64;

/// A canary and the pages that it fits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Canary {
    page_words: u32,
    seed: u32,
}

impl Canary {
    pub(super) fn new(page_bytes: u32, seed: u32) -> Result<Self, ProbeError> {
        let page_words = page_bytes / 4;
        if page_words < 2 * CERTAIN_WORDS || !page_bytes.is_multiple_of(4) || seed < page_words {
            let what = format!(
                "pages of {page_bytes} bytes and seed {seed}: accepted are whole words, at least \
                 {} of them, and a seed of their number or more",
                2 * CERTAIN_WORDS
            );
            return Err(ProbeError::Asked { what });
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

/// Takes pages, marks them, finds them again and keeps them.
pub(super) fn mark(
    gpu: &Gpu,
    kept: &mut Vec<DeviceBuffer<u32>>,
    pages: u64,
    canary: Canary,
) -> Result<ProbeTold, ProbeError> {
    let pieces = take(gpu, pages, canary)?;
    let marked = pieces.iter().map(|piece| piece.pages).sum();
    let mut addresses = Vec::new();
    for piece in &pieces {
        let begin = piece.memory.device_ptr();
        for (from, count) in launches(piece.pages) {
            let mark = PageMark {
                dst: begin.offset_bytes(from * canary.page_bytes()),
                pages: count,
                page_words: canary.page_words,
                seed: canary.seed,
                grid: grid(count),
            };
            mark.launch(&gpu.kernels, &gpu.stream)?;
        }
        let room = TOLD_MAX.saturating_sub(addresses.len() as u64);
        let offsets = (0..piece.pages.min(room)).map(|page| page * canary.page_bytes());
        addresses.extend(offsets.map(|offset| begin.offset_bytes(offset).0));
    }
    gpu.stream.synchronize()?;
    let found = carried(gpu, &pieces, canary)?;
    kept.extend(pieces.into_iter().map(|piece| piece.memory));
    Ok(ProbeTold::Marked {
        pages: marked,
        found,
        addresses,
    })
}

/// Takes pages as they are, counts those with the canary and gives them back.
pub(super) fn scan(gpu: &Gpu, pages: u64, canary: Canary) -> Result<ProbeTold, ProbeError> {
    let mut pieces = take(gpu, pages, canary)?;
    let stale = loop {
        match carried(gpu, &pieces, canary) {
            // All the memory was taken, and the counters need some.
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
    Ok(ProbeTold::Scanned { pages, stale })
}

/// Takes that many pages, or as many as there are.
fn take(gpu: &Gpu, pages: u64, canary: Canary) -> Result<Vec<Piece>, DriverError> {
    let (mut pieces, mut left) = (Vec::new(), pages);
    while left > 0 {
        let pages = left.min(PIECE_PAGES);
        let words = usize::try_from(pages * u64::from(canary.page_words)).unwrap_or(usize::MAX);
        match DeviceBuffer::alloc(&gpu.context, words) {
            Ok(memory) => pieces.push(Piece { memory, pages }),
            Err(error) if error.code() == Some(codes::OUT_OF_MEMORY) => break,
            Err(error) => return Err(error),
        }
        left -= pages;
    }
    Ok(pieces)
}

/// How many pages carry the canary.
fn carried(gpu: &Gpu, pieces: &[Piece], canary: Canary) -> Result<u64, DriverError> {
    let most = pieces.iter().map(|piece| piece.pages).max().unwrap_or(0);
    if most == 0 {
        return Ok(0);
    }
    let found = DeviceBuffer::<u32>::alloc(&gpu.context, most as usize)?;
    let mut carried = 0;
    for piece in pieces {
        found.fill(0)?;
        for (from, count) in launches(piece.pages) {
            let scan = PageScan {
                src: piece
                    .memory
                    .device_ptr()
                    .offset_bytes(from * canary.page_bytes()),
                pages: count,
                page_words: canary.page_words,
                seed: canary.seed,
                found: found.device_ptr().offset_bytes(4 * from),
                grid: grid(count),
            };
            scan.launch(&gpu.kernels, &gpu.stream)?;
        }
        gpu.stream.synchronize()?;
        let mut words = vec![0; piece.pages as usize];
        found.read(0, &mut words)?;
        carried += words.iter().filter(|&&same| same >= CERTAIN_WORDS).count() as u64;
    }
    Ok(carried)
}

fn grid(pages: u64) -> Grid {
    Grid::new(u32::try_from(pages).unwrap_or(u32::MAX).max(1), THREADS)
}

/// The launches over a piece: where each begins, in pages, and how many it has.
fn launches(pages: u64) -> impl Iterator<Item = (u64, u64)> {
    (0..pages)
        .step_by(LAUNCH_PAGES as usize)
        .map(move |from| (from, LAUNCH_PAGES.min(pages - from)))
}

#[cfg(test)]
mod tests {
    use super::{Canary, LAUNCH_PAGES, launches};

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
    fn a_canary_that_could_be_a_clean_page_is_refused() {
        assert!(Canary::new(4096, 1024).is_ok());
        for (bytes, seed) in [(4096, 1023), (4098, 4096), (32, 4096), (0, 4096)] {
            assert!(Canary::new(bytes, seed).is_err(), "{bytes} {seed}");
        }
    }
}
