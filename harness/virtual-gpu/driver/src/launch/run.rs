//! One launch in execution on the host: all of its blocks, or a sample of them and of the
//! iterations of its loops; and its cost.

use std::sync::OnceLock;

use super::faults::{classify, print, refuse_unwritten, report_endless};
use super::ranges::{Ranges, ranges};
use super::request::{Key, Outcome, kernel_of};
use super::rerun::Clocking;
use super::residence::blocks_per_sm;
use crate::bytes;
use crate::code::Code;
use crate::cost::{self, Part, Shape};
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

/// Memory that a launch accessed, as in [`super::request::Outcome`].
pub(crate) struct Touched {
    pub(crate) reads: Vec<u64>,
    pub(crate) writes: Vec<u64>,
    pub(crate) extents: Vec<(u64, u64)>,
    pub(crate) open: bool,
}

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
            let Some(start) = self.ranges.starts[index] else { continue };
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

/// Where programs are load generators, launches of more lane-instructions than this are sampled. A
/// load generator repeats one launch thousands of times and reads no results; verification launches
/// stay below.
const LOAD_LANE_INSTRUCTIONS: u64 = 6_000_000;

/// Elsewhere launches are executed in full up to so many warp-instructions: a program reads
/// results. It takes a core of the host about ten seconds.
const FULL_WARP_INSTRUCTIONS: u64 = 312_500_000;

/// Warp-instructions after which a launch ends with a fault. A fifth more than a full execution,
/// for the sample of a launch with a first block that reaches that limit.
pub(super) const BUDGET_WARP_INSTRUCTIONS: u64 = FULL_WARP_INSTRUCTIONS / 5 * 6;

/// Launches of at most this many blocks are executed in full: a sample would be no smaller.
pub(super) const SAMPLED_BLOCKS: u64 = 8;

/// Largest relative difference between interior blocks of a launch that is sampled.
const MAX_BLOCK_SPREAD: f64 = 0.05;

/// Which launches are executed in full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Small ones, because the results of others are not read: in virtual time, and in wall time if
    /// the process requests it.
    Load,
    /// All that the host can execute.
    Full,
}

impl Extent {
    /// The extent of a process's launches.
    pub(crate) fn of(process: &Process) -> Self {
        static REQUESTED: OnceLock<bool> = OnceLock::new();
        let requested = || {
            *REQUESTED.get_or_init(|| {
                std::env::var_os(crate::session::SAMPLE_ENV).is_some_and(|value| value == "1")
            })
        };
        if process.device.is_virtual_time() || requested() { Self::Load } else { Self::Full }
    }

    /// Lane-instructions of one of so many blocks after which its loops are extrapolated.
    pub(super) fn extrapolate_after(self, blocks: u64) -> u64 {
        let lanes = match self {
            Self::Load => LOAD_LANE_INSTRUCTIONS,
            Self::Full => FULL_WARP_INSTRUCTIONS * 32,
        };
        lanes / blocks + 1
    }

    /// Whether so many blocks with these counts each are executed in full.
    pub(super) fn holds(self, block: &Counts, blocks: u64) -> bool {
        match self {
            Self::Load => block.lanes().max(1).saturating_mul(blocks) <= LOAD_LANE_INSTRUCTIONS,
            Self::Full => {
                let warps: u64 = block.warp_instructions.iter().sum();
                warps.saturating_mul(blocks) <= FULL_WARP_INSTRUCTIONS
            }
        }
    }

    /// Says that a kernel is not executed in full, where programs expect results.
    pub(super) fn report(self, kernel: &str) {
        if self == Self::Full {
            crate::diagnostics::say_once(&format!(
                "{kernel} is too large to execute in full: a sample is executed, its time is \
                 extrapolated, and reading its outputs is refused"
            ));
        }
    }
}

impl Run<'_> {
    /// Executes a few blocks and scales their counts to the grid; `None` if they differ too much,
    /// or wait for others.
    pub(super) fn sample(
        &mut self,
        first: &Execution,
        blocks: u64,
        timer: &mut dyn Timer,
    ) -> Result<Option<Execution>, Box<KernelFault>> {
        let interior = [blocks / 4, blocks / 2, blocks * 3 / 4];
        let mut done = match self.blocks(interior.into_iter().chain([blocks - 1]), timer) {
            Err(fault) if matches!(fault.kind, FaultKind::Endless { .. }) => return Ok(None),
            done => done?,
        };
        if done.blocks.len() != 4 {
            return Ok(None);
        }
        let lanes: Vec<f64> =
            done.blocks[..3].iter().map(|block| block.counts.lanes() as f64).collect();
        let (min, max) = (
            lanes.iter().copied().fold(f64::MAX, f64::min),
            lanes.iter().copied().fold(0.0, f64::max),
        );
        if max > min * (1.0 + MAX_BLOCK_SPREAD) {
            return Ok(None);
        }
        let mut counts: Counts = first.counts.clone();
        counts.add(&done.blocks[3].counts);
        counts.add_times(&done.blocks[1].counts, blocks - 2);
        done.counts = counts;
        done.footprint.absorb(first.footprint.clone());
        done.blocks.extend(first.blocks.iter().cloned());
        Ok(Some(done))
    }
}
