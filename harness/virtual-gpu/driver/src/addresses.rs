//! Device addresses without memory behind them: what `cuMemAddressReserve` gives out.

use std::collections::BTreeMap;

/// First address given out. Far from device memory's own addresses and from what the host maps.
pub const FIRST: u64 = 0x6000_0000_0000;

/// End of the addresses given out.
pub const END: u64 = 0x6800_0000_0000;

/// Ranges that are given out, by their start.
#[derive(Debug, Default)]
pub struct Addresses {
    taken: BTreeMap<u64, u64>,
}

impl Addresses {
    /// Takes `bytes` at a multiple of `align`, at `wish` if that is free. `None` when there is no
    /// such room.
    pub fn take(&mut self, bytes: u64, align: u64, wish: u64) -> Option<u64> {
        let align = align.max(1);
        if wish != 0 && wish.is_multiple_of(align) && self.is_free(wish, bytes) {
            self.taken.insert(wish, bytes);
            return Some(wish);
        }
        let mut at = FIRST.checked_next_multiple_of(align)?;
        for (&start, &length) in &self.taken {
            if at.checked_add(bytes)? <= start {
                break;
            }
            at = at.max((start + length).checked_next_multiple_of(align)?);
        }
        if at.checked_add(bytes)? > END {
            return None;
        }
        self.taken.insert(at, bytes);
        Some(at)
    }

    fn is_free(&self, at: u64, bytes: u64) -> bool {
        let Some(end) = at.checked_add(bytes) else { return false };
        let below = self.taken.range(..end).next_back();
        at >= FIRST && end <= END && below.is_none_or(|(start, length)| start + length <= at)
    }

    /// Gives back a range that starts there and is that long.
    pub fn give_back(&mut self, at: u64, bytes: u64) -> bool {
        if self.taken.get(&at) != Some(&bytes) {
            return false;
        }
        self.taken.remove(&at).is_some()
    }

    /// Whether the range lies within one that was given out.
    pub fn holds(&self, at: u64, bytes: u64) -> bool {
        let Some(end) = at.checked_add(bytes) else { return false };
        let below = self.taken.range(..=at).next_back();
        below.is_some_and(|(start, length)| end <= start + length)
    }
}

#[cfg(test)]
mod tests {
    use super::{Addresses, END, FIRST};

    const MIB: u64 = 1 << 20;

    #[test]
    fn ranges_never_overlap_and_come_back() {
        let mut addresses = Addresses::default();
        let first = addresses.take(4 * MIB, 2 * MIB, 0);
        assert_eq!(first, Some(FIRST));
        let wish = FIRST + 8 * MIB;
        assert_eq!(addresses.take(2 * MIB, 2 * MIB, wish), Some(wish));
        assert_eq!(addresses.take(4 * MIB, 2 * MIB, wish), Some(FIRST + 4 * MIB));
        assert_eq!(addresses.take(2 * MIB, 2 * MIB, 0), Some(wish + 2 * MIB));
        assert!(addresses.holds(FIRST + MIB, 3 * MIB) && !addresses.holds(FIRST, 5 * MIB));
        assert!(!addresses.give_back(FIRST, 2 * MIB), "only whole ranges");
        assert!(addresses.give_back(FIRST, 4 * MIB));
        assert_eq!(addresses.take(MIB, 1, 0), Some(FIRST));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let mut addresses = Addresses::default();
        for bytes in [END - FIRST + 1, u64::MAX, u64::MAX - FIRST] {
            assert_eq!(addresses.take(bytes, 1, 0), None, "{bytes:#x}");
        }
        assert_eq!(addresses.take(MIB, 1 << 63, 0), None);
        assert_eq!(addresses.take(MIB, 1, 12), Some(FIRST), "a wish outside is not heeded");
    }
}
