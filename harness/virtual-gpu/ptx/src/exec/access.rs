//! Loads and stores: addresses of lanes, what they resolve to, values in memory and in register
//! rows.

use super::l1_tlb::L1Tlb;
use super::warp::{Frame, lanes};
use crate::counts::Counts;
use crate::fault::FaultKind;
use crate::footprint::Footprint;
use crate::memory::DeviceMemory;
use crate::operands::{Access, NO_ROW, Row};
use crate::types::{Space, Ty, window};

pub(crate) struct WarpMemory<'m, 'a, 'b> {
    pub memory: &'m mut DeviceMemory<'a>,
    pub footprint: &'m mut Footprint,
    pub counts: &'m mut Counts,
    pub shared: &'m mut [u8],
    pub l1_tlb: &'m mut L1Tlb,
    pub local: &'m mut [u8],
    pub local_stride: u32,
    pub params: &'b [u8],
}

/// Borrows the memory that an access can reach, and its frame, from the machine and a warp.
macro_rules! warp_memory {
    ($machine:expr, $warp:expr, $frame_at:expr, $memory:ident, $frame:ident) => {
        let mut $memory = super::access::WarpMemory {
            memory: &mut *$machine.memory,
            footprint: &mut $machine.footprint,
            counts: &mut $machine.counts,
            shared: &mut $machine.block.shared,
            l1_tlb: &mut $machine.l1_tlb,
            local: &mut $warp.local,
            local_stride: $warp.local_stride,
            params: $machine.launch.params,
        };
        let $frame = &mut $warp.frames[$frame_at];
    };
}

pub(super) use warp_memory;

pub(crate) type LaneFault = (usize, FaultKind);

impl WarpMemory<'_, '_, '_> {
    pub(crate) fn load(
        &mut self,
        frame: &mut Frame,
        access: &Access,
        active: u32,
    ) -> Result<(), LaneFault> {
        let all = addresses(frame, access.base, access.offset);
        let (elements, ty) = (usize::from(access.lanes_of_vector), access.ty);
        let size = u64::from(ty.bytes()) * elements as u64;
        let device = self.count(access, &all, active, size, false);
        if device && active == u32::MAX && all[0].is_multiple_of(size) && is_contiguous(&all, size)
        {
            let total = 32 * size;
            if let Ok(location) = self.memory.locate(all[0], total, false) {
                self.footprint.mark(location.range, location.offset, total, false);
                unpack(self.memory.bytes(location, total as usize), frame, access);
                return Ok(());
            }
        }
        // One address for all lanes: one read suffices.
        let one = access.space != Space::Local && active == u32::MAX && is_contiguous(&all, 0);
        let broadcast = one && all[0] < window::CODE_BASE;
        let readers = if broadcast { 1 } else { active };
        for lane in lanes(readers) {
            let addr = all[lane];
            let target =
                self.resolve(access.space, lane, addr, size, false).map_err(|kind| (lane, kind))?;
            let bytes = self.bytes(target, size).map_err(|kind| (lane, kind))?;
            for element in 0..elements {
                let value = read_value(&bytes[element * ty.bytes() as usize..], ty);
                if broadcast {
                    frame.splat(ty.is_wide(), access.rows[element], value);
                } else {
                    frame.set_lane(ty.is_wide(), access.rows[element], lane, value);
                }
            }
        }
        Ok(())
    }

    pub(crate) fn store(
        &mut self,
        frame: &Frame,
        access: &Access,
        active: u32,
    ) -> Result<(), LaneFault> {
        let all = addresses(frame, access.base, access.offset);
        let (elements, ty) = (usize::from(access.lanes_of_vector), access.ty);
        let size = u64::from(ty.bytes()) * elements as u64;
        self.memory.changes += u64::from(active != 0);
        let device = self.count(access, &all, active, size, true);
        if device && active == u32::MAX && all[0].is_multiple_of(size) && is_contiguous(&all, size)
        {
            let total = 32 * size;
            if let Ok(location) = self.memory.locate(all[0], total, true) {
                self.footprint.mark(location.range, location.offset, total, true);
                pack(self.memory.bytes_mut(location, total as usize), frame, access);
                return Ok(());
            }
        }
        for lane in lanes(active) {
            let addr = all[lane];
            let target =
                self.resolve(access.space, lane, addr, size, true).map_err(|kind| (lane, kind))?;
            let bytes = self.bytes_mut(target, size).map_err(|kind| (lane, kind))?;
            for element in 0..elements {
                let value = frame.lane(ty.is_wide(), access.rows[element], lane);
                write_value(&mut bytes[element * ty.bytes() as usize..], ty, value);
            }
        }
        Ok(())
    }

    /// Counts an access; false when no lane accesses device memory.
    fn count(
        &mut self,
        access: &Access,
        all: &[u64; 32],
        active: u32,
        size: u64,
        write: bool,
    ) -> bool {
        let mut device = active;
        match access.space {
            // The constant cache serves these without L2 traffic.
            Space::Const => return true,
            Space::Global => {}
            Space::Generic => {
                for lane in lanes(active).filter(|lane| all[*lane] >= window::CODE_BASE) {
                    device &= !(1 << lane);
                }
                let windowed = (active & !device).count_ones();
                self.counts.shared_bytes += u64::from(windowed) * size;
            }
            Space::Shared | Space::Local => {
                self.counts.shared_bytes += u64::from(active.count_ones()) * size;
                return false;
            }
            Space::Param => return false,
        }
        let sectors = sector_bytes(all, device);
        let mut cached = *all;
        self.make_cache_addresses(&mut cached, device);
        let reached = || lanes(device).map(|lane| cached[lane]);
        let counts = &mut *self.counts;
        counts.translations += self.l1_tlb.translate(reached());
        if access.cached {
            counts.l1_hit_bytes += self.l1_tlb.load(reached());
        }
        if write {
            counts.store_sector_bytes += sectors;
        } else {
            counts.load_sector_bytes += sectors;
        }
        device != 0
    }

    /// Replaces the lanes' addresses by those of the L1/TLB model.
    #[inline]
    pub(crate) fn make_cache_addresses(&mut self, all: &mut [u64; 32], device: u32) {
        for lane in lanes(device) {
            all[lane] = self.memory.cache_address(all[lane]);
        }
    }
}

