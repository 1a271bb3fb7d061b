//! Workloads on memory: its bandwidth, its caches, its capacity, and the link to the host.

use gpubench_record::Role::Aggressor;
use gpubench_record::SubAxis;

use super::{Ceiling, Knob, Throttle, USUAL, Workload, count};

/// `CUDA_ERROR_OUT_OF_MEMORY` (cuda.h).
const OUT_OF_MEMORY: i32 = 2;

/// A copy within the device, in sectors of DRAM.
const BYTES: Option<Knob> = Some(Knob { param: "bytes", granule: 128, max: 1 << 40 });

/// A copy over the link, in pages.
const BYTES_OF_LINK: Option<Knob> = Some(Knob { param: "bytes", granule: 4096, max: 1 << 40 });

pub const STREAM: Workload = Workload {
    name: "stream",
    summary: "copies through DRAM from few enough SMs that it demands no more than its share",
    sub_axis: SubAxis::Dram,
    resource: "DRAM bandwidth",
    unit: "bytes",
    counter: "dram__bytes_read.sum and dram__bytes_write.sum; DCGM_FI_PROF_DRAM_ACTIVE",
    knob: BYTES,
    throttle: Throttle::Blocks,
    ..USUAL
};

pub const DRAM_COPY: Workload = Workload {
    name: "dram-copy",
    summary: "copies through DRAM from every SM, over a footprint well above L2",
    role: Aggressor,
    sub_axis: SubAxis::Dram,
    resource: "DRAM bandwidth",
    unit: "bytes",
    meets: &["stream"],
    counter: "dram__bytes_read.sum and dram__bytes_write.sum; DCGM_FI_PROF_DRAM_ACTIVE",
    knob: BYTES,
    ceiling: Some(Ceiling::Dram),
    ..USUAL
};

pub const DRAM_READ: Workload = Workload {
    name: "dram-read",
    summary: "reads through DRAM from every SM, over a footprint well above L2",
    role: Aggressor,
    sub_axis: SubAxis::Dram,
    resource: "DRAM bandwidth, reads",
    unit: "bytes",
    meets: &["stream"],
    counter: "dram__bytes_read.sum; DCGM_FI_PROF_DRAM_ACTIVE",
    knob: BYTES,
    ceiling: Some(Ceiling::Dram),
    ..USUAL
};

pub const DRAM_WRITE: Workload = Workload {
    name: "dram-write",
    summary: "writes through DRAM from every SM, over a footprint well above L2",
    role: Aggressor,
    sub_axis: SubAxis::Dram,
    resource: "DRAM bandwidth, writes",
    unit: "bytes",
    meets: &["stream"],
    counter: "dram__bytes_write.sum; DCGM_FI_PROF_DRAM_ACTIVE",
    knob: BYTES,
    ceiling: Some(Ceiling::Dram),
    ..USUAL
};

pub const L2: Workload = Workload {
    name: "l2",
    summary: "reads a buffer that fits in its share of L2, from few SMs",
    sub_axis: SubAxis::L2,
    resource: "L2 bandwidth and capacity",
    unit: "bytes",
    counter: "lts__t_bytes.sum with dram__bytes_read.sum near zero",
    knob: count("passes"),
    throttle: Throttle::Blocks,
    ..USUAL
};

pub const L2_STREAM: Workload = Workload {
    name: "l2-stream",
    summary: "reads a buffer that stays in L2 from every SM",
    role: Aggressor,
    sub_axis: SubAxis::L2,
    resource: "L2 bandwidth",
    unit: "bytes",
    meets: &["l2"],
    counter: "lts__t_bytes.sum with dram__bytes_read.sum near zero",
    knob: count("passes"),
    ..USUAL
};

pub const L2_THRASH: Workload = Workload {
    name: "l2-thrash",
    summary: "reads a buffer as large as L2 from every SM, repeatedly",
    role: Aggressor,
    sub_axis: SubAxis::L2,
    resource: "L2 capacity",
    unit: "bytes",
    meets: &["l2"],
    counter: "lts__t_bytes.sum with dram__bytes_read.sum near zero",
    knob: count("passes"),
    ..USUAL
};

pub const ATOMIC: Workload = Workload {
    name: "atomic",
    summary: "atomic additions in L2, from few enough SMs to keep to its share",
    sub_axis: SubAxis::L2,
    resource: "atomic units of L2",
    unit: "additions",
    counter: "lts__t_sectors_op_red.sum and lts__t_sectors_op_atom.sum",
    knob: count("iterations"),
    throttle: Throttle::Blocks,
    ..USUAL
};

pub const ATOMICS: Workload = Workload {
    name: "atomics",
    summary: "atomic additions in L2 from every SM",
    role: Aggressor,
    sub_axis: SubAxis::L2,
    resource: "atomic units of L2",
    unit: "additions",
    meets: &["atomic"],
    counter: "lts__t_sectors_op_red.sum and lts__t_sectors_op_atom.sum",
    knob: count("iterations"),
    ..USUAL
};

pub const PCIE: Workload = Workload {
    name: "pcie",
    summary: "copies from page-locked host memory, at no more than its share of the link",
    sub_axis: SubAxis::Pcie,
    resource: "host link, to the device",
    unit: "bytes",
    counter: "pcie__read_bytes.sum; DCGM_FI_PROF_PCIE_RX_BYTES; nvmlDeviceGetPcieThroughput",
    knob: BYTES_OF_LINK,
    throttle: Throttle::Pauses,
    ..USUAL
};

