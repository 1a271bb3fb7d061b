//! Device memory of a kernel: mapped ranges of host memory.
#![expect(unsafe_code, reason = "ranges are host memory that the caller mapped")]

use std::marker::PhantomData;

use crate::fault::FaultKind;

#[derive(Debug, Clone, Copy)]
struct Range {
    base: u64,
    bytes: u64,
    host: *mut u8,
    readable: bool,
    writable: bool,
    /// Start address of the range in the L1/TLB model.
    cache_base: u64,
    written_by_others: bool,
}

/// Why a range cannot be mapped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("device range {base:#x}+{bytes:#x} {what}")]
pub struct MapError {
    base: u64,
    bytes: u64,
    what: &'static str,
}

/// Ranges of device addresses backed by host memory.
///
/// Each range has an index, the order of mapping, for read and write sets.
#[derive(Debug, Default)]
pub struct DeviceMemory<'a> {
    ranges: Vec<Range>,
    /// Indices of `ranges`, sorted by base address.
    sorted: Vec<usize>,
    /// The range of the last hit: kernels access few ranges.
    last: usize,
    /// Counts whatever can end a loop that polls: writes of any memory, and reads of memory that
    /// others write.
    pub(crate) changes: u64,
    owner: PhantomData<&'a mut [u8]>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RangeOffset {
    /// Index of the range, in the order of mapping.
    pub range: usize,
    /// Bytes from the range's start.
    pub offset: u64,
}

impl<'a> DeviceMemory<'a> {
    /// Empty memory: every access faults.
    pub fn new() -> Self {
        Self { ranges: Vec::new(), sorted: Vec::new(), last: 0, changes: 0, owner: PhantomData }
    }

    /// Maps `bytes` at device address `base`; returns the range's index.
    pub fn map(
        &mut self,
        base: u64,
        bytes: &'a mut [u8],
        writable: bool,
    ) -> Result<usize, MapError> {
        let (host, len) = (bytes.as_mut_ptr(), bytes.len() as u64);
        // SAFETY: the slice is borrowed mutably for `'a`, the lifetime of this object.
        unsafe { self.map_raw(base, len, host, true, writable) }
    }

    /// Maps host memory that no Rust borrow describes, such as a shared mapping.
    ///
    /// # Safety
    /// `host` must be valid for reads and, if `writable`, for writes of `bytes` bytes for as long
    /// as this object lives, and no Rust reference to it may be used meanwhile.
    pub unsafe fn map_raw(
        &mut self,
        base: u64,
        bytes: u64,
        host: *mut u8,
        readable: bool,
        writable: bool,
    ) -> Result<usize, MapError> {
        let fail = |what| Err(MapError { base, bytes, what });
        let Some(end) = base.checked_add(bytes) else {
            return fail("wraps around the address space");
        };
        if bytes == 0 || bytes > isize::MAX as u64 {
            return fail("is empty or larger than the host can hold");
        }
        if end > crate::types::window::CODE_BASE {
            return fail("reaches into the windows of shared and local memory");
        }
        let overlaps = |r: &Range| base < r.base + r.bytes && r.base < end;
        if self.ranges.iter().any(overlaps) {
            return fail("overlaps a mapped range");
        }
        let index = self.ranges.len();
        let at = self.sorted.partition_point(|&i| self.ranges[i].base < base);
        self.ranges.push(Range {
            base,
            bytes,
            host,
            readable,
            writable,
            cache_base: base,
            written_by_others: false,
        });
        self.sorted.insert(at, index);
        Ok(index)
    }

    /// Sets the start address of a range in the L1/TLB model, so that its counts do not depend on
    /// where the range is mapped. An unknown index has no effect.
    pub fn set_cache_base(&mut self, index: usize, base: u64) {
        if let Some(range) = self.ranges.get_mut(index) {
            range.cache_base = base;
        }
    }

    /// Marks a range that the host or other processes write while a kernel runs: a loop that polls
    /// it may end by itself. An unknown index has no effect.
    pub fn set_written_by_others(&mut self, index: usize) {
        if let Some(range) = self.ranges.get_mut(index) {
            range.written_by_others = true;
        }
    }

    /// The address of `addr` in the L1/TLB model: itself where nothing is mapped.
    #[inline]
    pub(crate) fn cache_address(&mut self, addr: u64) -> u64 {
        match self.find(addr, 1) {
            Some(at) => self.ranges[at.range].cache_base.wrapping_add(at.offset),
            None => addr,
        }
    }

