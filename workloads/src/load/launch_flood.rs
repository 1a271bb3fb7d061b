//! `launch-flood`: the smallest kernel without a pause, which keeps the launch path busy. Counter:
//! as in `launch`.

use gpubench_kernels::Kernel;
use gpubench_record::{Role, SubAxis};

use super::{More, Workload, launch};

pub(super) const WORKLOADS: &[Workload] = &[Workload {
    name: "launch-flood",
    summary: "launches of the smallest kernel without a pause",
    role: Role::Aggressor,
    sub_axis: SubAxis::Launch,
    resource: "launch path",
    unit: "launches",
    meets: &["launch", "launch-sync"],
    kernel: Some(Kernel::Tick),
    knob: Some(launch::LAUNCHES_KNOB),
    first_guess: launch::burst_spec,
    setup: launch::queued,
    verify: launch::verify_burst,
    more: More { expected: |_, _| Some(launch::LAUNCHES_PER_S), ..More::NONE },
}];
