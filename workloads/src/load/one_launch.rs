//! The most common request: one kernel launch, always the same.

use std::any::Any;

use gpubench_kernels::driver::DriverError;
use gpubench_kernels::{Cost, Kernel, Launcher};

use super::{Gpu, LoadError, Prepared};

/// One launch per request, with its buffers.
pub(super) struct OneLaunch<L> {
    pub(super) launch: L,
    work: fn(&Cost) -> u64,
    /// Buffers of the launch; held so that they stay allocated.
    _held: Box<dyn Any>,
}

impl<L: Launcher> OneLaunch<L> {
    /// Loads the kernel; `work` selects the part of its cost that counts.
    pub(super) fn new(
        gpu: &Gpu,
        launch: L,
        work: fn(&Cost) -> u64,
        held: impl Any,
    ) -> Result<Self, LoadError> {
        gpu.kernels.prepare(&[launch.kernel()])?;
        Ok(Self { launch, work, _held: Box::new(held) })
    }
}

impl<L: Launcher> Prepared for OneLaunch<L> {
    fn step(&mut self, gpu: &Gpu) -> Result<(), DriverError> {
        self.launch.launch(&gpu.kernels, &gpu.stream)
    }

    fn work_per_request(&self) -> f64 {
        (self.work)(&self.launch.cost()) as f64
    }
}

/// The kernel's own check.
pub(super) fn verify_kernel(gpu: &Gpu, kernel: Kernel) -> Result<(), LoadError> {
    Ok((kernel.info().verify)(&gpu.kernels)?)
}
