//! Cost of a launch without other launches: its time, and its share of every resource.
//!
//! A roofline with one roof for each resource (Williams, Waterman, Patterson, CACM 52(4), 2009):
//! the time is the longest of the resources' times and the longest chain of dependent instructions.
//! Its share of a resource is its work there, divided by the work that the device can do there in
//! that time.

use gpubench_virtual_gpu_model::machine::{Machine, Resident};
use gpubench_virtual_gpu_model::state::{InFlight, ONE, RESOURCES, Resource};
use gpubench_virtual_gpu_ptx::{Class, Counts, CycleModel};

/// How a launch is laid out on the device.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    pub blocks: u64,
    /// Blocks that one SM holds at the same time.
    pub blocks_per_sm: u64,
    /// Bytes of device memory that it accesses.
    pub footprint_bytes: u64,
}

/// The part of the device that a launch may use.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Part {
    pub sm_first: u32,
    pub sm_count: u32,
    pub l2_bytes: u64,
    /// Share of DRAM and L2 bandwidth.
    pub bandwidth: f64,
}

impl Part {
    /// The whole device.
    pub fn whole(machine: &Machine) -> Self {
        Self {
            sm_first: 0,
            sm_count: machine.gpu.sm_count,
            l2_bytes: machine.memory.l2_kib << 10,
            bandwidth: 1.0,
        }
    }
}

/// Cost of a launch without other launches.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    pub alone_ns: f64,
    /// Share of each resource, in fixed point.
    pub demand: [u32; RESOURCES],
    /// Power above idle, in milliwatts.
    pub power_mw: u32,
    /// SMs with a block on them.
    pub sms: u32,
    /// What its resident blocks keep in flight to memory.
    pub in_flight: InFlight,
    /// It has more blocks than are resident at the same time.
    pub blocks_wait: bool,
}

/// Atomics on the same word are carried out one by one, a clock each (NVIDIA, *Kepler GK110
/// Architecture Whitepaper*, "Atomics": to a common address one operation per clock).
const WORD_ATOMICS_PER_CLOCK: f64 = 1.0;

/// Duration of an empty kernel.
const MIN_NS: f64 = 1_000.0;

/// Multiply-adds of one matrix product of 16 by 16 by 16, the only supported form.
const TENSOR_MULTIPLY_ADDS: u64 = 16 * 16 * 16;

/// Cycles from the end of a product to a usable sum. An assumed value, of the order that
/// microbenchmarks find for a product that depends on the previous one.
const TENSOR_TAIL_CYCLES: u32 = 16;

/// The machine's timing of one warp, for the interpreter.
pub fn cycle_model(machine: &Machine) -> CycleModel {
    let mut model = CycleModel { clock_mhz: machine.sm_clock_mhz(), ..CycleModel::default() };
    let cycles =
        |ns: u64| u32::try_from(ns * u64::from(machine.sm_clock_mhz()) / 1000).unwrap_or(u32::MAX);
    // A dependent load is timed as an L2 hit; a miss costs bandwidth, which is counted separately.
    let latency = cycles(machine.memory.l2_latency_ns);
    // 32 lanes over the lanes of a scheduler.
    let lanes = machine.gpu.fp32_lanes_per_clock / machine.gpu.schedulers_per_sm.max(1);
    model.issue_cycles[Class::Fp32 as usize] = 32_u32.div_ceil(lanes.max(1));
    model.latency_cycles[Class::LoadGlobal as usize] = latency;
    model.latency_cycles[Class::Atomic as usize] = latency;
    let each = u64::from(machine.gpu.tensor_ops_per_clock / machine.gpu.schedulers_per_sm.max(1));
    let product = u32::try_from(TENSOR_MULTIPLY_ADDS / each.max(1)).unwrap_or(u32::MAX);
    model.issue_cycles[Class::Tensor as usize] = product;
    model.latency_cycles[Class::Tensor as usize] = product.saturating_add(TENSOR_TAIL_CYCLES);
    model.l1_hit_cycles = machine.gpu.l1_latency_cycles;
    // A read of the timer takes half a microsecond, which keeps spin loops short.
    model.globaltimer_cycles = cycles(500);
    model
}

