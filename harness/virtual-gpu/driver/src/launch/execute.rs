//! Executing a launch on the host: in full, or on a sample of its blocks.

use std::io::Write;
use std::ops::Range;
use std::sync::OnceLock;

use super::clocking::Clocking;
use super::ranges::{Ranges, ranges};
use super::shape::{blocks_per_sm, kernel_of};
use crate::bytes;
use crate::code::{self, Code};
use crate::cost::{self, Part, Shape};
use crate::launch_memory::costs::{Fault, Outcome};
use crate::launch_memory::key::Key;
use crate::process::{FunctionEntry, Process};
use gpubench_virtual_gpu_model::machine::Machine;
use gpubench_virtual_gpu_ptx::{
    Counts, CycleModel, DeviceMemory, Execution, FaultKind, KernelFault, Launch, Limits, Program,
    Timer,
};

/// Where sampling is allowed, launches of more lane-instructions than this are sampled. A load
/// generator repeats one launch thousands of times and reads nothing; a check is made to stay
/// below.
const FULL_LANE_INSTRUCTIONS: u64 = 6_000_000;

/// Launches of no more blocks than this have no sample that would be smaller.
const SAMPLED_BLOCKS: u64 = 8;

/// Interior blocks may differ by this part and still stand for each other.
const HOMOGENEOUS: f64 = 0.05;

/// The ideal clock running four times as fast: a kernel that then ends sooner ends by the clock.
struct Fast;

impl Timer for Fast {
    fn globaltimer_ns(&mut self, active_ns: u64) -> u64 {
        active_ns * 4
    }
}

/// Executes a launch under a clock and says what it costs. `pointees` are the allocations that its
/// arguments point to, in their order.
///
/// # Errors
/// When the launch is impossible, or reads what was never written.
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
    let part = process.part(key.context, &key.seat)?;
    let resident = per_sm.min(blocks.div_ceil(u64::from(part.sm_count.max(1))));
    let mut run = Run {
        process,
        function,
        key,
        model: &model,
        per_sm,
        near_bytes: near_bytes(machine, shared, resident),
        part,
        ranges: ranges(process, key.context, pointees)?,
        block_ns: 0,
        repeats_after: None,
    };
    let by_clock = matches!(clocking, Clocking::Ideal)
        && !key.together
        && kernel.properties.reads_globaltimer
        && run.ends_by_the_clock()?;
    let (execution, sampled, fault) = loop {
        let done = run.all(blocks, &mut clocking.clone());
        let (execution, sampled) = match done {
            Ok(done) => done,
            Err(fault) => {
                let (fault, counts) = classify(*fault)?;
                let execution = Execution {
                    counts,
                    ..Execution::default()
                };
                break (execution, false, Some(fault));
            }
        };
        if sampled || !run.makes_good(&execution)? {
            break (execution, sampled, None);
        }
    };
    print(&execution.printed);
    let Touched {
        reads,
        writes,
        extents,
        pinned,
        open,
    } = run.touched(&execution);
    let shape = Shape {
        blocks,
        blocks_per_sm: per_sm,
        footprint_bytes: run.footprint(&execution, blocks),
    };
    let cost = cost::cost(machine, &run.part, &execution.counts, &shape);
    // What counts is whether any ran: many kernels have one on a path that is never taken.
    let uses_atomics = execution.counts.atomics > 0;
    Ok(Outcome {
        cost,
        by_clock,
        reads,
        writes,
        extents,
        pinned,
        lanes: execution.counts.lanes(),
        sampled,
        uses_atomics,
        open,
        printed: !execution.printed.is_empty(),
        fault,
    })
}

/// What a launch touched, as in [`Outcome`].
struct Touched {
    reads: Vec<u64>,
    writes: Vec<u64>,
    extents: Vec<(u64, u64)>,
    pinned: Vec<Range<usize>>,
    open: bool,
}

/// One launch being executed.
struct Run<'a> {
    process: &'a Process,
    function: &'a FunctionEntry,
    key: &'a Key,
    model: &'a CycleModel,
    per_sm: u64,
    /// The part of an L1 that a block has.
    near_bytes: u64,
    part: Part,
    ranges: Ranges<'static>,
    /// How long a block took, for the start of later waves.
    block_ns: u64,
    /// Lane-instructions after which repeating iterations are counted only; none to execute all.
    repeats_after: Option<u64>,
}

