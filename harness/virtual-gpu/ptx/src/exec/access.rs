//! Loads and stores of a warp: addresses, faults, coalescing, footprint.

use super::super::counts::Counts;
use super::super::fault::FaultKind;
use super::super::footprint::Footprint;
use super::super::inst::{Access, NO_ROW, Row};
use super::super::memory::DeviceMemory;
use super::super::types::{Space, Ty, window};
use super::frame::Frame;
use super::near::Near;

/// Bytes of a DRAM and L2 sector (CUDA C++ Best Practices Guide, "Coalesced Access").
const SECTOR_BYTES: u64 = 32;

/// Everything that an access can reach.
pub(crate) struct Reach<'m, 'a, 'b> {
    pub memory: &'m mut DeviceMemory<'a>,
    pub footprint: &'m mut Footprint,
    pub counts: &'m mut Counts,
    pub shared: &'m mut [u8],
    pub near: &'m mut Near,
    pub local: &'m mut [u8],
    pub local_stride: u32,
    pub params: &'b [u8],
}

/// A fault and the lane that had it.
pub(crate) type LaneFault = (usize, FaultKind);

/// Where one lane's access lands.
enum Spot {
    Global(u64),
    Shared(usize),
    Local(usize),
    Param(usize),
}

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

/// Whether all lanes access memory one after the other without gaps.
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

/// The value of `ty` at the start of `bytes`, extended to its row.
#[inline(always)]
pub(crate) fn read_value(bytes: &[u8], ty: Ty) -> u64 {
    let mut raw = [0u8; 8];
    let size = ty.bytes() as usize;
    raw[..size].copy_from_slice(&bytes[..size]);
    let value = u64::from_le_bytes(raw);
    if ty.bytes() < 4 {
        u64::from(super::bits::extend(value as u32, ty))
    } else {
        value
    }
}

#[inline(always)]
pub(crate) fn write_value(bytes: &mut [u8], ty: Ty, value: u64) {
    let size = ty.bytes() as usize;
    bytes[..size].copy_from_slice(&value.to_le_bytes()[..size]);
}

