//! Allocating memory until the driver or the mechanism refuses: by any call, or to keep it.

use gpubench_kernels::driver::{AllocKind, DeviceBuffer, DriverError, OtherMemory, codes};
use gpubench_record::probe::step::{AllocateAndKeep, AllocateByCall, Allocated, ReleaseMemory};

use super::{ProbeError, RunStep, StepContext};

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
                let Some(code) = error.code() else {
                    return Err(error);
                };
                if code != codes::OUT_OF_MEMORY || bytes <= PIECE_MIN_BYTES {
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

#[cfg(test)]
mod tests {
    use gpubench_kernels::driver::{DriverError, codes};

    use super::{PIECE_MIN_BYTES, until_refused};

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
            let (bytes, code) = allocated(free, 1 << 32, codes::OUT_OF_MEMORY);
            assert!(bytes <= free && free - bytes < PIECE_MIN_BYTES, "{free}: {bytes}");
            assert_eq!(code, Some(codes::OUT_OF_MEMORY));
        }
    }

    #[test]
    fn stops_at_the_maximum() {
        let max_bytes = (1 << 30) + 4;
        let found = allocated(1 << 32, max_bytes, codes::OUT_OF_MEMORY);
        assert_eq!(found, (max_bytes, None));
    }

    #[test]
    fn stops_at_another_refusal_at_once() {
        assert_eq!(allocated(0, 1 << 30, 801), (0, Some(801)));
    }
}
