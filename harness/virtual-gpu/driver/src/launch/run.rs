//! One launch in execution: all of its blocks, or a sample of them.

use super::clocking::Clocking;
use super::faults::{classify, refuse_unwritten};
use super::kernel::kernel_of;
use super::ranges::Ranges;
use super::request::Key;
use super::sampling::{BUDGET_WARP_INSTRUCTIONS, Extent, SAMPLED_BLOCKS};
use crate::bytes;
use crate::code::Code;
use crate::cost::Part;
use crate::entries::FunctionEntry;
use crate::process::Process;
use gpubench_virtual_gpu_model::machine::Machine;
use gpubench_virtual_gpu_ptx::{
    Counts, CycleModel, DeviceMemory, Execution, FaultKind, KernelFault, Launch, Limits, Program,
    Timer,
};

/// The ideal clock at four times the rate: a kernel that ends earlier under it ends by the clock.
pub(crate) struct Fast;

impl Timer for Fast {
    fn globaltimer_ns(&mut self, active_ns: u64) -> u64 {
        active_ns * 4
    }
}

/// Memory that a launch accessed, as in [`super::outcome::Outcome`].
pub(crate) struct Touched {
    pub(crate) reads: Vec<u64>,
    pub(crate) writes: Vec<u64>,
    pub(crate) extents: Vec<(u64, u64)>,
    pub(crate) open: bool,
}

/// One launch being executed.
pub(crate) struct Run<'a> {
    pub(crate) process: &'a Process,
    pub(crate) function: &'a FunctionEntry,
    pub(crate) key: &'a Key,
    pub(crate) model: &'a CycleModel,
    pub(crate) per_sm: u64,
    /// L1 bytes that a block has.
    pub(crate) l1_bytes: u64,
    pub(crate) part: Part,
    pub(crate) ranges: Ranges<'static>,
    /// Duration of a block: later waves start after it.
    pub(crate) block_ns: u64,
    /// Lane-instructions after which loops are extrapolated; `None` executes all.
    pub(crate) extrapolate_after: Option<u64>,
}

