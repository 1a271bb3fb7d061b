//! `alloc-storm`: allocations and frees without a pause, which keep the driver's locks busy.
//! Counter: as in `alloc`.

use gpubench_record::{Role, SubAxis};

use super::{More, Workload, alloc};

pub(super) const WORKLOADS: &[Workload] = &[Workload {
    name: "alloc-storm",
    summary: "allocates and frees device memory without a pause",
    role: Role::Aggressor,
    sub_axis: SubAxis::Driver,
    resource: "the driver's memory management",
    unit: "allocations",
    meets: &["alloc"],
    kernel: None,
    knob: Some(alloc::ROUNDS_KNOB),
    first_guess: alloc::rounds_spec,
    setup: alloc::setup,
    verify: alloc::verify_rounds,
    more: More { counter: Some(alloc::COUNTER), ..More::NONE },
}];