/// Bytes of a DRAM and L2 sector (CUDA C++ Best Practices Guide, "Coalesced Access").
pub(super) const SECTOR_BYTES: u64 = 32;

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

pub(super) enum LaneTarget {
    Global(u64),
    Shared(usize),
    Local(usize),
    Param(usize),
}

impl WarpMemory<'_, '_, '_> {
    /// Resolves one lane's address; alignment comes first, as on the device.
    #[inline]
    pub(super) fn resolve(
        &mut self,
        space: Space,
        lane: usize,
        addr: u64,
        size: u64,
        write: bool,
    ) -> Result<LaneTarget, FaultKind> {
        if !addr.is_multiple_of(size) {
            return Err(FaultKind::Misaligned { addr, bytes: size as u32 });
        }
        let in_window = |base: u64| {
            let offset = addr.wrapping_sub(base);
            (offset < window::WINDOW_BYTES).then_some(offset)
        };
        match space {
            Space::Global | Space::Const if addr >= window::CODE_BASE => {
                Err(FaultKind::InvalidAddressSpace { addr })
            }
            Space::Global | Space::Const => Ok(LaneTarget::Global(addr)),
            Space::Generic => match (in_window(window::SHARED_BASE), in_window(window::LOCAL_BASE))
            {
                (Some(offset), _) => self.resolve_shared(offset, size),
                (_, Some(offset)) => self.resolve_local(lane, offset, size, write),
                _ => Ok(LaneTarget::Global(addr)),
            },
            Space::Shared => self.resolve_shared(addr, size),
            Space::Local => self.resolve_local(lane, addr, size, write),
            Space::Param => match addr.checked_add(size) {
                Some(end) if end <= self.params.len() as u64 => {
                    Ok(LaneTarget::Param(addr as usize))
                }
                _ => Err(FaultKind::IllegalAddress { addr, write }),
            },
        }
    }

    pub(super) fn resolve_shared(&self, offset: u64, size: u64) -> Result<LaneTarget, FaultKind> {
        let bytes = self.shared.len() as u64;
        match offset.checked_add(size) {
            Some(end) if end <= bytes => Ok(LaneTarget::Shared(offset as usize)),
            _ => Err(FaultKind::SharedOutOfRange { offset, bytes: bytes as u32 }),
        }
    }

    pub(super) fn resolve_local(
        &self,
        lane: usize,
        offset: u64,
        size: u64,
        write: bool,
    ) -> Result<LaneTarget, FaultKind> {
        let stride = u64::from(self.local_stride);
        match offset.checked_add(size) {
            Some(end) if end <= stride => {
                Ok(LaneTarget::Local(lane * self.local_stride as usize + offset as usize))
            }
            _ => {
                let addr = window::LOCAL_BASE.wrapping_add(offset);
                Err(FaultKind::IllegalAddress { addr, write })
            }
        }
    }

    #[inline]
    pub(super) fn bytes(&mut self, target: LaneTarget, size: u64) -> Result<&[u8], FaultKind> {
        let len = size as usize;
        match target {
            LaneTarget::Global(addr) => {
                let location = self.memory.locate(addr, size, false)?;
                self.footprint.mark(location.range, location.offset, size, false);
                Ok(self.memory.bytes(location, len))
            }
            LaneTarget::Shared(at) => Ok(&self.shared[at..at + len]),
            LaneTarget::Local(at) => Ok(&self.local[at..at + len]),
            LaneTarget::Param(at) => Ok(&self.params[at..at + len]),
        }
    }

    #[inline]
    pub(super) fn bytes_mut(
        &mut self,
        target: LaneTarget,
        size: u64,
    ) -> Result<&mut [u8], FaultKind> {
        let len = size as usize;
        match target {
            LaneTarget::Global(addr) => {
                let location = self.memory.locate(addr, size, true)?;
                self.footprint.mark(location.range, location.offset, size, true);
                Ok(self.memory.bytes_mut(location, len))
            }
            LaneTarget::Shared(at) => Ok(&mut self.shared[at..at + len]),
            LaneTarget::Local(at) => Ok(&mut self.local[at..at + len]),
            // The decoder refuses stores to parameters.
            LaneTarget::Param(at) => Err(FaultKind::InvalidAddressSpace { addr: at as u64 }),
        }
    }

    /// The bytes of an atomic; local memory has none.
    pub(crate) fn atomic_bytes(
        &mut self,
        space: Space,
        lane: usize,
        addr: u64,
        size: u64,
    ) -> Result<&mut [u8], FaultKind> {
        match self.resolve(space, lane, addr, size, true)? {
            LaneTarget::Local(_) => Err(FaultKind::InvalidAddressSpace { addr }),
            target => self.bytes_mut(target, size),
        }
    }

    /// Reads bytes at a generic address, as the built-in functions do.
    pub(crate) fn read_generic(
        &mut self,
        lane: usize,
        addr: u64,
        size: u64,
    ) -> Result<u64, FaultKind> {
        let target = self.resolve(Space::Generic, lane, addr, size, false)?;
        let bytes = self.bytes(target, size)?;
        let mut raw = [0u8; 8];
        raw[..size as usize].copy_from_slice(bytes);
        Ok(u64::from_le_bytes(raw))
    }
}

