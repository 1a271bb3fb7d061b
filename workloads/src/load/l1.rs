//! L1: `l1`, the victim, and `l1-hog`. Counter: that of `l1_stream`.

use gpubench_kernels::Kernel;
use gpubench_kernels::driver::DeviceBuffer;
use gpubench_kernels::kernel::l1_stream::L1Stream;
use gpubench_record::{SubAxis, WorkloadSpec};

use super::entry::{Entry, OneLaunch, verify_kernel};
use super::l2_reads::NO_SUCH_SUM;
use super::{Gpu, LoadError, Params, Prepared, shared};

/// `l1`, the victim.
pub(super) static VICTIM_ENTRY: Entry = Entry {
    name: "l1",
    summary: "reads of what stays in L1, one block on each SM of the share",
    sub_axis: SubAxis::Sm,
    resource: "L1 bandwidth and capacity",
    kernel: Some(Kernel::L1Stream),
    setup,
    verify,
    ..shared::VICTIM_ENTRY
};

/// `l1-hog`, the aggressor.
pub(super) static AGGRESSOR_ENTRY: Entry = Entry {
    name: "l1-hog",
    summary: "reads of what stays in L1 from as many threads as every SM holds",
    sub_axis: SubAxis::Sm,
    resource: "L1 bandwidth and capacity",
    kernel: Some(Kernel::L1Stream),
    setup,
    verify,
    ..shared::AGGRESSOR_ENTRY
};

fn setup(gpu: &Gpu, spec: &WorkloadSpec) -> Result<Box<dyn Prepared>, LoadError> {
    let params = Params::of(spec);
    let grid = params.grid(&gpu.props)?;
    // The bound makes the casts exact.
    let part_bytes = params.get("part_bytes", 16..=u64::from(u32::MAX))?;
    let bytes = part_bytes * u64::from(grid.blocks);
    let src = DeviceBuffer::<u64>::alloc(&gpu.context, bytes.div_ceil(8) as usize)?;
    src.fill_bytes(0)?;
    let hits = DeviceBuffer::<u32>::from_slice(&gpu.context, &[0])?;
    let launch = L1Stream {
        src: src.device_ptr(),
        bytes_per_block: part_bytes as u32,
        passes: params.word("passes")?,
        trigger: NO_SUCH_SUM,
        hits: hits.device_ptr(),
        grid,
    };
    let held = (src, hits);
    Ok(Box::new(OneLaunch::new(gpu, launch, shared::bytes, held)?))
}

fn verify(_name: &'static str, gpu: &Gpu) -> Result<(), LoadError> {
    verify_kernel(gpu, Kernel::L1Stream)
}
