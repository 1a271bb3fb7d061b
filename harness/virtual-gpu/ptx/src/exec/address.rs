//! Addresses of a warp: active lanes, contiguity, sectors.

use super::frame::Frame;
use crate::operands::{NO_ROW, Row};

/// Bytes of a DRAM and L2 sector (CUDA C++ Best Practices Guide, "Coalesced Access").
pub(super) const SECTOR_BYTES: u64 = 32;

pub(crate) fn lanes(mask: u32) -> impl Iterator<Item = usize> {
    (0..32).filter(move |lane| mask >> lane & 1 == 1)
}

/// Addresses of all lanes; arithmetic wraps around as on the device.
#[inline(always)]
pub(crate) fn addresses(frame: &Frame, base: Row, offset: i64) -> [u64; 32] {
    let mut all = [offset as u64; 32];
    if base != NO_ROW {
        let base = &frame.r64[usize::from(base)];
        for lane in 0..32 {
            all[lane] = base[lane].wrapping_add_signed(offset);
        }
    }
    all
}

/// Whether the lanes access memory consecutively without gaps.
#[inline(always)]
pub(crate) fn is_contiguous(all: &[u64; 32], bytes: u64) -> bool {
    let mut different = 0;
    for lane in 0..32 {
        different |= all[lane] ^ all[0].wrapping_add(lane as u64 * bytes);
    }
    different == 0
}

/// Distinct sectors that the lanes touch; an aligned access never crosses one.
pub(crate) fn sector_bytes(all: &[u64; 32], active: u32) -> u64 {
    let mut sectors = [0u64; 32];
    let mut count = 0;
    let mut sorted = true;
    for lane in lanes(active) {
        let sector = all[lane] / SECTOR_BYTES;
        if count > 0 && sectors[count - 1] == sector {
            continue;
        }
        sorted &= count == 0 || sectors[count - 1] < sector;
        sectors[count] = sector;
        count += 1;
    }
    if !sorted {
        sectors[..count].sort_unstable();
        let mut distinct = usize::from(count > 0);
        for at in 1..count {
            distinct += usize::from(sectors[at] != sectors[at - 1]);
        }
        count = distinct;
    }
    count as u64 * SECTOR_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sectors_are_distinct_ones_in_any_order() {
        let full = u32::MAX;
        let mut all: [u64; 32] = std::array::from_fn(|lane| 4 * lane as u64);
        assert_eq!(sector_bytes(&all, full), 128);
        all.reverse();
        assert_eq!(sector_bytes(&all, full), 128);
        assert_eq!(sector_bytes(&all, 0b11), 32);
        let strided: [u64; 32] = std::array::from_fn(|lane| 128 * lane as u64);
        assert_eq!(sector_bytes(&strided, full), 1024);
        let zigzag: [u64; 32] = std::array::from_fn(|lane| (lane as u64 % 2) * 4096);
        assert_eq!(sector_bytes(&zigzag, full), 64);
        assert_eq!(sector_bytes(&zigzag, 0), 0);
    }
}
