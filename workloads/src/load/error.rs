//! Errors of workloads: unknown names, impossible parameters, wrong results, driver errors.

use std::ops::RangeInclusive;

use gpubench_kernels::VerifyError;
use gpubench_kernels::driver::{DeviceProps, DriverError, Grid};
use gpubench_record::{RefusalKind, WorkloadSpec};

use crate::generator::DeviceError;

/// Why a workload cannot run.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// Not in the catalogue.
    #[error("unknown workload {name:?} (known: {known})")]
    Unknown { name: String, known: String },
    /// A fault cannot be prepared from its input.
    #[error("fault {fault}: {what}")]
    Fault { fault: &'static str, what: &'static str },
    /// A parameter is missing or not possible.
    #[error("workload {workload}: parameter {param} is {found}, accepted are {accepted}")]
    Param {
        workload: String,
        param: &'static str,
        /// Its value, or `missing`.
        found: String,
        accepted: String,
    },
    /// The device, or its share, has too little of a resource.
    #[error("workload {workload} needs {needs}, a share of {share} of this device has {has}")]
    TooSmall { workload: &'static str, needs: String, share: f64, has: String },
    /// No parameters give a request of the target length.
    #[error(
        "workload {workload}: {attempts} attempts gave {found_ns} ns a request, not {target_ns}"
    )]
    Length { workload: &'static str, attempts: u32, found_ns: u64, target_ns: u64 },
    /// The steps of the knob are too long for this length.
    #[error(
        "no request of {target_ns} ns within {tolerance_pct} %: the nearest takes {nearest_ns} ns, \
         the smallest ({smallest}) {smallest_ns} ns"
    )]
    NoSuchLength {
        workload: &'static str,
        target_ns: u64,
        tolerance_pct: u32,
        nearest_ns: u64,
        smallest_ns: u64,
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
    #[error("workload {workload}: {what}")]
    Wrong { workload: &'static str, what: String },
    /// A kernel computed a wrong result.
    #[error(transparent)]
    Verify(#[from] VerifyError),
    #[error("workload {workload}: {error}")]
    Failed { workload: &'static str, error: DeviceError },
    #[error(transparent)]
    Driver(#[from] DriverError),
}

impl LoadError {
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
    pub fn code(&self) -> Option<i32> {
        match self {
            Self::Failed { error, .. } => error.code,
            Self::Driver(error) | Self::Verify(VerifyError::Driver(error)) => error.code(),
            _ => None,
        }
    }
}

// Parameters of a workload, read with their limits: they may come from a file that a user edited.

/// Upper limit of any number of bytes or iterations, so that sums do not overflow.
pub(super) const SIZE_MAX: u64 = 1 << 48;

#[derive(Debug)]
pub(super) struct Params<'s>(&'s WorkloadSpec);

impl<'s> Params<'s> {
    pub(super) fn of(spec: &'s WorkloadSpec) -> Self {
        Self(spec)
    }

    pub(super) fn get(
        &self,
        param: &'static str,
        accepted: RangeInclusive<u64>,
    ) -> Result<u64, LoadError> {
        let found = self.0.params.get(param);
        found.copied().filter(|value| accepted.contains(value)).ok_or_else(|| LoadError::Param {
            workload: self.0.name.clone(),
            param,
            found: found.map_or_else(|| "missing".to_owned(), u64::to_string),
            accepted: format!("{} to {}", accepted.start(), accepted.end()),
        })
    }

    /// A number of bytes or iterations, at least 1.
    pub(super) fn size(&self, param: &'static str) -> Result<u64, LoadError> {
        self.get(param, 1..=SIZE_MAX)
    }

    /// A parameter that a kernel takes as 32 bits, at least 1.
    pub(super) fn word(&self, param: &'static str) -> Result<u32, LoadError> {
        // The bound makes the cast exact.
        Ok(self.get(param, 1..=u64::from(u32::MAX))? as u32)
    }

    /// The launch shape, from `blocks` and `threads`.
    pub(super) fn grid(&self, props: &DeviceProps) -> Result<Grid, LoadError> {
        // 2^31 - 1 blocks is the limit of every architecture (CUDA C++ Programming Guide,
        // "Technical specifications per compute capability"). The bounds make the casts exact.
        let blocks = self.get("blocks", 1..=i32::MAX.unsigned_abs().into())? as u32;
        let threads = self.get("threads", 1..=props.threads_per_block.into())? as u32;
        Ok(Grid::new(blocks, threads))
    }
}

/// A workload with these parameters.
pub(super) fn spec<const N: usize>(name: &str, params: [(&str, u64); N]) -> WorkloadSpec {
    let params = params.into_iter().map(|(param, value)| (param.to_owned(), value)).collect();
    WorkloadSpec { name: name.to_owned(), params }
}

/// Number of SMs that fit in the share, or an error if there is none.
pub(super) fn whole_sms(
    workload: &'static str,
    props: &DeviceProps,
    share: f64,
) -> Result<u64, LoadError> {
    // A share such as 3/7 of 7 must not lose an SM to rounding.
    let has = f64::from(props.sm_count) * share + 1e-9;
    if has < 1.0 || !share.is_finite() {
        let has = format!("{has:.2} SMs");
        return Err(LoadError::TooSmall { workload, needs: "one whole SM".to_owned(), share, has });
    }
    // At most the number of SMs, which is 32 bits.
    Ok(has.floor() as u64)
}
