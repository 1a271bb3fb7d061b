//! Double-precision arithmetic: `fp64`, the victim, and `fp64-hog`. Counter: that of `fp64_chain`.

use gpubench_kernels::kernel::fp64_chain::Fp64Chain;
use gpubench_kernels::{Cost, Kernel};
use gpubench_record::{Role, SubAxis, WorkloadSpec};

use super::chains::chain;
use super::one_launch::verify_kernel;
use super::{Ceiling, Gpu, LoadError, More, Prepared, Workload, chains, compute, expected};

pub(super) const WORKLOADS: &[Workload] = &[
    Workload {
        name: "fp64",
        summary: "multiply-adds in double precision, one block on each SM of the share",
        role: Role::Victim,
        sub_axis: SubAxis::Sm,
        resource: "FP64 pipe",
        unit: "operations",
        meets: &[],
        kernel: Some(Kernel::Fp64Chain),
        knob: Some(compute::CHAIN_KNOB),
        first_guess: chains::on_whole_sms,
        setup,
        verify,
        more: More { expected: expected::DOUBLE_PRECISION, ..More::NONE },
    },
    Workload {
        name: "fp64-hog",
        summary: "multiply-adds in double precision from as many threads as every SM holds",
        role: Role::Aggressor,
        sub_axis: SubAxis::Sm,
        resource: "FP64 pipe",
        unit: "operations",
        meets: &["fp64"],
        kernel: Some(Kernel::Fp64Chain),
        knob: Some(compute::CHAIN_KNOB),
        first_guess: chains::on_every_sm,
        setup,
        verify,
        more: More {
            expected: expected::DOUBLE_PRECISION,
            ceiling: Some(Ceiling::Double),
            ..More::NONE
        },
    },
];

fn setup(gpu: &Gpu, spec: &WorkloadSpec) -> Result<Box<dyn Prepared>, LoadError> {
    chain::<f64, _>(gpu, spec, operations, Fp64Chain::bounded)
}

fn operations(cost: &Cost) -> u64 {
    cost.fp64_flops
}

fn verify(_name: &'static str, gpu: &Gpu) -> Result<(), LoadError> {
    verify_kernel(gpu, Kernel::Fp64Chain)
}
