//! Samples that NVML reports: the present utilisation window, and rings of past samples.

use crate::table::Table;

/// Samples kept of each kind.
pub const SAMPLES: usize = 128;

/// The window over which utilisation is averaged.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct Window {
    /// Start of the window that is filling.
    pub start_ns: u64,
    /// Engine busy time at its start.
    pub busy_at_start_ns: u64,
    /// Percent of the last full window during which a kernel ran.
    pub last_percent: u32,
    /// DRAM use at its start.
    pub dram_at_start: u128,
    /// Percent of DRAM bandwidth used over the last full window.
    pub last_dram_percent: u32,
}

/// Utilisation over one full window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Filled {
    /// Its end.
    pub at_ns: u64,
    /// Percent of it during which a kernel ran.
    pub percent: u32,
    /// Percent of DRAM bandwidth used over it.
    pub dram_percent: u32,
}

/// Meter readings at one instant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Reading {
    /// The instant.
    pub at_ns: u64,
    /// Power drawn, in milliwatts.
    pub power_mw: u64,
    /// SM clock relative to the highest, in fixed point.
    pub clock: u64,
}

/// The last samples of a kind; copied by version.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Ring<T> {
    /// Samples ever taken.
    taken: u64,
    rows: Table<T, SAMPLES>,
}

impl<T: Copy + Default> Ring<T> {
    /// No samples.
    #[must_use]
    pub fn new() -> Self {
        Self {
            taken: 0,
            rows: Table::new(),
        }
    }

    /// Adds a sample; the oldest one is dropped when the ring is full.
    pub fn push(&mut self, sample: T) {
        let at = (self.taken % SAMPLES as u64) as usize;
        self.rows.rows[at] = sample;
        self.rows.used = self.rows.used.max(at as u32 + 1);
        self.rows.touch();
        self.taken += 1;
    }

    /// The samples, the oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        let first = self.taken.saturating_sub(SAMPLES as u64);
        (first..self.taken).map(|number| &self.rows.rows[(number % SAMPLES as u64) as usize])
    }

    /// Copies `from`, if it differs.
    pub fn copy_if_changed(&mut self, from: &Self) {
        self.taken = from.taken;
        self.rows.copy_if_changed(&from.rows);
    }
}

impl<T: Copy + Default> Default for Ring<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::{Ring, SAMPLES};

    #[test]
    fn a_ring_keeps_the_last_samples_in_order() {
        let mut ring = Ring::new();
        assert_eq!(ring.iter().count(), 0);
        for sample in 0..SAMPLES as u64 + 3 {
            ring.push(sample);
        }
        let mut copy = Ring::new();
        copy.copy_if_changed(&ring);
        let want: Vec<u64> = (3..SAMPLES as u64 + 3).collect();
        assert!(
            copy.iter().eq(&want),
            "{:?}",
            copy.iter().collect::<Vec<_>>()
        );
    }
}
