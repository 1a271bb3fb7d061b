//! Shared memory: `shared`, the victim, and `shared-hog`. Counter: that of `shared_stream`.

use gpubench_kernels::driver::{DeviceBuffer, DeviceProps};
use gpubench_kernels::kernel::shared_stream::SharedStream;
use gpubench_kernels::{Cost, Kernel};
use gpubench_record::{Role, SubAxis, WorkloadSpec};

use super::compute::THREADS;
use super::l2_reads::{NO_SUCH_SUM, PASSES_KNOB};
use super::one_launch::{OneLaunch, verify_kernel};
use super::params::{spec, whole_sms};
use super::{Gpu, LoadError, More, Params, Prepared, Workload, expected};

/// Shared memory that a launch may use without an opt-in, on every architecture (CUDA C++
/// Programming Guide, "Shared memory").
const PLAIN_BYTES_MAX: u32 = 48 << 10;

pub(super) const WORKLOADS: &[Workload] = &[
    Workload {
        name: "shared",
        summary: "reads of shared memory, one block on each SM of the share",
        role: Role::Victim,
        sub_axis: SubAxis::Sm,
        resource: "shared memory bandwidth",
        unit: "bytes",
        meets: &[],
        kernel: Some(Kernel::SharedStream),
        knob: Some(PASSES_KNOB),
        first_guess: on_whole_sms,
        setup,
        verify,
        more: More { expected: expected::SHARED, ..More::NONE },
    },
    Workload {
        name: "shared-hog",
        summary: "reads of shared memory from as many threads as every SM holds",
        role: Role::Aggressor,
        sub_axis: SubAxis::Sm,
        resource: "shared memory bandwidth",
        unit: "bytes",
        meets: &["shared"],
        kernel: Some(Kernel::SharedStream),
        knob: Some(PASSES_KNOB),
        first_guess: on_every_sm,
        setup,
        verify,
        more: More { expected: expected::SHARED, ..More::NONE },
    },
];

pub(super) fn on_whole_sms(
    name: &'static str,
    props: &DeviceProps,
    share: f64,
) -> Result<WorkloadSpec, LoadError> {
    Ok(parts_spec(name, props, whole_sms(name, props, share)?, 1))
}

pub(super) fn on_every_sm(
    name: &'static str,
    props: &DeviceProps,
    _share: f64,
) -> Result<WorkloadSpec, LoadError> {
    let grid = props.full_grid(THREADS);
    let on_one_sm = grid.blocks / props.sm_count.max(1);
    Ok(parts_spec(name, props, grid.blocks.into(), on_one_sm))
}

/// Parameters of a load in which every block has its own part of the SM's memory.
pub(super) fn parts_spec(
    name: &str,
    props: &DeviceProps,
    blocks: u64,
    on_one_sm: u32,
) -> WorkloadSpec {
    let part_bytes = props.l1_part_bytes(on_one_sm).min(PLAIN_BYTES_MAX);
    spec(
        name,
        [
            ("blocks", blocks),
            ("threads", THREADS.into()),
            ("passes", 100),
            ("part_bytes", part_bytes.into()),
        ],
    )
}

fn setup(gpu: &Gpu, spec: &WorkloadSpec) -> Result<Box<dyn Prepared>, LoadError> {
    let params = Params::of(spec);
    let grid = params.grid(&gpu.props)?;
    let hits = DeviceBuffer::<u32>::from_slice(&gpu.context, &[0])?;
    let launch = SharedStream {
        // The bound makes the cast exact.
        bytes_per_block: params.get("part_bytes", 16..=PLAIN_BYTES_MAX.into())? as u32,
        passes: params.word("passes")?,
        trigger: NO_SUCH_SUM,
        hits: hits.device_ptr(),
        blocks: grid.blocks,
        threads: grid.threads,
    };
    Ok(Box::new(OneLaunch::new(gpu, launch, bytes, hits)?))
}

/// Bytes read from the SM's memory.
pub(super) fn bytes(cost: &Cost) -> u64 {
    cost.l1_bytes
}

fn verify(_name: &'static str, gpu: &Gpu) -> Result<(), LoadError> {
    verify_kernel(gpu, Kernel::SharedStream)
}