impl Reach<'_, '_, '_> {
    /// Runs a load.
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
            if let Ok(place) = self.memory.locate(all[0], total, false) {
                self.footprint.mark(place.range, place.offset, total, false);
                unpack(self.memory.bytes(place, total as usize), frame, access);
                return Ok(());
            }
        }
        // One address for all lanes, as scalars and broadcasts have it: one read serves them.
        let one = access.space != Space::Local && active == u32::MAX && is_contiguous(&all, 0);
        let broadcast = one && all[0] < window::CODE_BASE;
        let readers = if broadcast { 1 } else { active };
        for lane in lanes(readers) {
            let addr = all[lane];
            let spot = self
                .spot(access.space, lane, addr, size, false)
                .map_err(|kind| (lane, kind))?;
            let bytes = self.bytes(spot, size).map_err(|kind| (lane, kind))?;
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

    /// Runs a store.
    pub(crate) fn store(
        &mut self,
        frame: &Frame,
        access: &Access,
        active: u32,
    ) -> Result<(), LaneFault> {
        let all = addresses(frame, access.base, access.offset);
        let (elements, ty) = (usize::from(access.lanes_of_vector), access.ty);
        let size = u64::from(ty.bytes()) * elements as u64;
        let device = self.count(access, &all, active, size, true);
        if device && active == u32::MAX && all[0].is_multiple_of(size) && is_contiguous(&all, size)
        {
            let total = 32 * size;
            if let Ok(place) = self.memory.locate(all[0], total, true) {
                self.footprint.mark(place.range, place.offset, total, true);
                pack(self.memory.bytes_mut(place, total as usize), frame, access);
                return Ok(());
            }
        }
        for lane in lanes(active) {
            let addr = all[lane];
            let spot = self
                .spot(access.space, lane, addr, size, true)
                .map_err(|kind| (lane, kind))?;
            let bytes = self.bytes_mut(spot, size).map_err(|kind| (lane, kind))?;
            for element in 0..elements {
                let value = frame.lane(ty.is_wide(), access.rows[element], lane);
                write_value(&mut bytes[element * ty.bytes() as usize..], ty, value);
            }
        }
        Ok(())
    }

    /// Counts an access to device memory; false when no lane of it goes there.
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
            // The constant cache serves these; they are no traffic of the memory system.
            Space::Const => return true,
            Space::Global => {}
            Space::Generic => {
                for lane in lanes(active).filter(|lane| all[*lane] >= window::CODE_BASE) {
                    device &= !(1 << lane);
                }
                let near = (active & !device).count_ones();
                self.counts.shared_bytes += u64::from(near) * size;
            }
            Space::Shared | Space::Local => {
                self.counts.shared_bytes += u64::from(active.count_ones()) * size;
                return false;
            }
            Space::Param => return false,
        }
        let requested = u64::from(device.count_ones()) * size;
        let sectors = sector_bytes(all, device);
        let mut places = *all;
        self.place_near(&mut places, device);
        let reached = || lanes(device).map(|lane| places[lane]);
        let counts = &mut *self.counts;
        counts.translations += self.near.translate(reached());
        if access.cached {
            counts.l1_hit_bytes += self.near.load(reached());
        }
        if write {
            counts.requested_store_bytes += requested;
            counts.store_sector_bytes += sectors;
        } else {
            counts.requested_load_bytes += requested;
            counts.load_sector_bytes += sectors;
        }
        device != 0
    }

    /// Turns the lanes' addresses into those that caches take them to have.
    #[inline]
    pub(crate) fn place_near(&mut self, all: &mut [u64; 32], device: u32) {
        for lane in lanes(device) {
            all[lane] = self.memory.near(all[lane]);
        }
    }

    /// Resolves one lane's address; alignment comes first, as on the device.
    #[inline]
    fn spot(
        &mut self,
        space: Space,
        lane: usize,
        addr: u64,
        size: u64,
        write: bool,
    ) -> Result<Spot, FaultKind> {
        if !addr.is_multiple_of(size) {
            return Err(FaultKind::Misaligned {
                addr,
                bytes: size as u32,
            });
        }
        let in_window = |base: u64| {
            let offset = addr.wrapping_sub(base);
            (offset < window::WINDOW_BYTES).then_some(offset)
        };
        match space {
            Space::Global | Space::Const if addr >= window::CODE_BASE => {
                Err(FaultKind::InvalidAddressSpace { addr })
            }
            Space::Global | Space::Const => Ok(Spot::Global(addr)),
            Space::Generic => match (
                in_window(window::SHARED_BASE),
                in_window(window::LOCAL_BASE),
            ) {
                (Some(offset), _) => self.shared_spot(offset, size),
                (_, Some(offset)) => self.local_spot(lane, offset, size, write),
                _ => Ok(Spot::Global(addr)),
            },
            Space::Shared => self.shared_spot(addr, size),
            Space::Local => self.local_spot(lane, addr, size, write),
            Space::Param => match addr.checked_add(size) {
                Some(end) if end <= self.params.len() as u64 => Ok(Spot::Param(addr as usize)),
                _ => Err(FaultKind::IllegalAddress { addr, write }),
            },
        }
    }

    fn shared_spot(&self, offset: u64, size: u64) -> Result<Spot, FaultKind> {
        let bytes = self.shared.len() as u64;
        match offset.checked_add(size) {
            Some(end) if end <= bytes => Ok(Spot::Shared(offset as usize)),
            _ => Err(FaultKind::SharedOutOfRange {
                offset,
                bytes: bytes as u32,
            }),
        }
    }

    fn local_spot(
        &self,
        lane: usize,
        offset: u64,
        size: u64,
        write: bool,
    ) -> Result<Spot, FaultKind> {
        let stride = u64::from(self.local_stride);
        match offset.checked_add(size) {
            Some(end) if end <= stride => Ok(Spot::Local(
                lane * self.local_stride as usize + offset as usize,
            )),
            _ => {
                let addr = window::LOCAL_BASE.wrapping_add(offset);
                Err(FaultKind::IllegalAddress { addr, write })
            }
        }
    }

    #[inline]
    fn bytes(&mut self, spot: Spot, size: u64) -> Result<&[u8], FaultKind> {
        let len = size as usize;
        match spot {
            Spot::Global(addr) => {
                let place = self.memory.locate(addr, size, false)?;
                self.footprint.mark(place.range, place.offset, size, false);
                Ok(self.memory.bytes(place, len))
            }
            Spot::Shared(at) => Ok(&self.shared[at..at + len]),
            Spot::Local(at) => Ok(&self.local[at..at + len]),
            Spot::Param(at) => Ok(&self.params[at..at + len]),
        }
    }

    #[inline]
    fn bytes_mut(&mut self, spot: Spot, size: u64) -> Result<&mut [u8], FaultKind> {
        let len = size as usize;
        match spot {
            Spot::Global(addr) => {
                let place = self.memory.locate(addr, size, true)?;
                self.footprint.mark(place.range, place.offset, size, true);
                Ok(self.memory.bytes_mut(place, len))
            }
            Spot::Shared(at) => Ok(&mut self.shared[at..at + len]),
            Spot::Local(at) => Ok(&mut self.local[at..at + len]),
            // The decoder refuses stores to parameters.
            Spot::Param(at) => Err(FaultKind::InvalidAddressSpace { addr: at as u64 }),
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
        match self.spot(space, lane, addr, size, true)? {
            Spot::Local(_) => Err(FaultKind::InvalidAddressSpace { addr }),
            spot => self.bytes_mut(spot, size),
        }
    }

    /// Reads bytes at a generic address, as the built-in functions do.
    pub(crate) fn read_generic(
        &mut self,
        lane: usize,
        addr: u64,
        size: u64,
    ) -> Result<u64, FaultKind> {
        let spot = self.spot(Space::Generic, lane, addr, size, false)?;
        let bytes = self.bytes(spot, size)?;
        let mut raw = [0u8; 8];
        raw[..size as usize].copy_from_slice(bytes);
        Ok(u64::from_le_bytes(raw))
    }
}

/// Spreads contiguous memory over the rows of a full warp.
#[inline(always)]
fn unpack(bytes: &[u8], frame: &mut Frame, access: &Access) {
    let (elements, ty) = (usize::from(access.lanes_of_vector), access.ty);
    let size = ty.bytes() as usize;
    let stride = size * elements;
    for (element, row) in access.rows[..elements].iter().enumerate() {
        let row = usize::from(*row);
        let groups = bytes
            .chunks_exact(stride)
            .map(|group| &group[element * size..][..size]);
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
fn pack(bytes: &mut [u8], frame: &Frame, access: &Access) {
    let (elements, ty) = (usize::from(access.lanes_of_vector), access.ty);
    let size = ty.bytes() as usize;
    let stride = size * elements;
    for (element, row) in access.rows[..elements].iter().enumerate() {
        let row = usize::from(*row);
        let groups = bytes
            .chunks_exact_mut(stride)
            .map(|group| &mut group[element * size..][..size]);
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
