//! The catalogue of workloads: what a tenant can be asked to do, one file each.
//!
//! To add one, write its file and add its line to `CATALOGUE`. All sizes come from the properties
//! of the device at hand or from the calibration on it.

use gpubench_kernels::driver::{Context, DeviceProps, DriverError, Stream};
use gpubench_kernels::{Kernel, KernelSet, VerifyError};
use gpubench_record::{RefusalKind, Role, SubAxis, WorkloadSpec};

use crate::generator::DeviceError;

mod alloc;
mod alloc_storm;
mod atomics;
mod block_slots;
mod calibrate;
mod chains;
mod compute;
mod context_storm;
mod dram_copy;
mod dram_read;
mod dram_write;
mod entry;
mod fma_hog;
mod fp64;
mod inference;
mod int;
mod issue;
mod l1;
mod l2;
mod l2_reads;
mod l2_stream;
mod l2_thrash;
mod launch;
mod launch_flood;
mod measure;
mod memory_hog;
mod module_storm;
mod paced_copy;
mod params;
mod pcie;
mod pcie_both;
mod pcie_d2h;
mod pcie_download;
mod pcie_h2d;
mod pin_storm;
mod pinned_copy;
mod power_virus;
mod reserve;
mod shared;
mod stream;
mod tensor;
mod tlb;
mod window_copy;

pub use calibrate::{Calibrated, calibrate};
use params::Params;

/// Every workload, victims first, in report order.
pub const CATALOGUE: &[&dyn Workload] = &[
    &compute::Compute,
    &stream::Stream,
    &l2::L2,
    &pcie::ENTRY,
    &pcie_download::ENTRY,
    &fp64::VICTIM_ENTRY,
    &int::VICTIM_ENTRY,
    &tensor::VICTIM_ENTRY,
    &shared::VICTIM_ENTRY,
    &l1::VICTIM_ENTRY,
    &issue::VICTIM_ENTRY,
    &inference::ENTRY,
    &launch::ENTRY,
    &launch::SYNC_ENTRY,
    &alloc::ENTRY,
    &tlb::VICTIM_ENTRY,
    &atomics::VICTIM_ENTRY,
    &reserve::ENTRY,
    &fma_hog::FmaHog,
    &fp64::AGGRESSOR_ENTRY,
    &int::AGGRESSOR_ENTRY,
    &tensor::AGGRESSOR_ENTRY,
    &shared::AGGRESSOR_ENTRY,
    &l1::AGGRESSOR_ENTRY,
    &block_slots::ENTRY,
    &issue::AGGRESSOR_ENTRY,
    &launch_flood::ENTRY,
    &alloc_storm::ENTRY,
    &context_storm::ENTRY,
    &module_storm::ENTRY,
    &pin_storm::ENTRY,
    &dram_copy::DramCopy,
    &dram_read::ENTRY,
    &dram_write::ENTRY,
    &tlb::AGGRESSOR_ENTRY,
    &l2_stream::L2Stream,
    &l2_thrash::ENTRY,
    &atomics::AGGRESSOR_ENTRY,
    &pcie_h2d::PcieH2d,
    &pcie_d2h::ENTRY,
    &pcie_both::ENTRY,
    &memory_hog::ENTRY,
    &power_virus::ENTRY,
];

/// Shortest and longest request that every workload with a knob is made for. One whose steps are
/// long, against the shortest, has those lengths that its steps come to.
pub const LENGTHS_NS: [u64; 2] = [100_000, 10_000_000];

/// The workload of that name.
///
/// # Errors
/// When there is none; the error lists those that there are.
pub fn find(name: &str) -> Result<&'static dyn Workload, LoadError> {
    CATALOGUE
        .iter()
        .copied()
        .find(|workload| workload.name() == name)
        .ok_or_else(|| {
            let known: Vec<_> = CATALOGUE.iter().map(|workload| workload.name()).collect();
            LoadError::Unknown {
                name: name.to_owned(),
                known: known.join(", "),
            }
        })
}

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

/// Something that a tenant can be asked to do.
pub trait Workload: Sync {
    /// Its name in profiles and records.
    fn name(&self) -> &'static str;

    /// What it does, in one line.
    fn summary(&self) -> &'static str;

    /// Whether it is measured or leans on others.
    fn role(&self) -> Role;

    /// The sub-axis that it feels (victim) or attacks (aggressor).
    fn sub_axis(&self) -> SubAxis;

    /// The resource that it lives on, in a word or two.
    fn resource(&self) -> &'static str;

    /// Unit of its work.
    fn unit(&self) -> &'static str;

    /// The kernel that it launches, if it launches one.
    fn kernel(&self) -> Option<Kernel>;