/// Cost of the counted work on a part of the machine. Demands are shares of the whole machine.
pub fn cost(machine: &Machine, part: &Part, counts: &Counts, shape: &Shape) -> Cost {
    let gpu = &machine.gpu;
    let sms = f64::from(gpu.sm_count);
    let clock_ghz = f64::from(machine.sm_clock_mhz()) / 1000.0;
    let blocks = shape.blocks.max(1);
    // The SM with the most blocks decides. The block scheduler is assumed to spread blocks evenly.
    let sm_blocks = blocks.div_ceil(u64::from(part.sm_count.max(1)));
    let used_sms = blocks.min(u64::from(part.sm_count)) as f64;
    let loads = sm_loads(machine, counts);
    let busiest = sm_blocks as f64 / blocks as f64;
    let mut alone_ns = MIN_NS;
    for &(_, work, per_clock) in &loads {
        alone_ns = alone_ns.max(work * busiest / (per_clock * clock_ghz));
    }
    let waves = sm_blocks.div_ceil(shape.blocks_per_sm.max(1));
    let chain_ns = counts.longest_warp_cycles as f64 / clock_ghz;
    alone_ns = alone_ns.max(chain_ns * waves as f64);

    let memory = &machine.memory;
    let moved_bytes =
        counts.load_sector_bytes + counts.store_sector_bytes + counts.atomic_sector_bytes;
    let l2_bytes = moved_bytes.saturating_sub(counts.l1_hit_bytes) as f64;
    let resident = shape.footprint_bytes <= part.l2_bytes;
    let dram_bytes = if resident { 0.0 } else { l2_bytes };
    let l2_rate = (memory.l2_gb_per_s * part.bandwidth).min(used_sms * memory.sm_l2_gb_per_s);
    let dram_rate = (memory.dram_gb_per_s * part.bandwidth).min(used_sms * memory.sm_dram_gb_per_s);
    alone_ns = alone_ns.max(l2_bytes / l2_rate).max(dram_bytes / dram_rate);
    let atomic_rate = f64::from(gpu.atomics_per_clock) * clock_ghz * sms;
    let atomics = counts.device_atomics as f64;
    alone_ns = alone_ns.max(atomics / (atomic_rate * part.bandwidth));
    alone_ns = alone_ns.max(counts.hot_word.atomics as f64 / (WORD_ATOMICS_PER_CLOCK * clock_ghz));
    // Translations per nanosecond.
    let (tlb_rate, sm_tlb_rate) =
        (memory.translations_per_us / 1000.0, memory.sm_translations_per_us / 1000.0);
    let translations = counts.translations as f64;
    alone_ns = alone_ns.max(translations / tlb_rate.min(used_sms * sm_tlb_rate));

    let mut demand = [0; RESOURCES];
    let mut put = |resource: Resource, share: f64| {
        demand[resource as usize] = (share.clamp(0.0, 1.0) * ONE as f64).round() as u32;
    };
    for &(resource, work, per_clock) in &loads {
        put(resource, work / (per_clock * clock_ghz * sms * alone_ns));
    }
    let slots = u64::from(gpu.sm_count) * shape.blocks_per_sm.max(1);
    let usable = u64::from(part.sm_count) * shape.blocks_per_sm.max(1);
    put(Resource::SmSlots, blocks.min(usable) as f64 / slots as f64);
    put(Resource::L2, l2_bytes / (memory.l2_gb_per_s * alone_ns));
    put(Resource::Dram, dram_bytes / (memory.dram_gb_per_s * alone_ns));
    put(Resource::Atomics, atomics / (atomic_rate * alone_ns));
    put(Resource::Tlb, translations / (tlb_rate * alone_ns));
    put(Resource::FrontEnd, gpu.dispatch_ns as f64 / alone_ns);
    let power_mw = power_mw(machine, &demand);
    Cost {
        alone_ns,
        demand,
        power_mw,
        sms: used_sms as u32,
        in_flight: in_flight(machine, part, counts, shape),
        blocks_wait: blocks > usable,
    }
}

