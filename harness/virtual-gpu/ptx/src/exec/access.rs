//! Loads and stores of a warp: counts, coalescing, footprint.

use super::address::{addresses, is_contiguous, lanes, sector_bytes};
use super::frame::Frame;
use super::l1_tlb::L1Tlb;
use super::values::{pack, read_value, unpack, write_value};
use crate::counts::Counts;
use crate::fault::FaultKind;
use crate::footprint::Footprint;
use crate::memory::DeviceMemory;
use crate::operands::Access;
use crate::types::Space;
use crate::types::window;

/// Memory that an access of a warp can reach.
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
