//! Allocating memory until the driver or the mechanism refuses: by any call, or to keep it.

use gpubench_kernels::driver::{AllocKind, DeviceBuffer, DriverError, OtherMemory, codes};
use gpubench_record::ProbeTold;

use super::ProbeError;
use crate::load::Gpu;

/// Pieces in which a whole device is taken at first.
const PIECES: u32 = 32;
/// No first piece is larger: arrays have a greatest width and height.
const PIECE_MAX_BYTES: u64 = 2 << 30;
/// The smallest piece that is tried, and the granularity of all: the GPU's large page.
const PIECE_MIN_BYTES: u64 = 2 << 20;

/// What was taken, and the refusal that ended it.
pub(super) struct Taken<T> {
    pub(super) pieces: Vec<T>,
    pub(super) bytes: u64,
    refused_with: Option<i32>,
}

/// Takes memory by one call until it is refused, and gives it back.
pub(super) fn grab(gpu: &Gpu, call: &str, most_bytes: u64) -> Result<ProbeTold, ProbeError> {
    let kind = AllocKind::ALL
        .into_iter()
        .find(|kind| kind.function() == call)
        .ok_or_else(|| {
            let known = AllocKind::ALL.map(AllocKind::function).join(", ");
            ProbeError::Asked {
                what: format!("no call {call:?} to take memory: {known}"),
            }
        })?;
    let taken = until_refused(most_bytes, PIECES, |bytes| {
        OtherMemory::alloc(&gpu.context, kind, bytes)
    })?;
    Ok(ProbeTold::Took {
        bytes: taken.bytes,
        refused_with: taken.refused_with,
    })
}

/// Takes memory by the usual call and keeps it.
pub(super) fn hold(
    gpu: &Gpu,
    kept: &mut Vec<DeviceBuffer<u32>>,
    most_bytes: u64,
    pieces: u32,
) -> Result<ProbeTold, ProbeError> {
    let taken = until_refused(most_bytes, pieces, |bytes| {
        DeviceBuffer::alloc(&gpu.context, bytes.div_ceil(4))
    })?;
    kept.extend(taken.pieces);
    Ok(ProbeTold::Took {
        bytes: taken.bytes,
        refused_with: taken.refused_with,
    })
}

/// Takes piece after piece. A piece that is refused is tried at half its size, so that what is left
/// at the end is less than the smallest; the reported code is that of the last refusal.
pub(super) fn until_refused<T>(
    most_bytes: u64,
    pieces: u32,
    mut take: impl FnMut(usize) -> Result<T, DriverError>,
) -> Result<Taken<T>, DriverError> {
    let mut piece = whole(most_bytes / u64::from(pieces.max(1))).min(PIECE_MAX_BYTES);
    let mut taken = Taken {
        pieces: Vec::new(),
        bytes: 0,
        refused_with: None,
    };
    while taken.bytes < most_bytes {
        let bytes = piece.min(most_bytes - taken.bytes);
        match take(usize::try_from(bytes).unwrap_or(usize::MAX)) {
            Ok(one) => {
                taken.pieces.push(one);
                taken.bytes += bytes;
            }
            Err(error) => {
                // An error without a number is not the driver's answer.
                let Some(code) = error.code() else {
                    return Err(error);
                };
                if code != codes::OUT_OF_MEMORY || bytes <= PIECE_MIN_BYTES {
                    taken.refused_with = Some(code);
                    break;
                }
                piece = whole(bytes / 2);
            }
        }
    }
    Ok(taken)
}

/// Down to whole pages, and at least one.
const fn whole(bytes: u64) -> u64 {
    let pages = bytes / PIECE_MIN_BYTES;
    if pages == 0 {
        PIECE_MIN_BYTES
    } else {
        pages * PIECE_MIN_BYTES
    }
}

#[cfg(test)]
mod tests {
    use gpubench_kernels::driver::{DriverError, codes};

    use super::{PIECE_MIN_BYTES, until_refused};

    /// A driver that has so many bytes and then refuses with `code`.
    fn taken(free: u64, most: u64, code: i32) -> (u64, Option<i32>) {
        let mut left = free;
        let taken = until_refused(most, 16, |bytes| match left.checked_sub(bytes as u64) {
            Some(rest) => {
                left = rest;
                Ok(())
            }
            None => Err(DriverError::from_code("cuMemAlloc_v2", code)),
        })
        .expect("every refusal has a number");
        (taken.bytes, taken.refused_with)
    }

    #[test]
    fn less_than_a_page_is_left_when_memory_runs_out() {
        for free in [(1 << 30) + 12_345, 7 << 20, 3 << 20] {
            let (bytes, code) = taken(free, 1 << 32, codes::OUT_OF_MEMORY);
            assert!(
                bytes <= free && free - bytes < PIECE_MIN_BYTES,
                "{free}: {bytes}"
            );
            assert_eq!(code, Some(codes::OUT_OF_MEMORY));
        }
    }

    #[test]
    fn what_is_asked_for_is_taken_and_no_more() {
        let most = (1 << 30) + 4;
        assert_eq!(taken(1 << 32, most, codes::OUT_OF_MEMORY), (most, None));
    }

    #[test]
    fn another_refusal_ends_it_at_once() {
        assert_eq!(taken(0, 1 << 30, 801), (0, Some(801)));
    }
}
