//! Steps of probes of memory: allocating to a limit, marks in pages, what is visible of others.

use gpubench_kernels::driver::{
    AllocKind, DeviceBuffer, DevicePtr, DriverError, Grid, IpcHandle, IpcMapping, OtherMemory,
    error,
};
use gpubench_kernels::kernel::memory::{PageMark, PageScan};
use gpubench_kernels::{Launcher, pattern_word};
use gpubench_record::Exhausted;
use gpubench_record::probe::step::{
    AddressReads, AllocateAndKeep, AllocateByCall, Allocated, ExhaustMemory, ExportMemory,
    ExportedMemory, ImportMemory, ImportedMemory, MarkPages, MarkedPages, MemoryInfo,
    ReadAddresses, ReadMemoryInfo, ReleaseMemory, ScanPages, ScannedPages,
};

use super::timing::Stamps;
use super::{KeptMemory, ProbeError, RunStep, StepContext};
use crate::load::Gpu;

// Allocating memory until the driver or the mechanism refuses: by any call, or to keep it.

/// Initial number of pieces for a whole device.
const PIECES: u32 = 32;
/// Largest piece: arrays have a maximum width and height.
const PIECE_MAX_BYTES: u64 = 2 << 30;
/// Smallest piece, and the granularity of all: the GPU's large page.
const PIECE_MIN_BYTES: u64 = 2 << 20;

/// The allocated pieces, and the refusal that ended the allocation.
pub(super) struct Allocation<T> {
    pub(super) pieces: Vec<T>,
    pub(super) bytes: u64,
    refused_with: Option<i32>,
}

impl<T> Allocation<T> {
    const fn reply(&self) -> Allocated {
        Allocated { bytes: self.bytes, refused_with: self.refused_with }
    }
}

impl RunStep for AllocateByCall {
    fn run(&self, cx: &mut StepContext<'_>) -> Result<Allocated, ProbeError> {
        cx.gpu.props.has_own_memory()?;
        let call = &self.call;
        let kind =
            AllocKind::ALL.into_iter().find(|kind| kind.function() == call).ok_or_else(|| {
                let known = AllocKind::ALL.map(AllocKind::function).join(", ");
                ProbeError::parameter(format!(
                    "{call:?} is no call that allocates memory (accepted: {known})"
                ))
            })?;
        let allocation = until_refused(self.max_bytes, PIECES, |bytes| {
            OtherMemory::alloc(&cx.gpu.context, kind, bytes)
        })?;
        Ok(allocation.reply())
    }
}

impl RunStep for AllocateAndKeep {
    fn run(&self, cx: &mut StepContext<'_>) -> Result<Allocated, ProbeError> {
        cx.gpu.props.has_own_memory()?;
        let allocation = until_refused(self.max_bytes, self.pieces, |bytes| {
            DeviceBuffer::alloc(&cx.gpu.context, bytes.div_ceil(4))
        })?;
        let reply = allocation.reply();
        cx.kept.extend(allocation.pieces);
        Ok(reply)
    }
}

impl RunStep for ReleaseMemory {
    fn run(&self, cx: &mut StepContext<'_>) -> Result<(), ProbeError> {
        Ok(cx.kept.drain(..).try_for_each(DeviceBuffer::free)?)
    }
}

/// Allocates piece after piece. A refused piece is tried again at half its size, so that less than
/// the smallest piece remains free; the reported code is that of the last refusal.
pub(super) fn until_refused<T>(
    max_bytes: u64,
    pieces: u32,
    mut alloc: impl FnMut(usize) -> Result<T, DriverError>,
) -> Result<Allocation<T>, DriverError> {
    let mut piece = whole_pages(max_bytes / u64::from(pieces.max(1))).min(PIECE_MAX_BYTES);
    let mut allocation = Allocation { pieces: Vec::new(), bytes: 0, refused_with: None };
    while allocation.bytes < max_bytes {
        let bytes = piece.min(max_bytes - allocation.bytes);
        match alloc(usize::try_from(bytes).unwrap_or(usize::MAX)) {
            Ok(one) => {
                allocation.pieces.push(one);
                allocation.bytes += bytes;
            }
            Err(error) => {
                // An error without a code is not a refusal by the driver.
                let Some(code) = error.code() else { return Err(error) };
                if code != error::OUT_OF_MEMORY || bytes <= PIECE_MIN_BYTES {
                    allocation.refused_with = Some(code);
                    break;
                }
                piece = whole_pages(bytes / 2);
            }
        }
    }
    Ok(allocation)
}

