//! A workload as a table of facts and functions: what most of the catalogue is made of.
//!
//! `OneLaunch` is the commonest request: one kernel, the same every time.

use std::any::Any;

use gpubench_kernels::driver::{DeviceProps, DriverError};
use gpubench_kernels::{Cost, Kernel, Launcher};
use gpubench_record::{Role, SubAxis, WorkloadSpec};

use super::{Gpu, Knob, LoadError, Prepared, Throttle, Workload};

/// Allocates and loads what the requests of a workload need.
type Setup = fn(&Gpu, &WorkloadSpec) -> Result<Box<dyn Prepared>, LoadError>;

/// One entry of the catalogue.
pub(super) struct Entry {
    pub(super) name: &'static str,
    pub(super) summary: &'static str,
    pub(super) role: Role,
    pub(super) sub_axis: SubAxis,
    pub(super) resource: &'static str,
    pub(super) unit: &'static str,
    pub(super) kernel: Option<Kernel>,
    /// The counter, where it is not that of the kernel.
    pub(super) counter: Option<&'static str>,
    pub(super) knob: Option<Knob>,
    pub(super) throttle: Throttle,
    /// See [`Workload::answers`].
    pub(super) answers: &'static [i32],
    pub(super) needs: &'static str,
    pub(super) lacks: fn(&Gpu) -> Result<Option<String>, LoadError>,
    pub(super) first_guess: fn(&'static str, &DeviceProps, f64) -> Result<WorkloadSpec, LoadError>,
    pub(super) setup: Setup,
    pub(super) verify: fn(&'static str, &Gpu) -> Result<(), LoadError>,
}

/// Every device has it.
pub(super) fn lacks_nothing(_gpu: &Gpu) -> Result<Option<String>, LoadError> {
    Ok(None)
}

impl Workload for Entry {
    fn name(&self) -> &'static str {
        self.name
    }

    fn summary(&self) -> &'static str {
        self.summary
    }

    fn role(&self) -> Role {
        self.role
    }

    fn sub_axis(&self) -> SubAxis {
        self.sub_axis
    }

    fn resource(&self) -> &'static str {
        self.resource
    }

    fn unit(&self) -> &'static str {
        self.unit
    }

    fn kernel(&self) -> Option<Kernel> {
        self.kernel
    }

    fn counter(&self) -> &'static str {
        let of_kernel = || self.kernel.map_or("", |kernel| kernel.info().counter());
        self.counter.unwrap_or_else(of_kernel)
    }

    fn first_guess(&self, props: &DeviceProps, share: f64) -> Result<WorkloadSpec, LoadError> {
        (self.first_guess)(self.name, props, share)
    }

    fn knob(&self) -> Option<Knob> {
        self.knob
    }

    fn throttle(&self) -> Throttle {
        self.throttle
    }

    fn answers(&self) -> &'static [i32] {
        self.answers
    }

    fn needs(&self) -> &'static str {
        self.needs
    }

    fn lacks(&self, gpu: &Gpu) -> Result<Option<String>, LoadError> {
        (self.lacks)(gpu)
    }

    fn setup(&self, gpu: &Gpu, spec: &WorkloadSpec) -> Result<Box<dyn Prepared>, LoadError> {
        (self.setup)(gpu, spec)
    }

    fn verify(&self, gpu: &Gpu) -> Result<(), LoadError> {
        (self.verify)(self.name, gpu)
    }
}

/// One launch a request, with what it reads and writes.
pub(super) struct OneLaunch<L> {
    pub(super) launch: L,
    work: fn(&Cost) -> u64,
    /// Buffers of the launch; held so that they stay allocated.
    _held: Box<dyn Any>,
}

impl<L: Launcher> OneLaunch<L> {
    /// Loads the kernel; `work` says which part of its cost counts.
    pub(super) fn new(
        gpu: &Gpu,
        launch: L,
        work: fn(&Cost) -> u64,
        held: impl Any,
    ) -> Result<Self, LoadError> {
        gpu.kernels.prepare(&[launch.kernel()])?;
        Ok(Self {
            launch,
            work,
            _held: Box::new(held),
        })
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

/// The kernel's own check, which runs at a size made for it.
pub(super) fn verify_kernel(gpu: &Gpu, kernel: Kernel) -> Result<(), LoadError> {
    Ok((kernel.info().verify)(&gpu.kernels)?)
}