pub const PCIE_DOWNLOAD: Workload = Workload {
    name: "pcie-download",
    summary: "copies to page-locked host memory, at no more than its share of the link",
    sub_axis: SubAxis::Pcie,
    resource: "host link, to the host",
    unit: "bytes",
    counter: "pcie__write_bytes.sum; DCGM_FI_PROF_PCIE_TX_BYTES; nvmlDeviceGetPcieThroughput",
    knob: BYTES_OF_LINK,
    throttle: Throttle::Pauses,
    ..USUAL
};

pub const PCIE_H2D: Workload = Workload {
    name: "pcie-h2d",
    summary: "copies from page-locked host memory without a pause",
    role: Aggressor,
    sub_axis: SubAxis::Pcie,
    resource: "host link, to the device",
    unit: "bytes",
    meets: &["pcie"],
    counter: "pcie__read_bytes.sum; DCGM_FI_PROF_PCIE_RX_BYTES; nvmlDeviceGetPcieThroughput",
    knob: BYTES_OF_LINK,
    ceiling: Some(Ceiling::Link),
    ..USUAL
};

pub const PCIE_D2H: Workload = Workload {
    name: "pcie-d2h",
    summary: "copies to page-locked host memory without a pause",
    role: Aggressor,
    sub_axis: SubAxis::Pcie,
    resource: "host link, to the host",
    unit: "bytes",
    meets: &["pcie-download"],
    counter: "pcie__write_bytes.sum; DCGM_FI_PROF_PCIE_TX_BYTES; nvmlDeviceGetPcieThroughput",
    knob: BYTES_OF_LINK,
    ceiling: Some(Ceiling::Link),
    ..USUAL
};

pub const PCIE_BOTH: Workload = Workload {
    name: "pcie-both",
    summary: "copies to and from page-locked host memory at the same time without a pause",
    role: Aggressor,
    sub_axis: SubAxis::Pcie,
    resource: "host link, both ways",
    unit: "bytes",
    meets: &["pcie"],
    counter: "pcie__read_bytes.sum; DCGM_FI_PROF_PCIE_RX_BYTES; nvmlDeviceGetPcieThroughput",
    knob: BYTES_OF_LINK,
    ceiling: Some(Ceiling::LinkBothWays),
    needs: "two copy engines",
    ..USUAL
};

pub const RESERVE: Workload = Workload {
    name: "reserve",
    summary: "allocates the memory of its share in one piece and frees it",
    sub_axis: SubAxis::Capacity,
    resource: "memory capacity",
    unit: "reservations",
    counter: "cuMemGetInfo; nvmlDeviceGetMemoryInfo; calls of cuMemAlloc",
    answers: &[OUT_OF_MEMORY],
    ..USUAL
};

pub const MEMORY_HOG: Workload = Workload {
    name: "memory-hog",
    summary: "allocates all free device memory, touches it and frees it",
    role: Aggressor,
    sub_axis: SubAxis::Capacity,
    resource: "memory capacity",
    unit: "bytes",
    meets: &["reserve"],
    counter: "cuMemGetInfo; nvmlDeviceGetMemoryInfo; calls of cuMemAlloc",
    ..USUAL
};

pub const ALLOC: Workload = Workload {
    name: "alloc",
    summary: "allocates device memory and frees it, repeatedly",
    sub_axis: SubAxis::Driver,
    resource: "the driver's memory management",
    unit: "allocations",
    counter: "cuMemGetInfo; nvmlDeviceGetMemoryInfo; calls of cuMemAlloc",
    knob: count("rounds"),
    ..USUAL
};

pub const ALLOC_STORM: Workload = Workload {
    name: "alloc-storm",
    summary: "allocates and frees device memory without a pause",
    role: Aggressor,
    sub_axis: SubAxis::Driver,
    resource: "the driver's memory management",
    unit: "allocations",
    meets: &["alloc"],
    counter: "cuMemGetInfo; nvmlDeviceGetMemoryInfo; calls of cuMemAlloc",
    knob: count("rounds"),
    ..USUAL
};

pub const PIN_STORM: Workload = Workload {
    name: "pin-storm",
    summary: "page-locks host memory and unlocks it without a pause",
    role: Aggressor,
    sub_axis: SubAxis::Driver,
    resource: "the driver's page-locking",
    unit: "allocations",
    meets: &["alloc"],
    counter: "calls of cuMemHostAlloc; VmPin of /proc/PID/status",
    knob: count("rounds"),
    ..USUAL
};

pub const TLB: Workload = Workload {
    name: "tlb",
    summary: "loads from one page after the other in its share of memory, from few SMs",
    sub_axis: SubAxis::Dram,
    resource: "address translation",
    unit: "pages",
    counter: "no public one; time per load against the same loads with a stride of one line",
    knob: count("steps"),
    throttle: Throttle::Blocks,
    ..USUAL
};

pub const TLB_STRIDE: Workload = Workload {
    name: "tlb-stride",
    summary: "loads from more pages than any TLB covers, from every SM",
    role: Aggressor,
    sub_axis: SubAxis::Dram,
    resource: "address translation",
    unit: "pages",
    meets: &["tlb"],
    counter: "no public one; time per load against the same loads with a stride of one line",
    knob: count("steps"),
    ..USUAL
};
