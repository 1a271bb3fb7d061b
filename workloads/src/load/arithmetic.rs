//! Arithmetic pipes: `compute` and `fma-hog`, and the victims and aggressors of double precision,
//! integers, issue slots and tensor cores.

use gpubench_catalogue::workload;
use gpubench_kernels::driver::{DeviceBuffer, DeviceProps, DevicePtr, DriverError, Grid, Pod};
use gpubench_kernels::kernel::arithmetic::{
    Fp32Chain, Fp64Chain, Half, IntChain, IssueMix, TensorChain,
};
use gpubench_kernels::{Cost, Kernel, Launcher};
use gpubench_record::WorkloadSpec;

use super::error::{spec, whole_sms};
use super::launch::OneLaunch;
use super::{Gpu, Guess, Load, LoadError, More, Output, Params, Part, Prepared, expected};

// Shared by workloads on an arithmetic pipe: one launch of chains per request, on one block for
// each SM of the share (victim) or with as many threads as fit (aggressor).

/// Parameters of a victim before calibration: one block on each SM of the share.
pub(super) fn on_whole_sms(name: &'static str, props: &DeviceProps, share: f64) -> Guess {
    let sms = whole_sms(name, props, share)?;
    let blocks = if share < 1.0 { sms } else { sms * OF_WHOLE_DEVICE };
    Ok(chain_spec(name, blocks))
}

/// Blocks for each SM of a victim that demands the whole device. A limit of SMs then takes its part
/// of the work; one block for each SM would take whole waves, and half of the rate at 90 % of the
/// SMs.
pub(super) const OF_WHOLE_DEVICE: u64 = 16;

/// Parameters of an aggressor before calibration: as many threads as every SM holds.
pub(super) fn on_every_sm(name: &'static str, props: &DeviceProps, _share: f64) -> Guess {
    Ok(chain_spec(name, props.full_grid(THREADS).blocks.into()))
}

/// One launch per request; `launch` builds it from an output buffer, iterations and a shape.
pub(super) fn chain<T: Pod, L: Launcher + 'static>(
    gpu: &Gpu,
    spec: &WorkloadSpec,
    work: fn(&Cost) -> u64,
    launch: impl FnOnce(DevicePtr, u32, Grid) -> L,
) -> Result<Box<dyn Prepared>, LoadError> {
    let params = Params::of(spec);
    let grid = params.grid(&gpu.props)?;
    let iterations = params.word("iterations")?;
    // Threads of a grid are at most 2^31 blocks of 2^10.
    let out = DeviceBuffer::<T>::alloc(&gpu.context, grid.total_threads() as usize)?;
    let launch = launch(out.device_ptr(), iterations, grid);
    let parts = vec![Part::written(&out)];
    Ok(Box::new(OneLaunch::new(gpu, launch, work, Output::Parts(parts), out)?))
}

// `compute`: single-precision arithmetic on whole SMs, within the share.

/// Threads per block: eight warps with eight chains each hide the latency of the pipe, so one block
/// keeps all four schedulers of its SM busy.
pub(super) const THREADS: u32 = 256;

pub(super) const COMPUTE: &[Load] = &[CHAIN];

const CHAIN: Load = Load {
    facts: &workload::COMPUTE,
    kernel: Some(Kernel::Fp32Chain),
    first_guess: on_whole_sms,
    setup: |gpu, spec| Ok(Box::new(Chain::new(gpu, spec)?)),
    verify: Some(verify_chain),
    more: More { expected: expected::SINGLE_PRECISION, ..More::NONE },
};

/// Parameters of a chain workload before calibration.
pub(super) fn chain_spec(name: &str, blocks: u64) -> WorkloadSpec {
    // A first guess of a few microseconds on any device, which calibration adjusts.
    spec(name, [("blocks", blocks), ("threads", THREADS.into()), ("iterations", 1_000)])
}

/// One launch of the chain per request.
#[derive(Debug)]
pub(super) struct Chain {
    pub(super) out: DeviceBuffer<f32>,
    pub(super) launch: Fp32Chain,
}

impl Chain {
    pub(super) fn new(gpu: &Gpu, spec: &WorkloadSpec) -> Result<Self, LoadError> {
        let params = Params::of(spec);
        let grid = params.grid(&gpu.props)?;
        let iterations = params.word("iterations")?;
        gpu.kernels.prepare(&[Kernel::Fp32Chain])?;
        // Threads of a grid are at most 2^31 blocks of 2^10.
        let out = DeviceBuffer::alloc(&gpu.context, grid.total_threads() as usize)?;
        let launch = Fp32Chain::bounded(out.device_ptr(), iterations, grid);
        Ok(Self { out, launch })
    }
}

