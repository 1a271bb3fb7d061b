//! `fma-hog`: single-precision arithmetic in every thread slot of every SM.

use gpubench_kernels::Kernel;
use gpubench_record::{Role, SubAxis};

use super::compute::{CHAIN_KNOB, verify_chain};
use super::{Ceiling, More, Workload, chains, compute, expected};

pub(super) const WORKLOADS: &[Workload] = &[Workload {
    name: "fma-hog",
    summary: "multiply-adds in single precision from as many threads as every SM takes",
    role: Role::Aggressor,
    sub_axis: SubAxis::Sm,
    resource: "SMs",
    unit: "operations",
    meets: &["compute"],
    kernel: Some(Kernel::Fp32Chain),
    knob: Some(CHAIN_KNOB),
    first_guess: chains::on_every_sm,
    setup: compute::chain,
    verify: verify_chain,
    more: More {
        expected: expected::SINGLE_PRECISION,
        ceiling: Some(Ceiling::Single),
        ..More::NONE
    },
}];
