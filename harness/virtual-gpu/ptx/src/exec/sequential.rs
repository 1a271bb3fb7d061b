//! Blocks that run one after the other.

use super::launch::{BlockCounts, Execution, Launch, Timer, check, grid_blocks};
use super::machine::{Machine, raised, refused};
use crate::counts::Counts;
use crate::fault::{FaultKind, KernelFault};
use crate::memory::DeviceMemory;
use crate::program::Program;

/// Runs `blocks` (linear indices) of a launch, one after the other.
pub fn execute(
    program: &Program,
    launch: &Launch<'_>,
    blocks: impl IntoIterator<Item = u64>,
    memory: &mut DeviceMemory<'_>,
    timer: &mut dyn Timer,
) -> Result<Execution, Box<KernelFault>> {
    let function = check(program, launch).map_err(|what| Box::new(refused(what)))?;
    let mut machine = Machine::new(program, launch, memory, timer);
    let mut warps = Vec::new();
    for block in blocks {
        machine.counts = Counts::default();
        let done = match block < grid_blocks(launch) {
            true => machine.run_block(&mut warps, function, block),
            false => Err(raised(FaultKind::BadLaunch(format!(
                "block {block} is not in the grid"
            )))),
        };
        let longest = warps.iter().map(|warp| warp.cycle).max().unwrap_or(0);
        machine.counts.longest_warp_cycles = longest;
        machine.done.counts.add(&machine.counts);
        if let Err(raised) = done {
            return Err(Box::new(machine.fault(raised, &warps)));
        }
        let counts = std::mem::take(&mut machine.counts);
        machine.done.blocks.push(BlockCounts { block, counts });
    }
    let mut done = machine.done;
    done.footprint = machine.footprint;
    Ok(done)
}
