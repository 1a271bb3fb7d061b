//! Errors of workloads: unknown names, impossible parameters, wrong results, driver errors.

use gpubench_kernels::VerifyError;
use gpubench_kernels::driver::DriverError;
use gpubench_record::RefusalKind;

use crate::generator::DeviceError;

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
    /// A fault cannot be prepared with what it was given.
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
