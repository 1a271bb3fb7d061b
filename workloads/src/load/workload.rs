//! The definition of a workload: its properties, and functions that size it, set it up and check
//! it.

use gpubench_kernels::Kernel;
use gpubench_kernels::KernelSet;
use gpubench_kernels::driver::{Context, DeviceProps, DriverError, Stream};
use gpubench_record::{Role, SubAxis, WorkloadSpec};

use super::LoadError;
use super::expected::{self, Expected};

/// A load that a tenant can run. Every workload sets every field; fields with a usual default are
/// in [`More`].
pub struct Workload {
    /// Its name in profiles and records.
    pub name: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
    /// Whether it is measured (victim) or stresses a resource (aggressor).
    pub role: Role,
    /// The sub-axis of the resource that it uses.
    pub sub_axis: SubAxis,
    /// The resource that it depends on (victim) or exhausts (aggressor).
    pub resource: &'static str,
    /// Unit of its work.
    pub unit: &'static str,
    /// Workloads of the other role with which it is paired, beside those that list it. A pair is
    /// scored under the sub-axis of its aggressor.
    pub meets: &'static [&'static str],
    /// Its kernel, if it launches one.
    pub kernel: Option<Kernel>,
    /// The parameter proportional to the length of a request; `None` where a request is one driver
    /// call of fixed length.
    pub knob: Option<Knob>,
    pub(super) first_guess: FirstGuess,
    pub(super) setup: Setup,
    pub(super) verify: Verify,
    pub(super) more: More,
}

