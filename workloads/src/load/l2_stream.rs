//! `l2-stream`: reads that saturate L2 from every SM.

use gpubench_kernels::Kernel;
use gpubench_kernels::driver::DeviceProps;
use gpubench_record::{Role, SubAxis, WorkloadSpec};

use super::l2_reads::{L2Reads, PASSES_KNOB, THREADS, buffer_bytes, reads_spec, verify_reads};
use super::{LoadError, More, Workload, expected};

/// Fraction of L2 that it reads: it fits also where the cache has two halves that each keep a copy
/// of the other side's data (as on GA100 and GH100).
const PART_OF_L2: f64 = 0.4;

pub(super) const WORKLOADS: &[Workload] = &[Workload {
    name: "l2-stream",
    summary: "reads a buffer that stays in L2 from every SM",
    role: Role::Aggressor,
    sub_axis: SubAxis::L2,
    resource: "L2 bandwidth",
    unit: "bytes",
    meets: &["l2"],
    kernel: Some(Kernel::L2Stream),
    knob: Some(PASSES_KNOB),
    first_guess,
    setup: |gpu, spec| Ok(Box::new(L2Reads::new(gpu, spec)?)),
    verify: verify_reads,
    more: More { expected: expected::L2, ..More::NONE },
}];

fn first_guess(
    name: &'static str,
    props: &DeviceProps,
    share: f64,
) -> Result<WorkloadSpec, LoadError> {
    let bytes = buffer_bytes(name, props, share, PART_OF_L2)?;
    let blocks = props.full_grid(THREADS).blocks.into();
    Ok(reads_spec(name, blocks, bytes))
}
