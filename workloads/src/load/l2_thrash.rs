//! `l2-thrash`: reads of a buffer as large as L2, which evict a neighbour's data. Counter: that of
//! `l2_stream`, and `lts__t_sectors_lookup_miss.sum` of the neighbour.

use gpubench_kernels::Kernel;
use gpubench_kernels::driver::DeviceProps;
use gpubench_record::{Role, SubAxis, WorkloadSpec};

use super::l2_reads::{L2Reads, PASSES_KNOB, THREADS, reads_spec, verify_reads};
use super::{Gpu, LoadError, More, Prepared, Workload, expected};

pub(super) const WORKLOADS: &[Workload] = &[Workload {
    name: "l2-thrash",
    summary: "reads a buffer as large as L2 from every SM, repeatedly",
    role: Role::Aggressor,
    sub_axis: SubAxis::L2,
    resource: "L2 capacity",
    unit: "bytes",
    meets: &["l2"],
    kernel: Some(Kernel::L2Stream),
    knob: Some(PASSES_KNOB),
    first_guess,
    setup,
    verify: verify_reads,
    more: More { expected: expected::L2, ..More::NONE },
}];

fn first_guess(
    name: &'static str,
    props: &DeviceProps,
    share: f64,
) -> Result<WorkloadSpec, LoadError> {
    if props.l2_bytes == 0 {
        return Err(LoadError::TooSmall {
            workload: name,
            needs: "an L2 cache".to_owned(),
            share,
            has: "none".to_owned(),
        });
    }
    let blocks = props.full_grid(THREADS).blocks;
    Ok(reads_spec(name, blocks.into(), props.l2_buffer_bytes(1.0)))
}

fn setup(gpu: &Gpu, spec: &WorkloadSpec) -> Result<Box<dyn Prepared>, LoadError> {
    Ok(Box::new(L2Reads::new(gpu, spec)?))
}