/// Rounds down to whole pages, at least one.
const fn whole_pages(bytes: u64) -> u64 {
    let pages = bytes / PIECE_MIN_BYTES;
    if pages == 0 { PIECE_MIN_BYTES } else { pages * PIECE_MIN_BYTES }
}

// Marked pages: writes a mark to every page, and counts the marks that a later owner finds.

/// Maximum pages of one allocation.
const PIECE_PAGES: u64 = 256;
/// Maximum pages of one launch: the virtual GPU executes a launch of this size in full.
const LAUNCH_PAGES: u64 = 64;
const THREADS: u32 = 128;
/// Matching words that show a mark. One random word matches once in 2^32, which happens on a whole
/// device; eight in one page do not.
const MATCHING_WORDS: u32 = 8;
/// Maximum number of addresses that are reported, those of the first pages.
const ADDRESSES_MAX: u64 = 64;

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
                Err(error) if error.code() == Some(error::OUT_OF_MEMORY) && pieces.len() > 1 => {
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
    gpu.props.has_own_memory()?;
    let (mut pieces, mut left) = (Vec::new(), pages);
    while left > 0 {
        let pages = left.min(PIECE_PAGES);
        let words = usize::try_from(pages * u64::from(mark.page_words)).unwrap_or(usize::MAX);
        match DeviceBuffer::alloc(&gpu.context, words) {
            Ok(memory) => pieces.push(Piece { memory, pages }),
            Err(error) if error.code() == Some(error::OUT_OF_MEMORY) => break,
            Err(error) => return Err(error),
        }
        left -= pages;
    }
    Ok(pieces)
}

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

fn launches(pages: u64) -> impl Iterator<Item = (u64, u64)> {
    (0..pages)
        .step_by(LAUNCH_PAGES as usize)
        .map(move |from| (from, LAUNCH_PAGES.min(pages - from)))
}

// Memory visibility: what a tenant can observe of another, namely free memory and its addresses.

/// Words that are copied from each address.
const WORDS: usize = 16;

impl RunStep for ReadMemoryInfo {
    fn run(&self, cx: &mut StepContext<'_>) -> Result<MemoryInfo, ProbeError> {
        let memory = cx.gpu.context.mem_info()?;
        Ok(MemoryInfo { total_bytes: memory.total_bytes, free_bytes: memory.free_bytes })
    }
}

impl RunStep for ReadAddresses {
    /// The driver checks a copy before it submits it, so a refusal breaks no context. Reads by a
    /// kernel are not tested.
    fn run(&self, cx: &mut StepContext<'_>) -> Result<AddressReads, ProbeError> {
        let mark: Vec<u32> = (0..WORDS as u64).map(|i| pattern_word(i, self.seed)).collect();
        let mut reads = AddressReads::default();
        for &address in &self.addresses {
            let mut words = [0_u32; WORDS];
            match DevicePtr(address).read(&cx.gpu.context, &mut words) {
                Ok(()) if words[..] == mark[..] => reads.marked += 1,
                Ok(()) => reads.other += 1,
                Err(error) => {
                    let Some(code) = error.code() else { return Err(error.into()) };
                    reads.refused += 1;
                    reads.refused_with.get_or_insert(code);
                }
            }
        }
        Ok(reads)
    }
}

// Memory of another tenant, through an IPC handle that it exports.

impl RunStep for ExportMemory {
    fn run(&self, cx: &mut StepContext<'_>) -> Result<ExportedMemory, ProbeError> {
        let words = usize::try_from(self.bytes / 4).map_err(ProbeError::parameter)?;
        let memory = DeviceBuffer::<u32>::alloc(&cx.gpu.context, words)?;
        let handle = memory.ipc_handle()?;
        cx.kept.push(memory);
        Ok(ExportedMemory { handle: handle.to_hex() })
    }
}

