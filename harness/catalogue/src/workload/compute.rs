//! Workloads on SMs, launches and the driver.

use gpubench_record::Role::Aggressor;
use gpubench_record::SubAxis;

use super::{Ceiling, Knob, STAY_NS_MAX, USUAL, Workload, count};

/// The time that a block stays on its SM.
const STAY: Option<Knob> = Some(Knob { param: "stay_ns", granule: 1_000, max: STAY_NS_MAX });

pub const COMPUTE: Workload = Workload {
    name: "compute",
    summary: "multiply-adds in single precision, one block on each SM of the share",
    resource: "SMs",
    counter: "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum; DCGM_FI_PROF_PIPE_FP32_ACTIVE",
    knob: count("iterations"),
    ..USUAL
};

pub const FMA_HOG: Workload = Workload {
    name: "fma-hog",
    summary: "multiply-adds in single precision from as many threads as every SM takes",
    role: Aggressor,
    resource: "SMs",
    meets: &["compute"],
    counter: "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum; DCGM_FI_PROF_PIPE_FP32_ACTIVE",
    knob: count("iterations"),
    ceiling: Some(Ceiling::Single),
    ..USUAL
};

pub const FP64: Workload = Workload {
    name: "fp64",
    summary: "multiply-adds in double precision, one block on each SM of the share",
    resource: "FP64 pipe",
    counter: "smsp__sass_thread_inst_executed_op_dfma_pred_on.sum; DCGM_FI_PROF_PIPE_FP64_ACTIVE",
    knob: count("iterations"),
    ..USUAL
};

pub const FP64_HOG: Workload = Workload {
    name: "fp64-hog",
    summary: "multiply-adds in double precision from as many threads as every SM holds",
    role: Aggressor,
    resource: "FP64 pipe",
    meets: &["fp64"],
    counter: "smsp__sass_thread_inst_executed_op_dfma_pred_on.sum; DCGM_FI_PROF_PIPE_FP64_ACTIVE",
    knob: count("iterations"),
    ceiling: Some(Ceiling::Double),
    ..USUAL
};

pub const INT: Workload = Workload {
    name: "int",
    summary: "integer multiply-adds, one block on each SM of the share",
    resource: "integer pipe",
    counter: "smsp__sass_thread_inst_executed_op_integer_pred_on.sum",
    knob: count("iterations"),
    ..USUAL
};

pub const INT_HOG: Workload = Workload {
    name: "int-hog",
    summary: "integer multiply-adds from as many threads as every SM holds",
    role: Aggressor,
    resource: "integer pipe",
    meets: &["int"],
    counter: "smsp__sass_thread_inst_executed_op_integer_pred_on.sum",
    knob: count("iterations"),
    ceiling: Some(Ceiling::Int),
    ..USUAL
};

pub const ISSUE: Workload = Workload {
    name: "issue",
    summary: "alternating arithmetic of two kinds, one block on each SM of the share",
    sub_axis: SubAxis::Issue,
    resource: "issue slots",
    counter: "smsp__inst_issued.sum over smsp__cycles_active.sum, near one",
    knob: count("iterations"),
    ..USUAL
};

pub const ISSUE_HOG: Workload = Workload {
    name: "issue-hog",
    summary: "alternating arithmetic of two kinds, so that every scheduler issues all the time",
    role: Aggressor,
    sub_axis: SubAxis::Issue,
    resource: "issue slots",
    meets: &["issue"],
    counter: "smsp__inst_issued.sum over smsp__cycles_active.sum, near one",
    knob: count("iterations"),
    ..USUAL
};

pub const TENSOR: Workload = Workload {
    name: "tensor",
    summary: "products of half-precision matrices, one block on each SM of the share",
    resource: "tensor cores",
    counter: "sm__inst_executed_pipe_tensor.sum; DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
    knob: count("iterations"),
    needs: "tensor cores, and a driver that accepts their instructions",
    ..USUAL
};

pub const TENSOR_HOG: Workload = Workload {
    name: "tensor-hog",
    summary: "products of half-precision matrices from as many threads as every SM holds",
    role: Aggressor,
    resource: "tensor cores",
    meets: &["tensor"],
    counter: "sm__inst_executed_pipe_tensor.sum; DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
    knob: count("iterations"),
    ceiling: Some(Ceiling::Tensor),
    needs: "tensor cores, and a driver that accepts their instructions",
    ..USUAL
};

