//! Tensor cores: `tensor`, the victim, and `tensor-hog`. Counter: that of `tensor_chain`.
//!
//! Waived where the architecture has no tensor cores, and where the driver rejects the
//! instructions: the check loads the kernel and does not use the device's name.

use gpubench_kernels::driver::DriverError;
use gpubench_kernels::kernel::tensor_chain::{Half, TensorChain};
use gpubench_kernels::{Cost, Kernel};
use gpubench_record::{Role, SubAxis, WorkloadSpec};

use super::chains::chain;
use super::one_launch::verify_kernel;
use super::{Ceiling, Gpu, LoadError, More, Prepared, Workload, chains, compute, expected};

/// The first architecture with tensor cores (CUDA C++ Programming Guide, "Compute capability 7.x").
const FIRST_WITH_TENSOR_CORES: (u32, u32) = (7, 0);

/// Errors of the PTX text and not of the device: CUDA_ERROR_NO_BINARY_FOR_GPU, INVALID_PTX,
/// UNSUPPORTED_PTX_VERSION, NOT_SUPPORTED (cuda.h).
const REFUSALS: [i32; 4] = [209, 218, 222, 801];

pub(super) const WORKLOADS: &[Workload] = &[
    Workload {
        name: "tensor",
        summary: "products of half-precision matrices, one block on each SM of the share",
        role: Role::Victim,
        sub_axis: SubAxis::Sm,
        resource: "tensor cores",
        unit: "operations",
        meets: &[],
        kernel: Some(Kernel::TensorChain),
        knob: Some(compute::CHAIN_KNOB),
        first_guess: chains::on_whole_sms,
        setup,
        verify,
        more: More {
            expected: expected::TENSOR,
            needs: "tensor cores, and a driver that accepts their instructions",
            lacks,
            ..More::NONE
        },
    },
    Workload {
        name: "tensor-hog",
        summary: "products of half-precision matrices from as many threads as every SM holds",
        role: Role::Aggressor,
        sub_axis: SubAxis::Sm,
        resource: "tensor cores",
        unit: "operations",
        meets: &["tensor"],
        kernel: Some(Kernel::TensorChain),
        knob: Some(compute::CHAIN_KNOB),
        first_guess: chains::on_every_sm,
        setup,
        verify,
        more: More {
            expected: expected::TENSOR,
            ceiling: Some(Ceiling::Tensor),
            needs: "tensor cores, and a driver that accepts their instructions",
            lacks,
            ..More::NONE
        },
    },
];

fn lacks(gpu: &Gpu) -> Result<Option<String>, LoadError> {
    let (major, minor) = gpu.props.compute_capability;
    if (major, minor) < FIRST_WITH_TENSOR_CORES {
        return Ok(Some(format!("compute capability {major}.{minor} has no tensor cores")));
    }
    match gpu.kernels.prepare(&[Kernel::TensorChain]) {
        Ok(()) => Ok(None),
        Err(DriverError::Module { code, name, .. }) if REFUSALS.contains(&code) => {
            Ok(Some(format!("the driver rejects the instructions of tensor_chain: {name}")))
        }
        Err(error) => Err(error.into()),
    }
}

fn setup(gpu: &Gpu, spec: &WorkloadSpec) -> Result<Box<dyn Prepared>, LoadError> {
    chain::<f32, _>(gpu, spec, operations, |out, iterations, grid| TensorChain {
        out,
        iterations,
        a: Half::SMALL,
        b: Half::SMALL,
        grid,
    })
}

fn operations(cost: &Cost) -> u64 {
    cost.tensor_flops
}

fn verify(_name: &'static str, gpu: &Gpu) -> Result<(), LoadError> {
    verify_kernel(gpu, Kernel::TensorChain)
}