/// What the resident blocks keep in flight to memory.
fn in_flight(machine: &Machine, part: &Part, counts: &Counts, shape: &Shape) -> InFlight {
    let moved_bytes =
        counts.load_sector_bytes + counts.store_sector_bytes + counts.atomic_sector_bytes;
    let l2_bytes = moved_bytes.saturating_sub(counts.l1_hit_bytes) as f64;
    let sms = shape.blocks.min(u64::from(part.sm_count)).max(1);
    // What it stores between two waits is in flight with its loads.
    let loaded_bytes = counts.load_sector_bytes.saturating_sub(counts.l1_hit_bytes) as f64;
    let warps_of_block = counts.warps as f64 / counts.blocks.max(1) as f64;
    let block_bytes = match counts.most_loading_bytes {
        0 => f64::INFINITY,
        most => warps_of_block * most as f64 * l2_bytes / loaded_bytes.max(1.0),
    };
    let room = u64::from(part.sm_count) * shape.blocks_per_sm.max(1);
    machine.in_flight(&Resident {
        block_bytes,
        blocks: shape.blocks.clamp(1, room.max(1)),
        sms,
        bandwidth: part.bandwidth,
    })
}

/// For each pipe of an SM: the work of the whole grid and what one SM does per clock.
fn sm_loads(machine: &Machine, counts: &Counts) -> [(Resource, f64, f64); 7] {
    let gpu = &machine.gpu;
    let lanes = |class: Class| counts.lanes_of(class) as f64;
    let warps: u64 = counts.warp_instructions.iter().sum();
    // Fills of misses use the same path but are not counted: L2 delivers far less than L1.
    let shared_bytes = (counts.shared_bytes + counts.l1_hit_bytes) as f64;
    [
        (Resource::Issue, warps as f64, f64::from(gpu.schedulers_per_sm)),
        (Resource::Fp32, lanes(Class::Fp32), f64::from(gpu.fp32_lanes_per_clock)),
        (Resource::Fp64, lanes(Class::Fp64), f64::from(gpu.fp64_lanes_per_clock)),
        (Resource::Int, lanes(Class::Int), f64::from(gpu.int_lanes_per_clock)),
        (
            Resource::Sfu,
            lanes(Class::Sfu) + lanes(Class::Convert),
            f64::from(gpu.sfu_lanes_per_clock),
        ),
        (
            Resource::Tensor,
            (counts.warps_of(Class::Tensor) * TENSOR_MULTIPLY_ADDS) as f64,
            f64::from(gpu.tensor_ops_per_clock),
        ),
        (Resource::Shared, shared_bytes, f64::from(gpu.shared_bytes_per_clock)),
    ]
}

/// Power above idle: half of the range for DRAM, and half for the busiest pipe where the file does
/// not give it. Assumed, not measured.
fn power_mw(machine: &Machine, demand: &[u32; RESOURCES]) -> u32 {
    let share = |resource: Resource| f64::from(demand[resource as usize]) / ONE as f64;
    let pipes = [
        Resource::Issue,
        Resource::Fp32,
        Resource::Fp64,
        Resource::Int,
        Resource::Tensor,
        Resource::L2,
    ];
    let busiest = pipes.into_iter().map(share).fold(0.0, f64::max);
    let half_w = 0.5 * (machine.power.max_w - machine.power.idle_w).max(0.0);
    let pipes_w = machine.power.pipes_w.unwrap_or(half_w);
    (1000.0 * (pipes_w * busiest + half_w * share(Resource::Dram))) as u32
}

#[cfg(test)]
mod tests;