impl Run<'_> {
    /// Executes some blocks one after the other; all that follow too, if one waits for others.
    pub(super) fn blocks(
        &mut self,
        blocks: impl IntoIterator<Item = u64>,
        timer: &mut dyn Timer,
    ) -> Result<Execution, Box<KernelFault>> {
        self.with_launch(|program, launch, memory| {
            gpubench_virtual_gpu_ptx::execute(program, launch, blocks, memory, timer)
        })
    }

    /// Executes all blocks at the same time.
    fn cooperative(&mut self, timer: &mut dyn Timer) -> Result<Execution, Box<KernelFault>> {
        self.with_launch(|program, launch, memory| {
            gpubench_virtual_gpu_ptx::execute_cooperative(program, launch, memory, timer)
        })
    }

    fn with_launch<T>(
        &mut self,
        execute: impl FnOnce(&Program, &Launch<'_>, &mut DeviceMemory<'static>) -> T,
    ) -> T {
        let (first, sms) = (self.part.sm_first, u64::from(self.part.sm_count.max(1)));
        let (wave, block_ns) = (sms * self.per_sm, self.block_ns);
        // A kernel that reads `%globaltimer` is executed several times, which its blocks could tell
        // from what they leave for each other.
        let reads_clock = kernel_of(self.function).is_ok_and(|k| k.properties.reads_globaltimer);
        let launch = Launch {
            kernel: &self.key.name,
            grid: self.key.grid,
            block: self.key.block,
            dynamic_shared_bytes: self.key.shared_bytes,
            params: &self.key.params,
            block_smid: &|block| first + (block % sms) as u32,
            block_start_ns: &|block| block / wave * block_ns,
            sm_count: self.part.sm_count,
            limits: Limits {
                warp_instructions: BUDGET_WARP_INSTRUCTIONS,
                resident_blocks: if reads_clock { 1 } else { wave },
                l1_bytes: self.l1_bytes,
                tlb_pages: tlb_pages(self.process.device.machine()),
                extrapolate_after: self.extrapolate_after,
                ..Limits::default()
            },
            model: self.model,
        };
        execute(&self.function.program, &launch, &mut self.ranges.memory)
    }

    /// Whether the first block takes less active time when the clock runs faster.
    pub(super) fn ends_by_the_clock(&mut self) -> Result<bool, Code> {
        let cycles = |done: Result<Execution, Box<KernelFault>>| match done {
            Ok(execution) => Ok(execution.counts.longest_warp_cycles),
            Err(fault) => classify(*fault, &[]).map(|(_, counts)| counts.longest_warp_cycles),
        };
        let slow = cycles(self.blocks([0], &mut Clocking::Ideal))?;
        let fast = cycles(self.blocks([0], &mut Fast))?;
        Ok((fast as f64) < 0.7 * slow as f64)
    }

    /// Executes the launch, in full or on a sample. The flag is set for launches too large to
    /// execute every time: their results are undefined.
    pub(super) fn all(
        &mut self,
        blocks: u64,
        timer: &mut dyn Timer,
    ) -> Result<(Execution, bool), Box<KernelFault>> {
        if self.key.cooperative {
            return Ok((self.cooperative(timer)?, false));
        }
        // A launch is sampled if its first block exceeds its share of the limit.
        let extent = Extent::of(self.process);
        self.extrapolate_after = (!self.ranges.points_at_open(&self.key.params))
            .then(|| extent.extrapolate_after(blocks));
        let mut first = self.blocks([0], timer)?;
        if first.blocks.len() > 1 {
            return self.all_at_once(first);
        }
        self.block_ns =
            first.counts.longest_warp_cycles * 1000 / u64::from(self.model.clock_mhz.max(1));
        // Memory that other processes or the host read is always written in full.
        let in_full = extent.holds(&first.counts, blocks) || self.writes_open(&first);
        if in_full && first.extrapolated_lanes > 0 {
            // No argument points there: the kernel loaded the address.
            let what = "it writes to memory that others read, after extrapolated iterations";
            return Err(self.refused(what, first.counts));
        }
        self.extrapolate_after = self.extrapolate_after.filter(|_| !in_full).map(|_| 0);
        if !in_full {
            extent.report(&self.key.name);
        }
        // With few blocks, all are executed once.
        if !in_full
            && blocks > SAMPLED_BLOCKS
            && let Some(sampled) = self.sample(&first, blocks, timer)?
        {
            if self.writes_open(&sampled) {
                let what = "only some of its blocks write to memory that others read";
                return Err(self.refused(what, sampled.counts));
            }
            return Ok((sampled, true));
        }
        let rest = self.blocks(1..blocks, timer)?;
        first.counts.add(&rest.counts);
        first.blocks.extend(rest.blocks);
        first.printed.extend(rest.printed);
        first.footprint.absorb(rest.footprint);
        Ok((first, !in_full))
    }

    /// The result of a launch with blocks that wait for each other: all of them have run.
    fn all_at_once(&self, done: Execution) -> Result<(Execution, bool), Box<KernelFault>> {
        let extrapolated = done.extrapolated_lanes > 0;
        if extrapolated && self.writes_open(&done) {
            let what = "it writes to memory that others read, after extrapolated iterations";
            return Err(self.refused(what, done.counts));
        }
        Ok((done, extrapolated))
    }

    fn refused(&self, what: &str, counts: Counts) -> Box<KernelFault> {
        Box::new(KernelFault {
            kind: FaultKind::BadLaunch(what.to_owned()),
            function: self.key.name.clone(),
            line: 0,
            block: [0; 3],
            thread: [0; 3],
            counts,
            printed: Vec::new(),
        })
    }

    pub(super) fn touched(&self, execution: &Execution) -> Touched {
        let footprint = &execution.footprint;
        let (read, written) = (footprint.read_ranges(), footprint.written_ranges());
        let starts = &self.ranges.starts;
        let of = |indices: &[usize]| indices.iter().filter_map(|&index| starts[index]).collect();
        let known = written.iter().filter(|index| starts[**index].is_some());
        Touched {
            reads: of(&read),
            writes: of(&written),
            extents: known.map(|index| footprint.extent(*index)).collect(),
            open: read.iter().chain(&written).any(|&index| self.ranges.open[index]),
        }
    }

    /// Carries out skipped fills of memory that a full execution read. True if there were any: the
    /// execution is then repeated, so what it has done must not depend on the bytes that it read.
    pub(super) fn fills_skipped(&self, execution: &Execution) -> Result<bool, Code> {
        let footprint = &execution.footprint;
        let properties = kernel_of(self.function)?.properties;
        let written = footprint.written_ranges();
        let mut must_repeat = false;
        for index in footprint.read_ranges() {
            let Some(start) = self.ranges.starts[index] else {
                continue;
            };
            let unwritten = {
                let tables = self.process.tables();
                let entry = tables.allocations.get(&start);
                entry.is_some_and(|allocation| allocation.unwritten)
            };
            if !unwritten {
                continue;
            }
            let repeatable = !properties.data_dependent
                && execution.counts.atomics == 0
                && execution.printed.is_empty()
                && !written.contains(&index);
            let filled = bytes::make_good(self.process, start, footprint.extent(index))?;
            match filled {
                Some(false) => {}
                Some(true) if repeatable => must_repeat = true,
                _ => return Err(refuse_unwritten(&self.function.name, start)),
            }
        }
        Ok(must_repeat)
    }

    fn writes_open(&self, execution: &Execution) -> bool {
        let mut written = execution.footprint.written_ranges().into_iter();
        written.any(|index| self.ranges.open[index])
    }

    /// Bytes that the whole grid accesses: those of the executed blocks, scaled to the grid, at
    /// most the size of the allocations.
    pub(super) fn footprint(&self, execution: &Execution, blocks: u64) -> u64 {
        let executed = execution.blocks.len().max(1) as u64;
        let scaled = execution.footprint.bytes().saturating_mul(blocks) / executed.min(blocks);
        let mut touched = execution.footprint.read_ranges();
        touched.extend(execution.footprint.written_ranges());
        touched.sort_unstable();
        touched.dedup();
        let limit: u64 = touched.iter().map(|&index| self.ranges.bytes[index]).sum();
        scaled.min(limit)
    }
}

/// Large pages in the TLB of an SM.
pub(crate) fn tlb_pages(machine: &Machine) -> u32 {
    machine.memory.sm_tlb_mib / 2
}
