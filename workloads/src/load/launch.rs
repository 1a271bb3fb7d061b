//! The most common request: one kernel launch, always the same.

use gpubench_catalogue::workload::{self, COUNT_MAX};
use std::any::Any;

use gpubench_kernels::driver::{DeviceBuffer, DeviceProps, DriverError, Grid};
use gpubench_kernels::kernel::timing::Tick;
use gpubench_kernels::{Cost, Kernel, Launcher};
use gpubench_record::WorkloadSpec;

use super::error::spec;
use super::{Gpu, Guess, Load, LoadError, More, Output, Params, Prepared};

/// One launch per request, with its buffers.
pub(super) struct OneLaunch<L> {
    pub(super) launch: L,
    work: fn(&Cost) -> u64,
    output: Output<'static>,
    /// Buffers of the launch; held so that they stay allocated.
    _held: Box<dyn Any>,
}

impl<L: Launcher> OneLaunch<L> {
    /// Loads the kernel; `work` selects the part of its cost that counts.
    pub(super) fn new(
        gpu: &Gpu,
        launch: L,
        work: fn(&Cost) -> u64,
        output: Output<'static>,
        held: impl Any,
    ) -> Result<Self, LoadError> {
        gpu.kernels.prepare(&[launch.kernel()])?;
        Ok(Self { launch, work, output, _held: Box::new(held) })
    }
}

impl<L: Launcher> Prepared for OneLaunch<L> {
    fn step(&mut self, gpu: &Gpu) -> Result<(), DriverError> {
        self.launch.launch(&gpu.kernels, &gpu.stream)
    }

    fn output(&self) -> Output<'_> {
        match &self.output {
            Output::Parts(parts) => Output::Parts(parts.clone()),
            Output::None(reason) => Output::None(reason),
        }
    }

    fn work_per_request(&self) -> f64 {
        (self.work)(&self.launch.cost()) as f64
    }
}

// `launch` and `launch-sync`: bursts of the smallest kernel. Counter: each launch adds one to a
// word of device memory, which the check reads; on the host, calls of `cuLaunchKernel`.
//
// `launch` queues a burst without waiting; `launch-sync` waits for every launch before the next,
// as an eager program does. The launch path has no shares; each SM runs one block at a time.

/// Launches that a host queues in a second, in round figures, and with a wait for each.
const LAUNCHES_PER_S: f64 = 430e3;
const WAITED_LAUNCHES_PER_S: f64 = 148e3;

pub(super) const LAUNCH: &[Load] = &[
    BURST,
    Load {
        facts: &workload::LAUNCH_SYNC,
        setup: |gpu, spec| Ok(Box::new(Burst::new(gpu, spec, true)?)),
        more: More { expected: |_, _| Some(WAITED_LAUNCHES_PER_S), ..More::NONE },
        ..BURST
    },
];

const BURST: Load = Load {
    facts: &workload::LAUNCH,
    kernel: Some(Kernel::Tick),
    first_guess: burst_spec,
    setup: |gpu, spec| Ok(Box::new(Burst::new(gpu, spec, false)?)),
    verify: Some(verify_burst),
    more: More { expected: |_, _| Some(LAUNCHES_PER_S), ..More::NONE },
};

/// Parameters before calibration.
fn burst_spec(name: &'static str, props: &DeviceProps, _share: f64) -> Guess {
    let threads = props.warp_threads.max(1).into();
    Ok(spec(name, [("launches", 20), ("threads", threads)]))
}

#[derive(Debug)]
struct Burst {
    count: DeviceBuffer<u32>,
    launches: u64,
    tick: Tick,
    waits: bool,
}

impl Burst {
    fn new(gpu: &Gpu, spec: &WorkloadSpec, waits: bool) -> Result<Self, LoadError> {
        let params = Params::of(spec);
        let launches = params.get("launches", 1..=COUNT_MAX)?;
        // The bound makes the cast exact.
        let threads = params.get("threads", 1..=gpu.props.threads_per_block.into())? as u32;
        gpu.kernels.prepare(&[Kernel::Tick])?;
        let count = DeviceBuffer::from_slice(&gpu.context, &[0])?;
        let tick = Tick { count: count.device_ptr(), grid: Grid::new(1, threads) };
        Ok(Self { count, launches, tick, waits })
    }
}

impl Prepared for Burst {
    fn step(&mut self, gpu: &Gpu) -> Result<(), DriverError> {
        for number in 1..=self.launches {
            self.tick.launch(&gpu.kernels, &gpu.stream)?;
            // The load generator waits for the last one as for any request.
            if self.waits && number < self.launches {
                gpu.stream.synchronize()?;
            }
        }
        Ok(())
    }

    fn output(&self) -> Output<'_> {
        Output::None("its count grows with every launch")
    }

    fn work_per_request(&self) -> f64 {
        self.launches as f64
    }
}

/// Every launch of two requests was counted.
fn verify_burst(name: &'static str, gpu: &Gpu) -> Result<(), LoadError> {
    (Kernel::Tick.info().verify)(&gpu.kernels)?;
    for waits in [false, true] {
        let small = spec(name, [("launches", 7), ("threads", 32)]);
        let mut burst = Burst::new(gpu, &small, waits)?;
        burst.step(gpu)?;
        burst.step(gpu)?;
        gpu.stream.synchronize()?;
        let found = burst.count.to_vec()?;
        if found != [14] {
            let what = format!("{found:?} launches were counted, expected 14");
            return Err(LoadError::Wrong { workload: name, what });
        }
    }
    Ok(())
}

// `launch-flood`: the smallest kernel without a pause, which keeps the launch path busy. Counter:
// as in `launch`.

pub(super) const LAUNCH_FLOOD: &[Load] = &[Load { facts: &workload::LAUNCH_FLOOD, ..BURST }];
