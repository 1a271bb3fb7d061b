//! Issue slots: `issue`, the victim, and `issue-hog`. Counter: that of `issue_mix`.

use gpubench_kernels::kernel::issue_mix::IssueMix;
use gpubench_kernels::{Cost, Kernel};
use gpubench_record::{Role, SubAxis, WorkloadSpec};

use super::chains::chain;
use super::one_launch::verify_kernel;
use super::{Gpu, LoadError, More, Prepared, Workload, chains, compute, expected};

pub(super) const WORKLOADS: &[Workload] = &[
    Workload {
        name: "issue",
        summary: "alternating arithmetic of two kinds, one block on each SM of the share",
        role: Role::Victim,
        sub_axis: SubAxis::Issue,
        resource: "issue slots",
        unit: "operations",
        meets: &[],
        kernel: Some(Kernel::IssueMix),
        knob: Some(compute::CHAIN_KNOB),
        first_guess: chains::on_whole_sms,
        setup,
        verify,
        more: More { expected: expected::ISSUE, ..More::NONE },
    },
    Workload {
        name: "issue-hog",
        summary: "alternating arithmetic of two kinds, so that every scheduler issues all the time",
        role: Role::Aggressor,
        sub_axis: SubAxis::Issue,
        resource: "issue slots",
        unit: "operations",
        meets: &["issue"],
        kernel: Some(Kernel::IssueMix),
        knob: Some(compute::CHAIN_KNOB),
        first_guess: chains::on_every_sm,
        setup,
        verify,
        more: More { expected: expected::ISSUE, ..More::NONE },
    },
];

fn setup(gpu: &Gpu, spec: &WorkloadSpec) -> Result<Box<dyn Prepared>, LoadError> {
    chain::<u32, _>(gpu, spec, operations, IssueMix::bounded)
}

fn operations(cost: &Cost) -> u64 {
    cost.fp32_flops + cost.int_ops
}

fn verify(_name: &'static str, gpu: &Gpu) -> Result<(), LoadError> {
    verify_kernel(gpu, Kernel::IssueMix)
}
