//! Errors of workloads: unknown names, impossible parameters, wrong results, driver errors.

use gpubench_kernels::VerifyError;
use gpubench_kernels::driver::DriverError;
use gpubench_record::RefusalKind;

use crate::generator::DeviceError;

/// Why a workload cannot run.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// Not in the catalogue.
    #[error("unknown workload {name:?} (known: {known})")]
    Unknown {
        /// The requested name.
        name: String,
        /// The known names.
        known: String,
    },
    /// A fault cannot be prepared from its input.
    #[error("fault {fault}: {what}")]
    Fault {
        fault: &'static str,
        /// What is wrong.
        what: &'static str,
    },
    /// A parameter is missing or not possible.
    #[error("workload {workload}: parameter {param} is {found}, accepted are {accepted}")]
    Param {
        workload: String,
        param: &'static str,
        /// Its value, or `missing`.
        found: String,
        /// The accepted values.
        accepted: String,
    },
    /// The device, or its share, has too little of a resource.
    #[error("workload {workload} needs {needs}, a share of {share} of this device has {has}")]
    TooSmall {
        workload: &'static str,
        /// What it needs.
        needs: String,
        share: f64,
        /// What the share has.
        has: String,
    },
    /// No parameters give a request of the target length.
    #[error(
        "workload {workload}: {attempts} attempts gave {found_ns} ns a request, not {target_ns}"
    )]
    Length {
        workload: &'static str,
        /// Number of attempts.
        attempts: u32,
        /// The closest length.
        found_ns: u64,
        /// The target length.
        target_ns: u64,
    },
    /// The steps of the knob are too long for this length.
    #[error(
        "no request of {target_ns} ns within {tolerance_pct} %: the nearest takes {nearest_ns} ns, \
         the smallest ({smallest}) {smallest_ns} ns"
    )]
    NoSuchLength {
        workload: &'static str,
        /// The target length.
        target_ns: u64,
        tolerance_pct: u32,
        /// The nearest possible length.
        nearest_ns: u64,
        /// The smallest possible length.
        smallest_ns: u64,
        /// The value of the knob for it.
        smallest: String,
    },
    /// The smallest demand of the victim is above its share.
    #[error(
        "workload {workload} demands at least {demand:.3} of the device, allowed are {limit:.3}"
    )]
    Demand {
        workload: &'static str,
        /// Fraction of the peak that one small block uses.
        demand: f64,
        /// Fraction that it may use.
        limit: f64,
    },
    /// A result was wrong.
    #[error("workload {workload}: {what}")]
    Wrong {
        workload: &'static str,
        /// What was wrong.
        what: String,
    },
    /// A kernel computed a wrong result.
    #[error(transparent)]
    Verify(#[from] VerifyError),
    /// A request failed.
    #[error("workload {workload}: {error}")]
    Failed { workload: &'static str, error: DeviceError },
    /// The driver refused.
    #[error(transparent)]
    Driver(#[from] DriverError),
}

impl LoadError {
    /// The kind that the coordinator receives.
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

    /// The driver's number, if the error is the driver's.
    #[must_use]
    pub fn code(&self) -> Option<i32> {
        match self {
            Self::Failed { error, .. } => error.code,
            Self::Driver(error) | Self::Verify(VerifyError::Driver(error)) => error.code(),
            _ => None,
        }
    }
}