    /// The counter that proves that the resource was used.
    fn counter(&self) -> &'static str {
        self.kernel().map_or("", |kernel| kernel.info().counter())
    }

    /// Its parameters for a device, before calibration has found the length of a request.
    ///
    /// # Errors
    /// When the device or the share is too small for it.
    fn first_guess(&self, props: &DeviceProps, share: f64) -> Result<WorkloadSpec, LoadError>;

    /// The parameter to which the length of a request is proportional; none where a request is one
    /// call of the driver, which takes as long as it takes.
    fn knob(&self) -> Option<Knob>;

    /// The lengths that a request can be given, in a few words.
    fn lengths(&self) -> String {
        match self.knob() {
            None => "as long as one call of the driver takes".to_owned(),
            Some(Knob { param, granule, .. }) => {
                let [least_ms, most_ms] = LENGTHS_NS.map(|length_ns| length_ns as f64 / 1e6);
                format!("{least_ms} to {most_ms} ms, in steps of {granule} {param}")
            }
        }
    }

    /// How the demand of a victim is held to its share.
    fn throttle(&self) -> Throttle {
        Throttle::None
    }

    /// Numbers of the driver's refusals that answer a request as well as its success does, so that
    /// they stand in the rows and however many of them are no reason to give up.
    fn answers(&self) -> &'static [i32] {
        &[]
    }

    /// What it needs that not every device and mechanism has, empty for nothing.
    fn needs(&self) -> &'static str {
        ""
    }

    /// What this device lacks for it, in one line; none where it can run.
    ///
    /// # Errors
    /// When the device cannot be asked.
    fn lacks(&self, _gpu: &Gpu) -> Result<Option<String>, LoadError> {
        Ok(None)
    }

    /// Allocates and loads everything that requests need.
    ///
    /// # Errors
    /// When a parameter is missing or impossible, or the driver refuses.
    fn setup(&self, gpu: &Gpu, spec: &WorkloadSpec) -> Result<Box<dyn Prepared>, LoadError>;

    /// Checks results on the device, at a size made for it.
    ///
    /// # Errors
    /// When a result is wrong or the driver refuses.
    fn verify(&self, gpu: &Gpu) -> Result<(), LoadError>;
}

impl std::fmt::Debug for dyn Workload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// A workload with its buffers, ready for requests. Belongs to the issuing thread.
pub trait Prepared {
    /// Submits one request and does not wait for it.
    ///
    /// # Errors
    /// When the driver refuses.
    fn step(&mut self, gpu: &Gpu) -> Result<(), DriverError>;

    /// Requests until one repeats an earlier one exactly. All of them are first ones, which cost
    /// more: pages are mapped, and a virtual GPU finds out what they cost.
    fn cycle(&self) -> usize {
        1
    }

    /// What one request amounts to, in the unit of the workload.
    fn work_per_request(&self) -> f64;
}

/// How a victim is kept from demanding more than its share of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Throttle {
    /// Its shape does it: what it uses belongs to the SMs that it runs on.
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

/// Why a workload cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// Not in the catalogue.
    #[error("unknown workload {name:?} (known: {known})")]
    Unknown {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// A fault cannot be readied with what it was given.
    #[error("fault {fault}: {what}")]
    Fault {
        /// Which fault.
        fault: &'static str,
        /// What is wrong.
        what: &'static str,
    },
    /// A parameter that the workload needs is not there or not possible.
    #[error("workload {workload}: parameter {param} is {found}, accepted are {accepted}")]
    Param {
        /// Which workload.
        workload: String,
        /// Which parameter.
        param: &'static str,
        /// Its value, or `missing`.
        found: String,
        /// What it may be.
        accepted: String,
    },
    /// The device, or its share, has too little of something.
    #[error("workload {workload} needs {needs}, a share of {share} of this device has {has}")]
    TooSmall {
        /// Which workload.
        workload: &'static str,
        /// What it needs.
        needs: String,
        /// The share.
        share: f64,
        /// What is there.
        has: String,
    },
    /// No parameters give a request of the wanted length.
    #[error(
        "workload {workload}: {attempts} attempts gave {found_ns} ns a request, not {wanted_ns}"
    )]
    Length {
        /// Which workload.
        workload: &'static str,
        /// Tries made.
        attempts: u32,
        /// The closest.
        found_ns: u64,
        /// What was wanted.
        wanted_ns: u64,
    },
    /// The steps of the knob are too long for this length.
    #[error(
        "no request of {wanted_ns} ns within {tolerance_pct} %: the nearest takes {nearest_ns} ns, \
         the smallest ({least}) {least_ns} ns"
    )]
    NoSuchLength {
        /// Which workload.
        workload: &'static str,
        /// What was wanted.
        wanted_ns: u64,
        /// How far off it may be.
        tolerance_pct: u32,
        /// The nearest length that it has.
        nearest_ns: u64,
        /// The smallest that it has.
        least_ns: u64,
        /// With which value of its knob.
        least: String,
    },
    /// The least that the victim can demand is more than its share.
    #[error(
        "workload {workload} demands {demand:.3} of the device at the least, allowed are {limit:.3}"
    )]
    Demand {
        /// Which workload.
        workload: &'static str,
        /// Part of the peak that one small block takes.
        demand: f64,
        /// Part that it may take.
        limit: f64,
    },
    /// A result was wrong.
    #[error("workload {workload}: {what}")]
    Wrong {
        /// Which workload.
        workload: &'static str,
        /// What was wrong.
        what: String,
    },
    /// A kernel computed something else.
    #[error(transparent)]
    Verify(#[from] VerifyError),
    /// A request failed.
    #[error("workload {workload}: {error}")]
    Failed {
        /// Which workload.
        workload: &'static str,
        /// What the device said.
        error: DeviceError,
    },
    /// The driver refused.
    #[error(transparent)]
    Driver(#[from] DriverError),
}

impl LoadError {
    /// How a tenant tells the coordinator.
    #[must_use]
    pub fn kind(&self) -> RefusalKind {
        match self {
            Self::NoSuchLength { .. } => RefusalKind::Waived,
            Self::Wrong { .. } => RefusalKind::WrongResult,
            Self::Verify(error) if !matches!(error, VerifyError::Driver(_)) => {
                RefusalKind::WrongResult
            }
            _ => RefusalKind::of_code(self.code()),
        }
    }

    /// The driver's number, where it was the driver.
    #[must_use]
    pub fn code(&self) -> Option<i32> {
        match self {
            Self::Failed { error, .. } => error.code,
            Self::Driver(error) | Self::Verify(VerifyError::Driver(error)) => error.code(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
