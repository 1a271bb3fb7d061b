//! Special registers and clocks.

use super::machine::Machine;
use super::warp::Warp;
use crate::ops::Special;
use crate::program::Row32;
use crate::types::Space;
use crate::types::window;

impl Machine<'_, '_, '_> {
    /// A 32-bit special register of all lanes (PTX ISA, "Special Registers").
    pub(super) fn special32(&mut self, warp: &mut Warp, which: Special) -> Row32 {
        let by_lane = |value: fn(u32) -> u32| std::array::from_fn(|lane| value(lane as u32));
        let axis = |axis: u8| usize::from(axis.min(2));
        let value = match which {
            Special::Tid(at) => return warp.tid[axis(at)],
            Special::Laneid => return by_lane(|lane| lane),
            Special::LanemaskEq => return by_lane(|lane| 1 << lane),
            Special::LanemaskLt => return by_lane(|lane| (1 << lane) - 1),
            Special::LanemaskLe => return by_lane(|lane| u32::MAX >> (31 - lane)),
            Special::LanemaskGe => return by_lane(|lane| u32::MAX << lane),
            Special::LanemaskGt => return by_lane(|lane| !(u32::MAX >> (31 - lane))),
            Special::Ntid(at) => self.launch.block[axis(at)],
            Special::Ctaid(at) => self.block.index[axis(at)],
            Special::Nctaid(at) => self.launch.grid[axis(at)],
            Special::Warpid => warp.index,
            Special::Nwarpid => self.block.threads.div_ceil(32),
            Special::Smid => self.block.smid,
            Special::Nsmid => self.launch.sm_count,
            Special::DynamicSharedBytes => self.launch.dynamic_shared_bytes,
            Special::TotalSharedBytes => self.block.shared.len() as u32,
            Special::Clock => self.clock(warp) as u32,
            Special::ClockHi => (self.clock(warp) >> 32) as u32,
            Special::GlobaltimerLo => self.globaltimer(warp) as u32,
            Special::GlobaltimerHi => (self.globaltimer(warp) >> 32) as u32,
            // Read through 64-bit moves only.
            Special::Gridid | Special::Clock64 | Special::Globaltimer => 0,
        };
        [value; 32]
    }

    /// Cycles of the SM: those before the block started, and the warp's own.
    pub(super) fn clock(&mut self, warp: &Warp) -> u64 {
        // A loop that reads a clock can end by it.
        self.memory.changes += 1;
        self.block.start_cycle.saturating_add(warp.cycle)
    }

    /// The global clock after the warp's active time.
    pub(super) fn globaltimer(&mut self, warp: &mut Warp) -> u64 {
        self.memory.changes += 1;
        let model = self.launch.model;
        warp.cycle = warp.cycle.saturating_add(u64::from(model.globaltimer_cycles));
        let active_ns = self.block.start_ns.saturating_add(model.cycles_to_ns(warp.cycle));
        self.timer.globaltimer_ns(active_ns)
    }
}

/// Whether a generic address lies in `space`.
pub(super) fn is_in(space: Space, addr: u64) -> bool {
    let within = |base: u64| addr.wrapping_sub(base) < window::WINDOW_BYTES;
    match space {
        Space::Shared => within(window::SHARED_BASE),
        Space::Local => within(window::LOCAL_BASE),
        Space::Global => addr < window::CODE_BASE,
        // Constants lie in device memory; their addresses are not distinguishable.
        Space::Const | Space::Param | Space::Generic => false,
    }
}
