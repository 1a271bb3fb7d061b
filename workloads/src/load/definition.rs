//! The definition of a load: the device code of a workload, as functions that size it, set it up
//! and check it.

use gpubench_catalogue::workload::Workload;
use gpubench_kernels::Kernel;
use gpubench_kernels::driver::{DeviceProps, DriverError};
use gpubench_record::WorkloadSpec;

use super::expected::{self, Expected};
use super::{Gpu, LoadError, Output};

/// The device code of a workload. Every load sets every field; fields with a usual default are in
/// [`More`].
pub struct Load {
    pub facts: &'static Workload,
    /// Its kernel, if it launches one.
    pub kernel: Option<Kernel>,
    pub(super) first_guess: FirstGuess,
    pub(super) setup: Setup,
    /// Its check; `None` for the check of its kernel.
    pub(super) verify: Option<Verify>,
    pub(super) more: More,
}

/// Parameters for a device, before calibration.
type FirstGuess = fn(&'static str, &DeviceProps, f64) -> Guess;
pub(super) type Guess = Result<WorkloadSpec, LoadError>;
pub(super) type Setup = fn(&Gpu, &WorkloadSpec) -> Result<Box<dyn Prepared>, LoadError>;
/// Checks results on the device.
type Verify = fn(&'static str, &Gpu) -> Result<(), LoadError>;

#[derive(Clone, Copy)]
pub(super) struct More {
    /// Its rate by the figures that the device reports.
    pub(super) expected: Expected,
    /// Number of SMs that saturate its resource, for a throttle by blocks.
    pub(super) saturating_sms: fn(&DeviceProps) -> f64,
    /// See [`Load::lacks`].
    pub(super) lacks: fn(&Gpu) -> Result<Option<String>, LoadError>,
}

impl More {
    /// No expected rate, every SM, nothing that a device lacks.
    pub(super) const NONE: Self = Self {
        expected: expected::UNKNOWN,
        saturating_sms: |props| f64::from(props.sm_count),
        lacks: |_| Ok(None),
    };
}

impl Load {
    /// A victim and an aggressor that launch the same kernel, with its own check.
    pub(super) const fn pair(
        [victim, aggressor]: [&'static Workload; 2],
        kernel: Kernel,
        [of_share, of_all]: [FirstGuess; 2],
        setup: Setup,
        [victims, more]: [More; 2],
    ) -> [Self; 2] {
        let (kernel, verify) = (Some(kernel), None);
        [
            Self { facts: victim, kernel, first_guess: of_share, setup, verify, more: victims },
            Self { facts: aggressor, kernel, first_guess: of_all, setup, verify, more },
        ]
    }

    /// The work per second of these parameters by the figures that the device reports.
    pub(super) fn expected_per_s(&self, props: &DeviceProps, spec: &WorkloadSpec) -> Option<f64> {
        (self.more.expected)(props, spec)
    }

    pub(super) fn saturating_sms(&self, props: &DeviceProps) -> f64 {
        (self.more.saturating_sms)(props)
    }

    /// What this device lacks, in one line; `None` where the workload can run.
    pub fn lacks(&self, gpu: &Gpu) -> Result<Option<String>, LoadError> {
        (self.more.lacks)(gpu)
    }

    /// Its parameters for a device, before calibration.
    pub fn first_guess(&self, props: &DeviceProps, share: f64) -> Guess {
        (self.first_guess)(self.facts.name, props, share)
    }

    /// Allocates and loads everything for its requests.
    pub fn setup(&self, gpu: &Gpu, spec: &WorkloadSpec) -> Result<Box<dyn Prepared>, LoadError> {
        (self.setup)(gpu, spec)
    }

    /// Checks results on the device, at a size of its own.
    pub fn verify(&self, gpu: &Gpu) -> Result<(), LoadError> {
        match (self.verify, self.kernel) {
            (Some(verify), _) => verify(self.facts.name, gpu),
            (None, Some(kernel)) => Ok((kernel.info().verify)(&gpu.kernels)?),
            (None, None) => Ok(()),
        }
    }
}

impl std::fmt::Debug for Load {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.facts.name)
    }
}

/// A workload with its buffers, ready for requests. Belongs to the issuing thread.
pub trait Prepared {
    /// Submits one request and does not wait for it.
    fn step(&mut self, gpu: &Gpu) -> Result<(), DriverError>;

    /// Number of requests until one equals an earlier one exactly. Each of them is slower at its
    /// first run: pages are mapped, and a virtual GPU computes its cost.
    fn cycle(&self) -> usize {
        1
    }

    /// What its requests leave behind.
    fn output(&self) -> Output<'_>;

    fn work_per_request(&self) -> f64;
}
