//! Issue slots: `issue`, the victim, and `issue-hog`. Counter: that of `issue_mix`.

use gpubench_kernels::kernel::issue_mix::IssueMix;
use gpubench_kernels::{Cost, Kernel};
use gpubench_record::{SubAxis, WorkloadSpec};

use super::chains::{AGGRESSOR, VICTIM, chain};
use super::entry::{Entry, verify_kernel};
use super::{Gpu, LoadError, Prepared};

/// `issue`, the victim.
pub(super) static VICTIM_ENTRY: Entry = Entry {
    name: "issue",
    summary: "two kinds of arithmetic in turn, one block on each SM of the share",
    sub_axis: SubAxis::Issue,
    resource: "issue slots",
    kernel: Some(Kernel::IssueMix),
    setup,
    verify,
    ..VICTIM
};

/// `issue-hog`, the aggressor.
pub(super) static AGGRESSOR_ENTRY: Entry = Entry {
    name: "issue-hog",
    summary: "two kinds of arithmetic in turn, so that every scheduler issues all the time",
    sub_axis: SubAxis::Issue,
    resource: "issue slots",
    kernel: Some(Kernel::IssueMix),
    setup,
    verify,
    ..AGGRESSOR
};

fn setup(gpu: &Gpu, spec: &WorkloadSpec) -> Result<Box<dyn Prepared>, LoadError> {
    chain::<u32, _>(gpu, spec, operations, IssueMix::bounded)
}

fn operations(cost: &Cost) -> u64 {
    cost.fp32_flops + cost.int_ops
}

fn verify(_name: &'static str, gpu: &Gpu) -> Result<(), LoadError> {
    verify_kernel(gpu, Kernel::IssueMix)
}
