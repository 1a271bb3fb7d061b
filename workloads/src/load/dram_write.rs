//! `dram-write`: a streaming write from every SM. Counter: that of `stream_write`.

use gpubench_kernels::Kernel;
use gpubench_kernels::driver::{DevicePtr, Grid};
use gpubench_kernels::kernel::stream_write::StreamWrite;
use gpubench_record::{Role, SubAxis, WorkloadSpec};

use super::dram_read::Windowed;
use super::one_launch::verify_kernel;
use super::window_copy::{COPY_KNOB, from_every_sm};
use super::{Ceiling, Gpu, LoadError, More, Prepared, Workload, expected};

pub(super) const WORKLOADS: &[Workload] = &[Workload {
    name: "dram-write",
    summary: "writes through DRAM from every SM, over a footprint well above L2",
    role: Role::Aggressor,
    sub_axis: SubAxis::Dram,
    resource: "DRAM bandwidth, writes",
    unit: "bytes",
    meets: &["stream"],
    kernel: Some(Kernel::StreamWrite),
    knob: Some(COPY_KNOB),
    first_guess: from_every_sm,
    setup,
    verify,
    more: More { expected: expected::DRAM, ceiling: Some(Ceiling::Dram), ..More::NONE },
}];

fn setup(gpu: &Gpu, spec: &WorkloadSpec) -> Result<Box<dyn Prepared>, LoadError> {
    gpu.kernels.prepare(&[Kernel::StreamWrite])?;
    let write = |dst: DevicePtr, bytes: u64, grid: Grid| StreamWrite { dst, bytes, value: 1, grid };
    Ok(Box::new(Windowed::new(gpu, spec, write)?))
}

fn verify(_name: &'static str, gpu: &Gpu) -> Result<(), LoadError> {
    verify_kernel(gpu, Kernel::StreamWrite)
}
