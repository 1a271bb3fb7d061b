//! `dram-write`: a streaming write from every SM. Counter: that of `stream_write`.

use gpubench_kernels::Kernel;
use gpubench_kernels::driver::{DevicePtr, Grid};
use gpubench_kernels::kernel::stream_write::StreamWrite;
use gpubench_record::{SubAxis, WorkloadSpec};

use super::chains::AGGRESSOR;
use super::dram_read::{Windowed, from_every_sm};
use super::entry::{Entry, verify_kernel};
use super::window_copy::COPY_KNOB;
use super::{Gpu, LoadError, Prepared};

/// See the module.
pub(super) static ENTRY: Entry = Entry {
    name: "dram-write",
    summary: "writes through DRAM from every SM, over a footprint well above L2",
    sub_axis: SubAxis::Dram,
    resource: "DRAM bandwidth, writes",
    unit: "bytes",
    kernel: Some(Kernel::StreamWrite),
    knob: Some(COPY_KNOB),
    first_guess: from_every_sm,
    setup,
    verify,
    ..AGGRESSOR
};

fn setup(gpu: &Gpu, spec: &WorkloadSpec) -> Result<Box<dyn Prepared>, LoadError> {
    gpu.kernels.prepare(&[Kernel::StreamWrite])?;
    let write = |dst: DevicePtr, bytes: u64, grid: Grid| StreamWrite {
        dst,
        bytes,
        value: 1,
        grid,
    };
    Ok(Box::new(Windowed::new(gpu, spec, write)?))
}

fn verify(_name: &'static str, gpu: &Gpu) -> Result<(), LoadError> {
    verify_kernel(gpu, Kernel::StreamWrite)
}