impl RunStep for ImportMemory {
    fn run(&self, cx: &mut StepContext<'_>) -> Result<ImportedMemory, ProbeError> {
        let handle = IpcHandle::from_hex(&self.handle).ok_or_else(|| {
            let (found, accepted) = (self.handle.len(), 2 * size_of::<IpcHandle>());
            ProbeError::parameter(format!(
                "a handle of {found} characters (accepted: {accepted} hexadecimal digits)"
            ))
        })?;
        let refused_with = match IpcMapping::open(&cx.gpu.context, handle) {
            Ok(_mapped) => None,
            Err(error) => match error.code() {
                Some(code) => Some(code),
                None => return Err(error.into()),
            },
        };
        Ok(ImportedMemory { refused_with })
    }
}

// Running out of memory: the refusal, its duration, and whether the context still works.

/// Size of the request that is repeated when no memory is left.
const MORE_WORDS: usize = 4 << 20;

impl RunStep for ExhaustMemory {
    /// Allocates until refused, requests once more, launches while all memory is held, frees it,
    /// and allocates again.
    fn run(&self, cx: &mut StepContext<'_>) -> Result<Exhausted, ProbeError> {
        cx.gpu.props.has_own_memory()?;
        let (gpu, time) = (cx.gpu, cx.time);
        // The launch's memory is allocated before memory runs out.
        let stamps = Stamps::new(gpu, 1)?;
        stamps.put(gpu, 0)?;
        gpu.stream.synchronize()?;
        let held = until_refused(self.max_bytes, PIECES, |bytes| {
            DeviceBuffer::<u32>::alloc(&gpu.context, bytes.div_ceil(4))
        })?;
        let from_ns = time.now_ns();
        let more = DeviceBuffer::<u32>::alloc(&gpu.context, MORE_WORDS);
        let refusal_ns = time.now_ns() - from_ns;
        let refused_with = more.as_ref().err().map(|error| error.code().unwrap_or(-1));
        drop(more);
        let launched = stamps
            .put(gpu, 0)
            .and_then(|()| gpu.stream.synchronize())
            .and_then(|()| stamps.read(1));
        let serves_code = launched.err().map_or(0, |error| error.code().unwrap_or(-1));
        held.pieces.into_iter().try_for_each(DeviceBuffer::free)?;
        let again = DeviceBuffer::<u32>::alloc(&gpu.context, MORE_WORDS);
        let recovers_code = again.err().map_or(0, |error| error.code().unwrap_or(-1));
        Ok(Exhausted { bytes: held.bytes, refused_with, refusal_ns, serves_code, recovers_code })
    }
}

#[cfg(test)]
mod tests {
    use gpubench_kernels::driver::{DriverError, error};

    use super::{LAUNCH_PAGES, Mark, PIECE_MIN_BYTES, launches, until_refused};

    /// Allocates from a driver that has `free` bytes and then refuses with `code`.
    fn allocated(free: u64, max_bytes: u64, code: i32) -> (u64, Option<i32>) {
        let mut left = free;
        let allocation =
            until_refused(max_bytes, 16, |bytes| match left.checked_sub(bytes as u64) {
                Some(rest) => {
                    left = rest;
                    Ok(())
                }
                None => Err(DriverError::from_code("cuMemAlloc_v2", code)),
            })
            .expect("every refusal has a code");
        (allocation.bytes, allocation.refused_with)
    }

    #[test]
    fn less_than_a_page_remains_when_memory_runs_out() {
        for free in [(1 << 30) + 12_345, 7 << 20, 3 << 20] {
            let (bytes, code) = allocated(free, 1 << 32, error::OUT_OF_MEMORY);
            assert!(bytes <= free && free - bytes < PIECE_MIN_BYTES, "{free}: {bytes}");
            assert_eq!(code, Some(error::OUT_OF_MEMORY));
        }
    }

    #[test]
    fn stops_at_the_maximum() {
        let max_bytes = (1 << 30) + 4;
        let found = allocated(1 << 32, max_bytes, error::OUT_OF_MEMORY);
        assert_eq!(found, (max_bytes, None));
    }

    #[test]
    fn stops_at_another_refusal_at_once() {
        assert_eq!(allocated(0, 1 << 30, 801), (0, Some(801)));
    }

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
