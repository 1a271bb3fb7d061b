//! Integer arithmetic: `int`, the victim, and `int-hog`. Counter: that of `int_chain`.

use gpubench_kernels::kernel::int_chain::IntChain;
use gpubench_kernels::{Cost, Kernel};
use gpubench_record::{Role, SubAxis, WorkloadSpec};

use super::chains::chain;
use super::one_launch::verify_kernel;
use super::{Ceiling, Gpu, LoadError, More, Prepared, Workload, chains, compute, expected};

pub(super) const WORKLOADS: &[Workload] = &[
    Workload {
        name: "int",
        summary: "integer multiply-adds, one block on each SM of the share",
        role: Role::Victim,
        sub_axis: SubAxis::Sm,
        resource: "integer pipe",
        unit: "operations",
        meets: &[],
        kernel: Some(Kernel::IntChain),
        knob: Some(compute::CHAIN_KNOB),
        first_guess: chains::on_whole_sms,
        setup,
        verify,
        more: More { expected: expected::INT, ..More::NONE },
    },
    Workload {
        name: "int-hog",
        summary: "integer multiply-adds from as many threads as every SM holds",
        role: Role::Aggressor,
        sub_axis: SubAxis::Sm,
        resource: "integer pipe",
        unit: "operations",
        meets: &["int"],
        kernel: Some(Kernel::IntChain),
        knob: Some(compute::CHAIN_KNOB),
        first_guess: chains::on_every_sm,
        setup,
        verify,
        more: More { expected: expected::INT, ceiling: Some(Ceiling::Int), ..More::NONE },
    },
];

fn setup(gpu: &Gpu, spec: &WorkloadSpec) -> Result<Box<dyn Prepared>, LoadError> {
    chain::<u32, _>(gpu, spec, operations, IntChain::full_period)
}

fn operations(cost: &Cost) -> u64 {
    cost.int_ops
}

fn verify(_name: &'static str, gpu: &Gpu) -> Result<(), LoadError> {
    verify_kernel(gpu, Kernel::IntChain)
}