impl Run<'_> {
    /// Executes some blocks one after the other.
    fn blocks(
        &mut self,
        blocks: impl IntoIterator<Item = u64>,
        timer: &mut dyn Timer,
    ) -> Result<Execution, Box<KernelFault>> {
        self.with_launch(|program, launch, memory| {
            gpubench_virtual_gpu_ptx::execute(program, launch, blocks, memory, timer)
        })
    }

    /// Executes all blocks at the same time.
    fn together(&mut self, timer: &mut dyn Timer) -> Result<Execution, Box<KernelFault>> {
        self.with_launch(|program, launch, memory| {
            gpubench_virtual_gpu_ptx::execute_together(program, launch, memory, timer)
        })
    }

    fn with_launch<T>(
        &mut self,
        execute: impl FnOnce(&Program, &Launch<'_>, &mut DeviceMemory<'static>) -> T,
    ) -> T {
        let (first, sms) = (self.part.sm_first, u64::from(self.part.sm_count.max(1)));
        let (wave, block_ns) = (sms * self.per_sm, self.block_ns);
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
                l1_bytes: self.near_bytes,
                tlb_pages: tlb_pages(self.process.device.machine()),
                repeats_after: self.repeats_after,
                ..Limits::default()
            },
            model: self.model,
            planted_illegal: &[],
            keep_blocks: true,
        };
        execute(&self.function.program, &launch, &mut self.ranges.memory)
    }

    /// Whether the first block takes less active time when the clock runs faster.
    fn ends_by_the_clock(&mut self) -> Result<bool, Code> {
        let took = |done: Result<Execution, Box<KernelFault>>| match done {
            Ok(execution) => Ok(execution.counts.longest_warp_cycles),
            Err(fault) => classify(*fault).map(|(_, counts)| counts.longest_warp_cycles),
        };
        let slow = took(self.blocks([0], &mut Clocking::Ideal))?;
        let fast = took(self.blocks([0], &mut Fast))?;
        Ok((fast as f64) < 0.7 * slow as f64)
    }

    /// Executes the launch, in full or on a sample. The flag says whether it is too large to be
    /// executed every time, so that its results cannot be relied upon.
    fn all(
        &mut self,
        blocks: u64,
        timer: &mut dyn Timer,
    ) -> Result<(Execution, bool), Box<KernelFault>> {
        if self.key.together {
            return Ok((self.together(timer)?, false));
        }
        // A block that passes its part of the limit will not be relied upon, nor will the others.
        self.repeats_after = (may_sample(self.process)
            && !self.ranges.points_at_open(&self.key.params))
        .then(|| FULL_LANE_INSTRUCTIONS / blocks + 1);
        let mut first = self.blocks([0], timer)?;
        let lanes = first.counts.lanes().max(1);
        self.block_ns =
            first.counts.longest_warp_cycles * 1000 / u64::from(self.model.clock_mhz.max(1));
        // What others read has to be there, however long it takes.
        let in_full = !may_sample(self.process)
            || lanes.saturating_mul(blocks) <= FULL_LANE_INSTRUCTIONS
            || self.writes_open(&first);
        if in_full && first.repeated_lanes > 0 {
            // No argument points there: it got the address elsewhere.
            let what = "it writes to memory that others read, after iterations that only counted";
            return Err(self.refused(what, first.counts));
        }
        self.repeats_after = self.repeats_after.filter(|_| !in_full).map(|_| 0);
        // Few blocks leave nothing to choose from: they are all executed, this once.
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

    fn touched(&self, execution: &Execution) -> Touched {
        let footprint = &execution.footprint;
        let (read, written) = (footprint.read_ranges(), footprint.written_ranges());
        let starts = &self.ranges.starts;
        let of = |indices: &[usize]| indices.iter().filter_map(|&index| starts[index]).collect();
        let known = written.iter().filter(|index| starts[**index].is_some());
        let others = written.iter().filter(|index| starts[**index].is_none());
        let part = |index: &usize| {
            let (base, bytes) = (self.ranges.at[*index], self.ranges.bytes[*index]);
            let (first, last) = footprint.extent(*index);
            (base + first) as usize..(base + last.min(bytes)) as usize
        };
        Touched {
            reads: of(&read),
            writes: of(&written),
            pinned: others.map(part).collect(),
            extents: known.map(|index| footprint.extent(*index)).collect(),
            open: read
                .iter()
                .chain(&written)
                .any(|&index| self.ranges.open[index]),
        }
    }

    /// Has written what a full execution read and a skipped fill had left out; false if that was
    /// nothing. If it was something, the execution has to be repeated: what it did until then must
    /// neither depend on what it read nor change that.
    fn makes_good(&self, execution: &Execution) -> Result<bool, Code> {
        let footprint = &execution.footprint;
        let properties = kernel_of(self.function)?.properties;
        let written = footprint.written_ranges();
        let mut anything = false;
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
            let again = !properties.follows_data
                && execution.counts.atomics == 0
                && execution.printed.is_empty()
                && !written.contains(&index);
            let good = bytes::make_good(self.process, start, footprint.extent(index))?;
            match good {
                Some(false) => {}
                Some(true) if again => anything = true,
                _ => return Err(refuse_unwritten(&self.function.name, start)),
            }
        }
        Ok(anything)
    }

    fn writes_open(&self, execution: &Execution) -> bool {
        let mut written = execution.footprint.written_ranges().into_iter();
        written.any(|index| self.ranges.open[index])
    }

    /// Executes a few blocks and lets them stand for the others; `None` if they differ too much.
    fn sample(
        &mut self,
        first: &Execution,
        blocks: u64,
        timer: &mut dyn Timer,
    ) -> Result<Option<Execution>, Box<KernelFault>> {
        let interior = [blocks / 4, blocks / 2, blocks * 3 / 4];
        let mut done = self.blocks(interior.into_iter().chain([blocks - 1]), timer)?;
        let lanes: Vec<f64> = done.blocks[..3]
            .iter()
            .map(|block| block.counts.lanes() as f64)
            .collect();
        let (least, most) = (
            lanes.iter().copied().fold(f64::MAX, f64::min),
            lanes.iter().copied().fold(0.0, f64::max),
        );
        if most > least * (1.0 + HOMOGENEOUS) {
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

    /// Bytes that the whole grid touches: what was seen, scaled to the grid, and no more than the
    /// allocations it lies in.
    fn footprint(&self, execution: &Execution, blocks: u64) -> u64 {
        let seen = execution.blocks.len().max(1) as u64;
        let scaled = execution.footprint.bytes().saturating_mul(blocks) / seen.min(blocks);
        let mut touched = execution.footprint.read_ranges();
        touched.extend(execution.footprint.written_ranges());
        touched.sort_unstable();
        touched.dedup();
        let limit: u64 = touched.iter().map(|&index| self.ranges.bytes[index]).sum();
        scaled.min(limit)
    }
}

/// What the shared memory of a launch's blocks leaves of an SM's store, for each of those that are
/// on it: L1 and shared memory are one since Volta. What others run there is not taken off.
fn near_bytes(machine: &Machine, shared_bytes: u64, resident: u64) -> u64 {
    let store = u64::from(machine.gpu.l1_per_sm_kib) << 10;
    store.saturating_sub(shared_bytes * resident) / resident.max(1)
}

/// Large pages in the TLB of an SM.
fn tlb_pages(machine: &Machine) -> u32 {
    machine.memory.sm_tlb_mib / 2
}

/// Whether launches may be sampled at all: in virtual time, whose programs are load generators, and
/// in wall time where the process says that it is one.
fn may_sample(process: &Process) -> bool {
    static ASKED: OnceLock<bool> = OnceLock::new();
    process.device.is_virtual_time()
        || *ASKED.get_or_init(|| {
            std::env::var_os(crate::session::SAMPLE_ENV).is_some_and(|value| value == "1")
        })
}

/// The number and the Xid of a fault, and what had been executed by then. The pairs are those of
/// the vendor's documents where they name one (XID catalogue, cuda.h); the Xid of traps and stack
/// overflows is an inference.
fn classify(fault: KernelFault) -> Result<(Fault, Counts), Code> {
    let (code, xid) = match &fault.kind {
        FaultKind::BadLaunch(what) => {
            crate::diagnostics::say(&format!("launch refused: {what}"));
            return Err(code::INVALID_VALUE);
        }
        FaultKind::IllegalAddress { .. } => (code::ILLEGAL_ADDRESS, 31),
        FaultKind::Misaligned { .. } => (code::MISALIGNED_ADDRESS, 13),
        FaultKind::InvalidAddressSpace { .. } => (code::INVALID_ADDRESS_SPACE, 13),
        FaultKind::SharedOutOfRange { .. } | FaultKind::Trap | FaultKind::Breakpoint => {
            (code::LAUNCH_FAILED, 13)
        }
        FaultKind::Assert { .. } => (code::ASSERT, 0),
        FaultKind::StackOverflow { .. } => (code::HARDWARE_STACK_ERROR, 13),
        FaultKind::InvalidPc { .. } => (code::INVALID_PC, 13),
        FaultKind::IllegalInstruction { .. } => (code::ILLEGAL_INSTRUCTION, 13),
        FaultKind::LaunchTimeout { .. } | FaultKind::Deadlock => (code::LAUNCH_TIMEOUT, 0),
    };
    if let FaultKind::Assert { .. } = &fault.kind {
        // The runtime prints a failed assertion on the program's error stream.
        crate::diagnostics::say(&fault.to_string());
    }
    print(&fault.printed);
    Ok((Fault { code, xid }, fault.counts))
}

/// The illegal instruction that a machine file plants for launches of more threads than it says. No
/// PTX has one, so that harnesses could not be shown to tell it otherwise.
pub fn planted(machine: &Machine, grid: [u32; 3], block: [u32; 3]) -> Option<Fault> {
    let limit = u64::from(machine.defects.illegal_instruction_threads);
    let threads: u64 = grid
        .iter()
        .chain(&block)
        .map(|&side| u64::from(side))
        .product();
    (limit > 0 && threads > limit).then_some(Fault {
        code: code::ILLEGAL_INSTRUCTION,
        xid: 13,
    })
}

/// Puts what kernels printed on the program's output, as the driver does when the host waits.
fn print(lines: &[String]) {
    if lines.is_empty() {
        return;
    }
    let mut out = std::io::stdout().lock();
    for line in lines {
        // A program that closed its output does not want the text.
        let _ = out.write_all(line.as_bytes());
    }
    let _ = out.flush();
}

/// A full execution must not compute from what a sampled one never wrote.
fn refuse_unwritten(kernel: &str, start: u64) -> Code {
    crate::diagnostics::say(&format!(
        "{kernel} reads the allocation at {start:#x}, which the last launch or copy into it was \
         only sampled to fill"
    ));
    code::NOT_SUPPORTED
}
