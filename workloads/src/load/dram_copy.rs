//! `dram-copy`: a streaming copy from every SM.

use gpubench_kernels::Kernel;
use gpubench_record::{Role, SubAxis};

use super::window_copy::{COPY_KNOB, WindowCopy, from_every_sm, verify_copy};
use super::{Ceiling, More, Workload, expected};

pub(super) const WORKLOADS: &[Workload] = &[Workload {
    name: "dram-copy",
    summary: "copies through DRAM from every SM, over a footprint well above L2",
    role: Role::Aggressor,
    sub_axis: SubAxis::Dram,
    resource: "DRAM bandwidth",
    unit: "bytes",
    meets: &["stream"],
    kernel: Some(Kernel::StreamCopy),
    knob: Some(COPY_KNOB),
    first_guess: from_every_sm,
    setup: |gpu, spec| Ok(Box::new(WindowCopy::new(gpu, spec)?)),
    verify: verify_copy,
    more: More { expected: expected::DRAM, ceiling: Some(Ceiling::Dram), ..More::NONE },
}];
