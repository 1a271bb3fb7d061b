//! Integer arithmetic: `int`, the victim, and `int-hog`. Counter: that of `int_chain`.

use gpubench_kernels::kernel::int_chain::IntChain;
use gpubench_kernels::{Cost, Kernel};
use gpubench_record::{SubAxis, WorkloadSpec};

use super::chains::{AGGRESSOR, VICTIM, chain};
use super::entry::{Entry, verify_kernel};
use super::{Gpu, LoadError, Prepared};

/// `int`, the victim.
pub(super) static VICTIM_ENTRY: Entry = Entry {
    name: "int",
    summary: "integer multiply-adds, one block on each SM of the share",
    sub_axis: SubAxis::Sm,
    resource: "integer pipe",
    kernel: Some(Kernel::IntChain),
    setup,
    verify,
    ..VICTIM
};

/// `int-hog`, the aggressor.
pub(super) static AGGRESSOR_ENTRY: Entry = Entry {
    name: "int-hog",
    summary: "integer multiply-adds from as many threads as every SM holds",
    sub_axis: SubAxis::Sm,
    resource: "integer pipe",
    kernel: Some(Kernel::IntChain),
    setup,
    verify,
    ..AGGRESSOR
};

fn setup(gpu: &Gpu, spec: &WorkloadSpec) -> Result<Box<dyn Prepared>, LoadError> {
    chain::<u32, _>(gpu, spec, operations, IntChain::full_period)
}

fn operations(cost: &Cost) -> u64 {
    cost.int_ops
}

fn verify(_name: &'static str, gpu: &Gpu) -> Result<(), LoadError> {
    verify_kernel(gpu, Kernel::IntChain)
}
