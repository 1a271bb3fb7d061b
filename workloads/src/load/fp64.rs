//! Double-precision arithmetic: `fp64`, the victim, and `fp64-hog`. Counter: that of `fp64_chain`.

use gpubench_kernels::kernel::fp64_chain::Fp64Chain;
use gpubench_kernels::{Cost, Kernel};
use gpubench_record::{SubAxis, WorkloadSpec};

use super::chains::{AGGRESSOR, VICTIM, chain};
use super::entry::{Entry, verify_kernel};
use super::{Gpu, LoadError, Prepared};

/// `fp64`, the victim.
pub(super) static VICTIM_ENTRY: Entry = Entry {
    name: "fp64",
    summary: "multiply-adds in double precision, one block on each SM of the share",
    sub_axis: SubAxis::Sm,
    resource: "FP64 pipe",
    kernel: Some(Kernel::Fp64Chain),
    setup,
    verify,
    ..VICTIM
};

/// `fp64-hog`, the aggressor.
pub(super) static AGGRESSOR_ENTRY: Entry = Entry {
    name: "fp64-hog",
    summary: "multiply-adds in double precision from as many threads as every SM holds",
    sub_axis: SubAxis::Sm,
    resource: "FP64 pipe",
    kernel: Some(Kernel::Fp64Chain),
    setup,
    verify,
    ..AGGRESSOR
};

fn setup(gpu: &Gpu, spec: &WorkloadSpec) -> Result<Box<dyn Prepared>, LoadError> {
    chain::<f64, _>(gpu, spec, operations, Fp64Chain::bounded)
}

fn operations(cost: &Cost) -> u64 {
    cost.fp64_flops
}

fn verify(_name: &'static str, gpu: &Gpu) -> Result<(), LoadError> {
    verify_kernel(gpu, Kernel::Fp64Chain)
}
