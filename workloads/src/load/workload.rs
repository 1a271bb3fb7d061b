//! What a workload is: facts, and functions that size it, set it up and check it.

use gpubench_kernels::Kernel;
use gpubench_kernels::KernelSet;
use gpubench_kernels::driver::{Context, DeviceProps, DriverError, Stream};
use gpubench_record::{Role, SubAxis, WorkloadSpec};

use super::LoadError;

/// Something that a tenant can be asked to do. Every workload states every fact; what most of them
/// leave at its default is in [`More`].
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
    /// Workloads of the other role that it is paired with, beside those that name it here. A pair
    /// is scored under the sub-axis of its aggressor.
    pub meets: &'static [&'static str],
    /// The kernel that it launches, if it launches one.
    pub kernel: Option<Kernel>,
    /// The parameter to which the length of a request is proportional; `None` where a request is
    /// one driver call of fixed length.
    pub knob: Option<Knob>,
    pub(super) first_guess: FirstGuess,
    pub(super) setup: Setup,
    pub(super) verify: Verify,
    pub(super) more: More,
}

/// Parameters for a device, before calibration has found the length of a request.
type FirstGuess = fn(&'static str, &DeviceProps, f64) -> Result<WorkloadSpec, LoadError>;
/// Allocates and loads what the requests of a workload need.
type Setup = fn(&Gpu, &WorkloadSpec) -> Result<Box<dyn Prepared>, LoadError>;
/// Checks results on the device.
type Verify = fn(&'static str, &Gpu) -> Result<(), LoadError>;

/// Facts with a default.
pub(super) struct More {
    /// The counter that shows the use of the resource, where it is not that of the kernel.
    pub(super) counter: Option<&'static str>,
    /// See [`Workload::throttle`].
    pub(super) throttle: Throttle,
    /// See [`Workload::answers`].
    pub(super) answers: &'static [i32],
    /// See [`Workload::needs`].
    pub(super) needs: &'static str,
    /// See [`Workload::lacks`].
    pub(super) lacks: fn(&Gpu) -> Result<Option<String>, LoadError>,
}

impl More {
    /// The counter of the kernel, no throttle, no refusal that is an answer, no special needs.
    pub(super) const NONE: Self = Self {
        counter: None,
        throttle: Throttle::None,
        answers: &[],
        needs: "",
        lacks: |_| Ok(None),
    };
}

impl Workload {
    /// The counter that shows that the resource was used.
    #[must_use]
    pub fn counter(&self) -> &'static str {
        let of_kernel = || self.kernel.map_or("", |kernel| kernel.info().counter());
        self.more.counter.unwrap_or_else(of_kernel)
    }

    /// The lengths that a request can be given, in a few words.
    #[must_use]
    pub fn lengths(&self) -> String {
        match self.knob {
            None => "as long as one call of the driver takes".to_owned(),
            Some(Knob { param, granule, .. }) => {
                let [least_ms, most_ms] = LENGTHS_NS.map(|length_ns| length_ns as f64 / 1e6);
                format!("{least_ms} to {most_ms} ms, in steps of {granule} {param}")
            }
        }
    }

    /// How the demand of a victim is held to its share.
    #[must_use]
    pub const fn throttle(&self) -> Throttle {
        self.more.throttle
    }

    /// Driver error codes that answer a request as well as success does. They stay in the rows as
    /// they are, and no number of them ends the cell.
    #[must_use]
    pub const fn answers(&self) -> &'static [i32] {
        self.more.answers
    }

    /// What it needs that not every device and mechanism has, empty for nothing.
    #[must_use]
    pub const fn needs(&self) -> &'static str {
        self.more.needs
    }

    /// What this device lacks for it, in one line; `None` where it can run.
    ///
    /// # Errors
    /// When the device cannot be asked.
    pub fn lacks(&self, gpu: &Gpu) -> Result<Option<String>, LoadError> {
        (self.more.lacks)(gpu)
    }

    /// Its parameters for a device, before calibration has found the length of a request.
    ///
    /// # Errors
    /// When the device or the share is too small for it.
    pub fn first_guess(&self, props: &DeviceProps, share: f64) -> Result<WorkloadSpec, LoadError> {
        (self.first_guess)(self.name, props, share)
    }

    /// Allocates and loads everything that requests need.
    ///
    /// # Errors
    /// When a parameter is missing or impossible, or the driver refuses.
    pub fn setup(&self, gpu: &Gpu, spec: &WorkloadSpec) -> Result<Box<dyn Prepared>, LoadError> {
        (self.setup)(gpu, spec)
    }

    /// Checks results on the device, at a size made for it.
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

/// Shortest and longest request that every workload with a knob is made for. Where one step of the
/// knob is long against the shortest, only whole numbers of steps are possible.
pub const LENGTHS_NS: [u64; 2] = [100_000, 10_000_000];

/// A device ready for work: its context, its kernels and the stream on which requests run.
#[derive(Debug)]
pub struct Gpu {
    /// The context; current on the issuing thread.
    pub context: Context,
    /// The kernels of the context.
    pub kernels: KernelSet,
    /// Where requests are submitted.
    pub stream: Stream,
    /// The sizes that loads follow.
    pub props: DeviceProps,
    /// Whether a waiting thread spins.
    pub spin: bool,
}

/// A workload with its buffers, ready for requests. Belongs to the issuing thread.
pub trait Prepared {
    /// Submits one request and does not wait for it.
    ///
    /// # Errors
    /// When the driver refuses.
    fn step(&mut self, gpu: &Gpu) -> Result<(), DriverError>;

    /// Requests until one repeats an earlier one exactly. All of them are first ones, which cost
    /// more: pages are mapped, and a virtual GPU determines their cost.
    fn cycle(&self) -> usize {
        1
    }

    /// What one request amounts to, in the unit of the workload.
    fn work_per_request(&self) -> f64;
}

/// How a victim is kept from demanding more than its share of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Throttle {
    /// Its shape does it: the resource belongs to the SMs that it runs on.
    None,
    /// By fewer or smaller blocks: a few SMs already take more than that part of the resource.
    Blocks,
    /// By pauses between the parts of a request: each part takes the whole resource. The parameter
    /// `rate_per_s` is the most work that it does in a second, 0 for no pauses.
    Pauses,
}

/// A parameter that sets the length of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Knob {
    /// Its name in the parameters.
    pub param: &'static str,
    /// Its values are multiples of this.
    pub granule: u64,
    /// Its greatest value.
    pub max: u64,
}