/// The value of `ty` at the start of `bytes`, extended to its row.
#[inline(always)]
pub(crate) fn read_value(bytes: &[u8], ty: Ty) -> u64 {
    let mut raw = [0u8; 8];
    let size = ty.bytes() as usize;
    raw[..size].copy_from_slice(&bytes[..size]);
    let value = u64::from_le_bytes(raw);
    if ty.bytes() < 4 { u64::from(super::int::extend(value as u32, ty)) } else { value }
}

#[inline(always)]
pub(crate) fn write_value(bytes: &mut [u8], ty: Ty, value: u64) {
    let size = ty.bytes() as usize;
    bytes[..size].copy_from_slice(&value.to_le_bytes()[..size]);
}

/// Spreads contiguous memory over the rows of a full warp.
#[inline(always)]
pub(super) fn unpack(bytes: &[u8], frame: &mut Frame, access: &Access) {
    let (elements, ty) = (usize::from(access.lanes_of_vector), access.ty);
    let size = ty.bytes() as usize;
    let stride = size * elements;
    for (element, row) in access.rows[..elements].iter().enumerate() {
        let row = usize::from(*row);
        let groups = bytes.chunks_exact(stride).map(|group| &group[element * size..][..size]);
        match size {
            8 => {
                for (lane, raw) in frame.r64[row].iter_mut().zip(groups) {
                    *lane = u64::from_le_bytes([
                        raw[0], raw[1], raw[2], raw[3], raw[4], raw[5], raw[6], raw[7],
                    ]);
                }
            }
            4 => {
                for (lane, raw) in frame.r32[row].iter_mut().zip(groups) {
                    *lane = u32::from_le_bytes([raw[0], raw[1], raw[2], raw[3]]);
                }
            }
            _ => {
                for (lane, raw) in frame.r32[row].iter_mut().zip(groups) {
                    *lane = read_value(raw, ty) as u32;
                }
            }
        }
    }
}

/// Gathers the rows of a full warp into contiguous memory.
#[inline(always)]
pub(super) fn pack(bytes: &mut [u8], frame: &Frame, access: &Access) {
    let (elements, ty) = (usize::from(access.lanes_of_vector), access.ty);
    let size = ty.bytes() as usize;
    let stride = size * elements;
    for (element, row) in access.rows[..elements].iter().enumerate() {
        let row = usize::from(*row);
        let groups =
            bytes.chunks_exact_mut(stride).map(|group| &mut group[element * size..][..size]);
        match size {
            8 => {
                for (lane, raw) in frame.r64[row].iter().zip(groups) {
                    raw.copy_from_slice(&lane.to_le_bytes());
                }
            }
            4 => {
                for (lane, raw) in frame.r32[row].iter().zip(groups) {
                    raw.copy_from_slice(&lane.to_le_bytes());
                }
            }
            _ => {
                for (lane, raw) in frame.r32[row].iter().zip(groups) {
                    write_value(raw, ty, u64::from(*lane));
                }
            }
        }
    }
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