    #[inline]
    pub fn find(&mut self, addr: u64, bytes: u64) -> Option<RangeOffset> {
        if let Some(range) = self.ranges.get(self.last) {
            let offset = addr.wrapping_sub(range.base);
            if offset < range.bytes && bytes <= range.bytes - offset {
                return Some(RangeOffset { range: self.last, offset });
            }
        }
        self.search(addr, bytes)
    }

    fn search(&mut self, addr: u64, bytes: u64) -> Option<RangeOffset> {
        let after = self.sorted.partition_point(|&i| self.ranges[i].base <= addr);
        let index = *self.sorted.get(after.checked_sub(1)?)?;
        let range = &self.ranges[index];
        let offset = addr - range.base;
        if offset >= range.bytes || bytes > range.bytes - offset {
            return None;
        }
        self.last = index;
        Some(RangeOffset { range: index, offset })
    }

    /// The range and offset of an access, or its fault.
    #[inline]
    pub(crate) fn locate(
        &mut self,
        addr: u64,
        bytes: u64,
        write: bool,
    ) -> Result<RangeOffset, FaultKind> {
        let at = self.find(addr, bytes);
        match at {
            Some(at) => {
                let range = &self.ranges[at.range];
                let allowed = if write { range.writable } else { range.readable };
                if allowed {
                    self.changes += u64::from(range.written_by_others);
                    Ok(at)
                } else {
                    Err(FaultKind::IllegalAddress { addr, write })
                }
            }
            None => Err(FaultKind::IllegalAddress { addr, write }),
        }
    }

    /// The bytes at an offset that `locate` returned for a read.
    #[inline]
    pub(crate) fn bytes(&self, at: RangeOffset, bytes: usize) -> &[u8] {
        let range = &self.ranges[at.range];
        assert!(range.readable && at.offset + bytes as u64 <= range.bytes);
        // SAFETY: the range is valid for reads of `range.bytes` bytes (contract of `map_raw`), and
        // the assertion keeps the slice inside it.
        unsafe { std::slice::from_raw_parts(range.host.add(at.offset as usize), bytes) }
    }

    /// The bytes at an offset that `locate` returned for a write.
    #[inline]
    pub(crate) fn bytes_mut(&mut self, at: RangeOffset, bytes: usize) -> &mut [u8] {
        let range = &self.ranges[at.range];
        assert!(range.writable && at.offset + bytes as u64 <= range.bytes);
        // SAFETY: the range is valid for writes of `range.bytes` bytes (contract of `map_raw`), the
        // assertion keeps the slice inside it, and `&mut self` makes it the only one.
        unsafe { std::slice::from_raw_parts_mut(range.host.add(at.offset as usize), bytes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_addresses_inside_one_range_only() {
        let (mut a, mut b) = ([1u8; 16], [2u8; 16]);
        let mut memory = DeviceMemory::new();
        memory.map(0x2000, &mut b, true).expect("maps");
        memory.map(0x1000, &mut a, false).expect("maps");
        assert_eq!(memory.find(0x1000, 16), Some(RangeOffset { range: 1, offset: 0 }));
        assert_eq!(memory.find(0x2008, 8), Some(RangeOffset { range: 0, offset: 8 }));
        for (addr, bytes) in [(0xFFF, 1), (0x1001, 16), (0x1010, 1), (u64::MAX, 1), (0, 0)] {
            assert_eq!(memory.find(addr, bytes), None, "{addr:#x}");
        }
        assert!(memory.locate(0x1000, 4, true).is_err());
        assert!(memory.locate(0x1000, 4, false).is_ok());
    }

    #[test]
    fn refuses_overlaps_wraps_and_windows() {
        let (mut a, mut b) = ([0u8; 16], [0u8; 16]);
        let (mut c, mut d) = ([0u8; 16], [0u8; 16]);
        let mut memory = DeviceMemory::new();
        memory.map(0x1000, &mut a, true).expect("maps");
        assert!(memory.map(0x100F, &mut b, true).is_err());
        assert!(memory.map(u64::MAX - 3, &mut c, true).is_err());
        assert!(memory.map(crate::types::window::SHARED_BASE, &mut d, true).is_err());
    }
}
