//! Executes a launch on the host and computes its cost.

use super::clocking::Clocking;
use super::faults::{classify, print, report_endless};
use super::kernel::kernel_of;
use super::outcome::Outcome;
use super::ranges::ranges;
use super::request::Key;
use super::residence::blocks_per_sm;
use super::run::{Run, Touched};
use crate::code::Code;
use crate::cost::{self, Shape};
use crate::entries::FunctionEntry;
use crate::process::Process;
use gpubench_virtual_gpu_model::machine::Machine;
use gpubench_virtual_gpu_ptx::Execution;

/// Executes a launch with a clock and computes its cost. `pointees` are the allocations that its
/// arguments point to, in their order.
pub fn execute(
    process: &Process,
    function: &FunctionEntry,
    key: &Key,
    pointees: &[u64],
    clocking: &Clocking,
) -> Result<Outcome, Code> {
    let machine = process.device.machine();
    let kernel = kernel_of(function)?;
    let model = cost::cycle_model(machine);
    let threads = key.block.iter().product::<u32>();
    let shared = u64::from(kernel.static_shared_bytes) + u64::from(key.shared_bytes);
    let per_sm = u64::from(blocks_per_sm(machine, kernel, threads, shared).max(1));
    let blocks: u64 = key.grid.iter().map(|&side| u64::from(side)).product();
    let part = process.part(key.context, &key.placement)?;
    let resident = per_sm.min(blocks.div_ceil(u64::from(part.sm_count.max(1))));
    let mut run = Run {
        process,
        function,
        key,
        model: &model,
        per_sm,
        l1_bytes: l1_bytes(machine, shared, resident),
        part,
        ranges: ranges(process, key.context, pointees)?,
        block_ns: 0,
        extrapolate_after: None,
    };
    let by_clock = matches!(clocking, Clocking::Ideal)
        && !key.cooperative
        && kernel.properties.reads_globaltimer
        && run.ends_by_the_clock()?;
    let (execution, sampled, fault) = loop {
        let done = run.all(blocks, &mut clocking.clone());
        let (execution, sampled) = match done {
            Ok(done) => done,
            Err(fault) => {
                report_endless(&function.name, &fault);
                let (fault, counts) = classify(*fault, &run.ranges.ended)?;
                let execution = Execution { counts, ..Execution::default() };
                break (execution, false, Some(fault));
            }
        };
        if sampled || !run.fills_skipped(&execution)? {
            break (execution, sampled, None);
        }
    };
    print(&execution.printed);
    let Touched { reads, writes, extents, open } = run.touched(&execution);
    let shape =
        Shape { blocks, blocks_per_sm: per_sm, footprint_bytes: run.footprint(&execution, blocks) };
    let cost = cost::cost(machine, &run.part, &execution.counts, &shape);
    Ok(Outcome {
        cost,
        by_clock,
        reads,
        writes,
        extents,
        sampled,
        // Executed atomics count: many kernels have one on a path that is never taken.
        uses_atomics: execution.counts.atomics > 0,
        open,
        printed: !execution.printed.is_empty(),
        fault,
    })
}

/// L1 bytes for each resident block of a launch: what the shared memory of the blocks leaves of the
/// SM's on-chip memory (one store since Volta). Other launches on the SM are ignored.
fn l1_bytes(machine: &Machine, shared_bytes: u64, resident: u64) -> u64 {
    let store = u64::from(machine.gpu.l1_per_sm_kib) << 10;
    store.saturating_sub(shared_bytes * resident) / resident.max(1)
}
