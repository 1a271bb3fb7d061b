//! The cost of an instruction: counts, budget, cycles of the warp.

use super::access::{LaneFault, warp_memory};
use super::machine::Machine;
use super::warp::Warp;
use crate::code::{FuncCode, Info};
use crate::counts::Class;
use crate::fault::FaultKind;
use crate::operands::Access;

impl Machine<'_, '_, '_> {
    /// Counts an instruction and charges the budget.
    #[inline(always)]
    pub(super) fn account(&mut self, info: &Info, active: u32) -> Result<(), FaultKind> {
        let (class, lanes) = (info.class as usize, u64::from(active.count_ones()));
        self.counts.warp_instructions[class] += 1;
        self.counts.lane_instructions[class] += lanes;
        self.executed += lanes.max(1);
        // Warps are charged and not lanes: the host's time for both is the same.
        match self.budget.checked_sub(1) {
            Some(left) => self.budget = left,
            None => {
                let warp_instructions = self.launch.limits.warp_instructions;
                return Err(FaultKind::LaunchTimeout { warp_instructions });
            }
        }
        Ok(())
    }

    /// Advances the warp's clock past the issue of an instruction and sets when its results are
    /// ready. Further steps of an instruction only pass readiness on. A stall until the first load
    /// since the last wait has returned is a wait for loads.
    #[inline(always)]
    pub(super) fn time(&mut self, warp: &mut Warp, frame: usize, func: &FuncCode, info: &Info) {
        let ready = &mut warp.frames[frame].ready;
        let rows = |(from, to): (u32, u32)| &func.deps[from as usize..to as usize];
        let mut now = if info.counted { warp.cycle } else { 0 };
        for row in rows(info.reads) {
            now = now.max(ready[*row as usize]);
        }
        let mut done = now;
        if info.counted {
            if now > warp.cycle && now >= warp.load_returns {
                let most = &mut self.counts.most_loading_bytes;
                *most = (*most).max(std::mem::take(&mut warp.loading_bytes));
                warp.load_returns = u64::MAX;
            }
            let model = self.launch.model;
            let class = info.class as usize;
            warp.cycle = now.saturating_add(u64::from(model.issue_cycles[class]));
            done = now.saturating_add(u64::from(model.latency_cycles[class]));
        }
        for row in rows(info.writes) {
            ready[*row as usize] = done;
        }
    }

    /// Runs a load. `time` assumed L2 latency; results are ready earlier after an L1 hit.
    #[inline(always)]
    pub(super) fn load(
        &mut self,
        warp: &mut Warp,
        frame: usize,
        access: &Access,
        active: u32,
        (func, info): (&FuncCode, &Info),
    ) -> Result<(), LaneFault> {
        let before = self.counts.load_sector_bytes;
        warp_memory!(self, warp, frame, memory, registers);
        memory.load(registers, access, active)?;
        let (from, to) = info.writes;
        let rows = &func.deps[from as usize..to as usize];
        if !std::mem::take(&mut self.l1_tlb.hit) {
            if info.class == Class::LoadGlobal
                && let Some(row) = rows.first()
            {
                let returns = warp.frames[frame].ready[*row as usize];
                warp.load_returns = warp.load_returns.min(returns);
                warp.loading_bytes += self.counts.load_sector_bytes - before;
            }
            return Ok(());
        }
        let model = self.launch.model;
        let l2_cycles = model.latency_cycles[info.class as usize];
        let less = u64::from(l2_cycles.saturating_sub(model.l1_hit_cycles));
        for row in rows {
            let ready = &mut warp.frames[frame].ready[*row as usize];
            *ready = ready.saturating_sub(less);
        }
        Ok(())
    }
}
