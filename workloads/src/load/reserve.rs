//! `reserve`: allocates the memory of its share in one piece and frees it. Counter: `cuMemGetInfo`.
//!
//! A request is one reservation; its length is not adjustable. A refusal for lack of memory is a
//! failed request: the promised capacity was not available. It is an answer, and the score of its
//! cells is the number of honoured reservations.

use gpubench_kernels::driver::{DeviceProps, codes};
use gpubench_kernels::kernel::tlb_stride::TlbStride;
use gpubench_record::{Role, SubAxis, WorkloadSpec};

use super::calibrate::DEMAND_OF_SHARE;
use super::params::spec;
use super::{LoadError, More, Workload, alloc};

pub(super) const WORKLOADS: &[Workload] = &[Workload {
    name: "reserve",
    summary: "allocates the memory of its share in one piece and frees it",
    role: Role::Victim,
    sub_axis: SubAxis::Capacity,
    resource: "memory capacity",
    unit: "reservations",
    meets: &[],
    kernel: None,
    knob: None,
    first_guess: of_share,
    setup: alloc::setup,
    verify: alloc::verify_rounds,
    more: More { counter: Some(alloc::COUNTER), answers: &[codes::OUT_OF_MEMORY], ..More::NONE },
}];

fn of_share(
    name: &'static str,
    props: &DeviceProps,
    share: f64,
) -> Result<WorkloadSpec, LoadError> {
    let page = TlbStride::PAGE_BYTES;
    // Truncation gives fewer bytes.
    let bytes = (props.total_bytes as f64 * share * DEMAND_OF_SHARE) as u64;
    let bytes = (bytes / page).max(1) * page;
    Ok(spec(name, [("rounds", 1), ("bytes", bytes)]))
}