impl Prepared for Chain {
    fn step(&mut self, gpu: &Gpu) -> Result<(), DriverError> {
        self.launch.launch(&gpu.kernels, &gpu.stream)
    }

    fn output(&self) -> Output<'_> {
        Output::Parts(vec![Part::written(&self.out)])
    }

    fn work_per_request(&self) -> f64 {
        let Cost { fp32_flops, .. } = self.launch.cost();
        fp32_flops as f64
    }
}

/// Checks the kernel bit for bit, and that a request writes every sum.
pub(super) fn verify_chain(workload: &'static str, gpu: &Gpu) -> Result<(), LoadError> {
    (Kernel::Fp32Chain.info().verify)(&gpu.kernels)?;
    let mut small = chain_spec(workload, 2);
    small.params.insert("iterations".to_owned(), 3);
    let mut chain = Chain::new(gpu, &small)?;
    chain.out.fill_bytes(0)?;
    chain.step(gpu)?;
    gpu.stream.synchronize()?;
    // Every sum of these chains is above zero: they start at 0 or more and increase first.
    match chain.out.to_vec()?.iter().position(|sum| *sum <= 0.0) {
        None => Ok(()),
        Some(thread) => {
            Err(LoadError::Wrong { workload, what: format!("thread {thread} wrote no sum") })
        }
    }
}

// `fma-hog`: single-precision arithmetic in every thread slot of every SM.

pub(super) const FMA_HOG: &[Load] =
    &[Load { facts: &workload::FMA_HOG, first_guess: on_every_sm, ..CHAIN }];

// Double-precision arithmetic: `fp64`, the victim, and `fp64-hog`. Counter: that of `fp64_chain`.

pub(super) const FP64: &[Load] = &Load::pair(
    [&workload::FP64, &workload::FP64_HOG],
    Kernel::Fp64Chain,
    [on_whole_sms, on_every_sm],
    |gpu, spec| chain::<f64, _>(gpu, spec, |cost| cost.fp64_flops, Fp64Chain::bounded),
    [More { expected: expected::DOUBLE_PRECISION, ..More::NONE }; 2],
);

// Integer arithmetic: `int`, the victim, and `int-hog`. Counter: that of `int_chain`.

pub(super) const INT: &[Load] = &Load::pair(
    [&workload::INT, &workload::INT_HOG],
    Kernel::IntChain,
    [on_whole_sms, on_every_sm],
    |gpu, spec| chain::<u32, _>(gpu, spec, |cost| cost.int_ops, IntChain::full_period),
    [More { expected: expected::INT, ..More::NONE }; 2],
);

// Issue slots: `issue`, the victim, and `issue-hog`. Counter: that of `issue_mix`.

pub(super) const ISSUE: &[Load] = &Load::pair(
    [&workload::ISSUE, &workload::ISSUE_HOG],
    Kernel::IssueMix,
    [on_whole_sms, on_every_sm],
    |gpu, spec| {
        chain::<u32, _>(gpu, spec, |cost| cost.fp32_flops + cost.int_ops, IssueMix::bounded)
    },
    [More { expected: expected::ISSUE, ..More::NONE }; 2],
);

// Tensor cores: `tensor`, the victim, and `tensor-hog`. Counter: that of `tensor_chain`.
//
// Waived where the architecture has no tensor cores, and where the driver rejects the
// instructions: the check loads the kernel and does not use the device's name.

/// The first architecture with tensor cores (CUDA C++ Programming Guide, "Compute capability 7.x").
const FIRST_WITH_TENSOR_CORES: (u32, u32) = (7, 0);

/// Errors of the PTX text and not of the device: CUDA_ERROR_NO_BINARY_FOR_GPU, INVALID_PTX,
/// UNSUPPORTED_PTX_VERSION, NOT_SUPPORTED (cuda.h).
const REFUSALS: [i32; 4] = [209, 218, 222, 801];

pub(super) const TENSOR: &[Load] = &Load::pair(
    [&workload::TENSOR, &workload::TENSOR_HOG],
    Kernel::TensorChain,
    [on_whole_sms, on_every_sm],
    setup_tensor,
    [More { expected: expected::TENSOR, lacks, ..More::NONE }; 2],
);

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

fn setup_tensor(gpu: &Gpu, spec: &WorkloadSpec) -> Result<Box<dyn Prepared>, LoadError> {
    let (a, b) = (Half::SMALL, Half::SMALL);
    let launch = |out, iterations, grid| TensorChain { out, iterations, a, b, grid };
    chain::<f32, _>(gpu, spec, |cost| cost.tensor_flops, launch)
}
