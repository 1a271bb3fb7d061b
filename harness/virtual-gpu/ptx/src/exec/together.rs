//! Blocks that are on the device at the same time, as those of a cooperative launch are: they may
//! wait for each other, so they take turns.

use super::super::program::Program;
use super::block::Block;
use super::frame::Warp;
use super::near::Near;
use super::{
    BlockCounts, Counts, DeviceMemory, Execution, KernelFault, Launch, Machine, Raised, Timer,
    check, grid_blocks, refused,
};

/// Steps that a warp takes before others get a turn. Few, because a block that waits for the others
/// asks again and again, and what it does meanwhile counts.
const STEPS: u32 = 64;

/// One block between its turns.
struct Place {
    linear: u64,
    block: Block,
    near: Near,
    counts: Counts,
    warps: Vec<Warp>,
}

/// Runs all blocks of a launch together.
///
/// # Errors
/// The first fault; also when all that are left wait at barriers.
pub fn execute_together(
    program: &Program,
    launch: &Launch<'_>,
    memory: &mut DeviceMemory<'_>,
    timer: &mut dyn Timer,
) -> Result<Execution, Box<KernelFault>> {
    let function = check(program, launch).map_err(|what| Box::new(refused(what)))?;
    let mut machine = Machine::new(program, launch, memory, timer);
    machine.warp_steps = STEPS;
    let mut places = Vec::new();
    for linear in 0..grid_blocks(launch) {
        let mut warps = Vec::new();
        machine.counts = Counts::default();
        machine.start_block(&mut warps, function, linear);
        let near = Near::new(launch.limits.l1_bytes, launch.limits.tlb_pages);
        places.push(Place {
            linear,
            block: std::mem::replace(&mut machine.block, Block::idle()),
            near,
            counts: std::mem::take(&mut machine.counts),
            warps,
        });
    }
    if let Err((raised, at)) = machine.take_turns(&mut places) {
        machine.gather(&mut places);
        machine.block = std::mem::replace(&mut places[at].block, Block::idle());
        return Err(Box::new(machine.fault(raised, &places[at].warps)));
    }
    machine.gather(&mut places);
    let mut done = machine.done;
    done.footprint = machine.footprint;
    Ok(done)
}

impl Machine<'_, '_, '_> {
    /// Lets the blocks take turns until all have ended. A fault comes with the place of its block.
    fn take_turns(&mut self, places: &mut [Place]) -> Result<(), (Raised, usize)> {
        loop {
            let mut progressed = false;
            let mut first_left = None;
            for (at, place) in places.iter_mut().enumerate() {
                if place.block.live_threads == 0 {
                    continue;
                }
                self.exchange(place);
                let ran = self.round(&mut place.warps);
                self.exchange(place);
                progressed |= ran.map_err(|raised| (raised, at))?;
                if place.block.live_threads > 0 {
                    first_left = first_left.or(Some(at));
                }
            }
            match first_left {
                None => return Ok(()),
                Some(at) if !progressed => return Err((self.stuck(&places[at].warps), at)),
                Some(_) => {}
            }
        }
    }

    /// Puts a block on the machine, or takes it off again.
    fn exchange(&mut self, place: &mut Place) {
        std::mem::swap(&mut self.block, &mut place.block);
        std::mem::swap(&mut self.near, &mut place.near);
        std::mem::swap(&mut self.counts, &mut place.counts);
    }

    /// Adds up what the blocks did. Which of them was first to touch a line is not told apart: the
    /// first block has them all.
    fn gather(&mut self, places: &mut [Place]) {
        let mut touched = self.footprint.bytes();
        for place in places {
            let cycles = place.warps.iter().map(|warp| warp.cycle);
            place.counts.longest_warp_cycles = cycles.max().unwrap_or(0);
            self.done.counts.add(&place.counts);
            if self.launch.keep_blocks {
                self.done.blocks.push(BlockCounts {
                    block: place.linear,
                    counts: std::mem::take(&mut place.counts),
                    new_footprint_bytes: std::mem::take(&mut touched),
                });
            }
        }
    }
}