pub const L1: Workload = Workload {
    name: "l1",
    summary: "reads of data in L1, one block on each SM of the share",
    resource: "L1 bandwidth and capacity",
    unit: "bytes",
    counter: "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum",
    knob: count("passes"),
    ..USUAL
};

pub const L1_HOG: Workload = Workload {
    name: "l1-hog",
    summary: "reads of data in L1 from as many threads as every SM holds",
    role: Aggressor,
    resource: "L1 bandwidth and capacity",
    unit: "bytes",
    meets: &["l1"],
    counter: "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum",
    knob: count("passes"),
    ..USUAL
};

pub const SHARED: Workload = Workload {
    name: "shared",
    summary: "reads of shared memory, one block on each SM of the share",
    resource: "shared memory bandwidth",
    unit: "bytes",
    counter: "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
    knob: count("passes"),
    ..USUAL
};

pub const SHARED_HOG: Workload = Workload {
    name: "shared-hog",
    summary: "reads of shared memory from as many threads as every SM holds",
    role: Aggressor,
    resource: "shared memory bandwidth",
    unit: "bytes",
    meets: &["shared"],
    counter: "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
    knob: count("passes"),
    ..USUAL
};

pub const BLOCK_SLOTS: Workload = Workload {
    name: "block-slots",
    summary: "blocks of one warp that sleep in every block slot of every SM",
    role: Aggressor,
    resource: "block slots",
    unit: "block nanoseconds",
    meets: &["compute"],
    counter: "sm__warps_active.avg.pct_of_peak_sustained_active with \
              smsp__inst_issued.sum near zero",
    knob: STAY,
    ..USUAL
};

pub const INFERENCE: Workload = Workload {
    name: "inference",
    summary: "decode steps of a language model: small dependent launches over weights above L2",
    resource: "SMs, DRAM bandwidth and launch path together",
    meets: &["fma-hog", "launch-flood", "dram-copy"],
    counter: "dram__bytes_read.sum; DCGM_FI_PROF_DRAM_ACTIVE",
    knob: count("slices"),
    ..USUAL
};

pub const LAUNCH: Workload = Workload {
    name: "launch",
    summary: "bursts of the smallest kernel, queued without waiting",
    sub_axis: SubAxis::Launch,
    resource: "launch path",
    unit: "launches",
    counter: "*count, one more for every launch that ran",
    knob: count("launches"),
    ..USUAL
};

pub const LAUNCH_SYNC: Workload = Workload {
    name: "launch-sync",
    summary: "bursts of the smallest kernel, with a wait for each launch before the next",
    sub_axis: SubAxis::Launch,
    resource: "launch path",
    unit: "launches",
    counter: "*count, one more for every launch that ran",
    knob: count("launches"),
    ..USUAL
};

pub const LAUNCH_FLOOD: Workload = Workload {
    name: "launch-flood",
    summary: "launches of the smallest kernel without a pause",
    role: Aggressor,
    sub_axis: SubAxis::Launch,
    resource: "launch path",
    unit: "launches",
    meets: &["launch", "launch-sync"],
    counter: "*count, one more for every launch that ran",
    knob: count("launches"),
    ..USUAL
};

pub const CONTEXT_STORM: Workload = Workload {
    name: "context-storm",
    summary: "creates contexts and destroys them without a pause",
    role: Aggressor,
    sub_axis: SubAxis::Driver,
    resource: "the driver's context management",
    unit: "contexts",
    meets: &["alloc"],
    counter: "nvmlDeviceGetMemoryInfo; calls of cuCtxCreate",
    needs: "a compute mode that allows more than one context",
    ..USUAL
};

pub const MODULE_STORM: Workload = Workload {
    name: "module-storm",
    summary: "loads a module and unloads it without a pause",
    role: Aggressor,
    sub_axis: SubAxis::Driver,
    resource: "the driver's module loading",
    unit: "modules",
    meets: &["alloc"],
    counter: "calls of cuModuleLoadDataEx",
    knob: count("modules"),
    ..USUAL
};

pub const POWER_VIRUS: Workload = Workload {
    name: "power-virus",
    summary: "arithmetic on every SM and a copy through DRAM at the same time",
    role: Aggressor,
    sub_axis: SubAxis::Power,
    resource: "power budget",
    meets: &["compute"],
    counter: "nvmlDeviceGetPowerUsage; nvmlDeviceGetTotalEnergyConsumption",
    knob: count("iterations"),
    ..USUAL
};
