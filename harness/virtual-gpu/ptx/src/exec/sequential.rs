//! Blocks that run one after the other, until one waits for another.

use super::block::Block;
use super::cooperative::{Resident, Together};
use super::l1_tlb::L1Tlb;
use super::launch::{BlockCounts, Execution, Launch, Timer, check, grid_blocks};
use super::machine::{Machine, raised, refused};
use crate::counts::Counts;
use crate::fault::{FaultKind, KernelFault};
use crate::memory::DeviceMemory;
use crate::program::Program;

/// Runs `blocks` (linear indices) of a launch, one after the other.
///
/// A block that waits for a change of memory runs on beside all blocks of the grid that follow it,
/// at most `resident_blocks` at the same time; the execution then ends with the grid.
///
/// # Errors
/// The first fault; a deadlock if all live threads wait.
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
    let all = grid_blocks(launch);
    for block in blocks {
        machine.counts = Counts::default();
        let done = match block < all {
            true => machine.run_block(&mut warps, function, block),
            false => Err(raised(FaultKind::BadLaunch(format!("block {block} is not in the grid")))),
        };
        let polls = |machine: &Machine<'_, '_, '_>| {
            let changes = machine.memory.changes;
            warps.iter().any(|warp| warp.spinning(changes).is_some())
        };
        if matches!(done, Ok(false)) && launch.limits.resident_blocks > 1 && polls(&machine) {
            let mut together =
                Together::new(function, block + 1..all, launch.limits.resident_blocks);
            let idle = L1Tlb::new(launch.limits.l1_bytes, launch.limits.tlb_pages);
            together.residents.push(Resident {
                linear: block,
                block: std::mem::replace(&mut machine.block, Block::idle()),
                l1_tlb: std::mem::replace(&mut machine.l1_tlb, idle),
                counts: std::mem::take(&mut machine.counts),
                warps,
            });
            return machine.finish_together(together);
        }
        let longest = warps.iter().map(|warp| warp.cycle).max().unwrap_or(0);
        machine.counts.longest_warp_cycles = longest;
        machine.done.counts.add(&machine.counts);
        let stopped = match done {
            Ok(true) => None,
            Ok(false) => Some(machine.stuck(&warps, 0)),
            Err(raised) => Some(raised),
        };
        if let Some(raised) = stopped {
            return Err(Box::new(machine.fault(raised, &warps)));
        }
        let counts = std::mem::take(&mut machine.counts);
        machine.done.blocks.push(BlockCounts { block, counts });
    }
    Ok(machine.into_execution())
}
