//! `compute`: single-precision arithmetic on whole SMs, within the share.

use gpubench_kernels::Kernel;
use gpubench_kernels::driver::{DeviceBuffer, DriverError};
use gpubench_kernels::kernel::fp32_chain::Fp32Chain;
use gpubench_kernels::{Cost, Launcher};
use gpubench_record::{Role, SubAxis, WorkloadSpec};

use super::params::spec;
use super::{Gpu, Knob, LoadError, More, Params, Prepared, Workload, chains, expected};

/// Threads per block: eight warps with eight chains each hide the latency of the pipe, so one block
/// keeps all four schedulers of its SM busy.
pub(super) const THREADS: u32 = 256;

pub(super) const WORKLOADS: &[Workload] = &[Workload {
    name: "compute",
    summary: "multiply-adds in single precision, one block on each SM of the share",
    role: Role::Victim,
    sub_axis: SubAxis::Sm,
    resource: "SMs",
    unit: "operations",
    meets: &[],
    kernel: Some(Kernel::Fp32Chain),
    knob: Some(CHAIN_KNOB),
    first_guess: chains::on_whole_sms,
    setup: chain,
    verify: verify_chain,
    more: More { expected: expected::SINGLE_PRECISION, ..More::NONE },
}];

/// Request length in iterations of the chain.
pub(super) const CHAIN_KNOB: Knob = Knob { param: "iterations", granule: 1, max: u32::MAX as u64 };

/// Parameters of a chain workload before calibration.
pub(super) fn chain_spec(name: &str, blocks: u64) -> WorkloadSpec {
    // A first guess of a few microseconds on any device, which calibration adjusts.
    spec(name, [("blocks", blocks), ("threads", THREADS.into()), ("iterations", 1_000)])
}

/// One launch of the chain per request.
#[derive(Debug)]
pub(super) struct Chain {
    out: DeviceBuffer<f32>,
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

    fn work_per_request(&self) -> f64 {
        let Cost { fp32_flops, .. } = self.launch.cost();
        fp32_flops as f64
    }
}

/// The setup of a workload that launches the chain.
pub(super) fn chain(gpu: &Gpu, spec: &WorkloadSpec) -> Result<Box<dyn Prepared>, LoadError> {
    Ok(Box::new(Chain::new(gpu, spec)?))
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