/// Parameters for a device, before calibration.
type FirstGuess = fn(&'static str, &DeviceProps, f64) -> Result<WorkloadSpec, LoadError>;
/// Allocates and loads everything for the requests of a workload.
type Setup = fn(&Gpu, &WorkloadSpec) -> Result<Box<dyn Prepared>, LoadError>;
/// Checks results on the device.
type Verify = fn(&'static str, &Gpu) -> Result<(), LoadError>;

/// A resource with a highest rate that follows from clocks and widths. A multiply-add counts as two
/// operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ceiling {
    /// Bytes of DRAM, read and written.
    Dram,
    /// Single-precision operations.
    Single,
    /// Double-precision operations.
    Double,
    /// 32-bit integer multiply-adds.
    Int,
    /// Operations of tensor cores on half-precision inputs with single-precision sums.
    Tensor,
    /// Bytes of the host link, in one direction.
    Link,
    /// Bytes of the host link, in both directions together.
    LinkBothWays,
}

/// Properties with a default.
pub(super) struct More {
    /// The counter of the resource, where it is not that of the kernel.
    pub(super) counter: Option<&'static str>,
    /// See [`Workload::throttle`].
    pub(super) throttle: Throttle,
    /// See [`Workload::answers`].
    pub(super) answers: &'static [i32],
    /// See [`Workload::ceiling`].
    pub(super) ceiling: Option<Ceiling>,
    /// Its rate by the figures that the device reports.
    pub(super) expected: Expected,
    /// Number of SMs that saturate its resource, for a throttle by blocks.
    pub(super) saturating_sms: fn(&DeviceProps) -> f64,
    /// See [`Workload::needs`].
    pub(super) needs: &'static str,
    /// See [`Workload::lacks`].
    pub(super) lacks: fn(&Gpu) -> Result<Option<String>, LoadError>,
}

impl More {
    /// The kernel's counter, no throttle, no answers, no ceiling, no expected rate, no needs.
    pub(super) const NONE: Self = Self {
        counter: None,
        throttle: Throttle::None,
        answers: &[],
        ceiling: None,
        expected: expected::UNKNOWN,
        saturating_sms: |props| f64::from(props.sm_count),
        needs: "",
        lacks: |_| Ok(None),
    };
}

impl Workload {
    /// The counter that shows the use of the resource.
    #[must_use]
    pub fn counter(&self) -> &'static str {
        let of_kernel = || self.kernel.map_or("", |kernel| kernel.info().counter());
        self.more.counter.unwrap_or_else(of_kernel)
    }

    /// The possible lengths of a request, as text.
    #[must_use]
    pub fn lengths(&self) -> String {
        match self.knob {
            None => "one driver call of fixed length".to_owned(),
            Some(Knob { param, granule, .. }) => {
                let [shortest_ms, longest_ms] = LENGTHS_NS.map(|length_ns| length_ns as f64 / 1e6);
                format!("{shortest_ms} to {longest_ms} ms, in steps of {granule} {param}")
            }
        }
    }

    /// How the demand of a victim is limited to its share.
    #[must_use]
    pub const fn throttle(&self) -> Throttle {
        self.more.throttle
    }

    /// Driver error codes that answer a request as success does. They stay in the rows, and no
    /// number of them ends the cell.
    #[must_use]
    pub const fn answers(&self) -> &'static [i32] {
        self.more.answers
    }

    /// The resource of an aggressor, where the clocks and widths of a device give its highest rate
    /// in the unit of the workload.
    #[must_use]
    pub const fn ceiling(&self) -> Option<Ceiling> {
        self.more.ceiling
    }

    /// The work per second of these parameters by the figures that the device reports.
    pub(super) fn expected_per_s(&self, props: &DeviceProps, spec: &WorkloadSpec) -> Option<f64> {
        (self.more.expected)(props, spec)
    }

    /// Number of SMs that saturate its resource by the figures that the device reports.
    pub(super) fn saturating_sms(&self, props: &DeviceProps) -> f64 {
        (self.more.saturating_sms)(props)
    }

    /// Its needs beyond those of every device and mechanism; empty for none.
    #[must_use]
    pub const fn needs(&self) -> &'static str {
        self.more.needs
    }

    /// What this device lacks, in one line; `None` where the workload can run.
    ///
    /// # Errors
    /// When a query of the device fails.
    pub fn lacks(&self, gpu: &Gpu) -> Result<Option<String>, LoadError> {
        (self.more.lacks)(gpu)
    }

    /// Its parameters for a device, before calibration.
    ///
    /// # Errors
    /// When the device or the share is too small for it.
    pub fn first_guess(&self, props: &DeviceProps, share: f64) -> Result<WorkloadSpec, LoadError> {
        (self.first_guess)(self.name, props, share)
    }

    /// Allocates and loads everything for its requests.
    ///
    /// # Errors
    /// When a parameter is missing or impossible, or the driver refuses.
    pub fn setup(&self, gpu: &Gpu, spec: &WorkloadSpec) -> Result<Box<dyn Prepared>, LoadError> {
        (self.setup)(gpu, spec)
    }

    /// Checks results on the device, at a size of its own.
    ///
    /// # Errors
    /// When a result is wrong or the driver refuses.
    pub fn verify(&self, gpu: &Gpu) -> Result<(), LoadError> {
        (self.verify)(self.name, gpu)
    }
}

impl std::fmt::Debug for Workload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// Shortest and longest request for which every workload with a knob is made. Where one step of the
/// knob is long compared with the shortest, only whole steps are possible.
pub const LENGTHS_NS: [u64; 2] = [100_000, 10_000_000];

/// A device ready for work: its context, its kernels and the stream of its requests.
#[derive(Debug)]
pub struct Gpu {
    /// The context; current on the issuing thread.
    pub context: Context,
    /// The kernels of the context.
    pub kernels: KernelSet,
    /// The stream of the requests.
    pub stream: Stream,
    /// The properties that size loads.
    pub props: DeviceProps,
    /// Whether a waiting thread spins.
    pub spin: bool,
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

    /// The work of one request, in the unit of the workload.
    fn work_per_request(&self) -> f64;
}

/// How a victim's demand for a resource is limited to its share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Throttle {
    /// By its shape: the resource belongs to its SMs.
    None,
    /// By fewer or smaller blocks: a few SMs already use more than the share of the resource.
    Blocks,
    /// By pauses between the parts of a request, each of which uses the whole resource. The
    /// parameter `rate_per_s` is the maximum work per second, 0 for no pauses.
    Pauses,
}

/// A parameter that sets the length of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Knob {
    /// Its name in the parameters.
    pub param: &'static str,
    /// Its values are multiples of this.
    pub granule: u64,
    /// Its maximum.
    pub max: u64,
}
