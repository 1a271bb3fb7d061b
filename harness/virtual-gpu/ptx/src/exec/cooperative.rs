//! Cooperative launches: all blocks are resident and can wait for each other, so they alternate.

use super::block::Block;
use super::l1_tlb::L1Tlb;
use super::launch::{BlockCounts, Execution, Launch, Timer, check, grid_blocks};
use super::machine::{Machine, Raised, refused};
use super::warp::Warp;
use crate::counts::Counts;
use crate::fault::KernelFault;
use crate::memory::DeviceMemory;
use crate::program::Program;

/// Steps that a warp runs before the next warp. A small number, because a block that polls for the
/// others executes instructions, which count.
const STEPS: u32 = 64;

/// A block that is not running.
struct Resident {
    linear: u64,
    block: Block,
    l1_tlb: L1Tlb,
    counts: Counts,
    warps: Vec<Warp>,
}

/// Runs all blocks of a launch concurrently.
///
/// # Errors
/// The first fault; a deadlock if all live blocks wait at barriers.
pub fn execute_cooperative(
    program: &Program,
    launch: &Launch<'_>,
    memory: &mut DeviceMemory<'_>,
    timer: &mut dyn Timer,
) -> Result<Execution, Box<KernelFault>> {
    let function = check(program, launch).map_err(|what| Box::new(refused(what)))?;
    let mut machine = Machine::new(program, launch, memory, timer);
    machine.warp_steps = STEPS;
    let mut residents = Vec::new();
    for linear in 0..grid_blocks(launch) {
        let mut warps = Vec::new();
        machine.counts = Counts::default();
        machine.start_block(&mut warps, function, linear);
        let l1_tlb = L1Tlb::new(launch.limits.l1_bytes, launch.limits.tlb_pages);
        residents.push(Resident {
            linear,
            block: std::mem::replace(&mut machine.block, Block::idle()),
            l1_tlb,
            counts: std::mem::take(&mut machine.counts),
            warps,
        });
    }
    if let Err((raised, at)) = machine.alternate(&mut residents) {
        machine.gather(&mut residents);
        machine.block = std::mem::replace(&mut residents[at].block, Block::idle());
        return Err(Box::new(machine.fault(raised, &residents[at].warps)));
    }
    machine.gather(&mut residents);
    let mut done = machine.done;
    done.footprint = machine.footprint;
    Ok(done)
}

impl Machine<'_, '_, '_> {
    /// Alternates between the blocks until all have ended. A fault comes with the index of its
    /// block.
    fn alternate(&mut self, residents: &mut [Resident]) -> Result<(), (Raised, usize)> {
        loop {
            let mut progressed = false;
            let mut first_left = None;
            for (at, resident) in residents.iter_mut().enumerate() {
                if resident.block.live_threads == 0 {
                    continue;
                }
                self.exchange(resident);
                let ran = self.round(&mut resident.warps);
                self.exchange(resident);
                progressed |= ran.map_err(|raised| (raised, at))?;
                if resident.block.live_threads > 0 {
                    first_left = first_left.or(Some(at));
                }
            }
            match first_left {
                None => return Ok(()),
                Some(at) if !progressed => return Err((self.stuck(&residents[at].warps), at)),
                Some(_) => {}
            }
        }
    }

    /// Swaps a block in or out of the machine.
    fn exchange(&mut self, resident: &mut Resident) {
        std::mem::swap(&mut self.block, &mut resident.block);
        std::mem::swap(&mut self.l1_tlb, &mut resident.l1_tlb);
        std::mem::swap(&mut self.counts, &mut resident.counts);
    }

    /// Adds up the counts of the blocks.
    fn gather(&mut self, residents: &mut [Resident]) {
        for resident in residents {
            let cycles = resident.warps.iter().map(|warp| warp.cycle);
            resident.counts.longest_warp_cycles = cycles.max().unwrap_or(0);
            self.done.counts.add(&resident.counts);
            self.done.blocks.push(BlockCounts {
                block: resident.linear,
                counts: std::mem::take(&mut resident.counts),
            });
        }
    }
}
