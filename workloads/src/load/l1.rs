//! L1: `l1`, the victim, and `l1-hog`. Counter: that of `l1_stream`.

use gpubench_kernels::Kernel;
use gpubench_kernels::driver::DeviceBuffer;
use gpubench_kernels::kernel::l1_stream::L1Stream;
use gpubench_record::{Role, SubAxis, WorkloadSpec};

use super::l2_reads::{NO_SUCH_SUM, PASSES_KNOB};
use super::one_launch::{OneLaunch, verify_kernel};
use super::{Gpu, LoadError, More, Params, Prepared, Workload, expected, shared};

pub(super) const WORKLOADS: &[Workload] = &[
    Workload {
        name: "l1",
        summary: "reads of data in L1, one block on each SM of the share",
        role: Role::Victim,
        sub_axis: SubAxis::Sm,
        resource: "L1 bandwidth and capacity",
        unit: "bytes",
        meets: &[],
        kernel: Some(Kernel::L1Stream),
        knob: Some(PASSES_KNOB),
        first_guess: shared::on_whole_sms,
        setup,
        verify,
        more: More { expected: expected::L1, ..More::NONE },
    },
    Workload {
        name: "l1-hog",
        summary: "reads of data in L1 from as many threads as every SM holds",
        role: Role::Aggressor,
        sub_axis: SubAxis::Sm,
        resource: "L1 bandwidth and capacity",
        unit: "bytes",
        meets: &["l1"],
        kernel: Some(Kernel::L1Stream),
        knob: Some(PASSES_KNOB),
        first_guess: shared::on_every_sm,
        setup,
        verify,
        more: More { expected: expected::L1, ..More::NONE },
    },
];

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
