//! What a tenant answers when it could not do what was asked.

use gpubench_kernels::driver::DriverError;
use gpubench_record::FromTenant;

use crate::clock::ClockError;
use crate::generator::{DeviceError, PartError};
use crate::load::LoadError;
use crate::log::LogError;
use crate::probe::ProbeError;

/// Why a message could not be answered as asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{doing}: {what}")]
pub struct Failure {
    doing: &'static str,
    what: String,
    code: Option<i32>,
}

impl Failure {
    /// What was being done, what went wrong in one line, and the driver's number if there is one.
    #[must_use]
    pub fn new(doing: &'static str, what: impl Into<String>, code: Option<i32>) -> Self {
        Self {
            doing,
            what: what.into().replace('\n', " "),
            code,
        }
    }
}

impl From<Failure> for FromTenant {
    fn from(Failure { doing, what, code }: Failure) -> Self {
        Self::Error {
            doing: doing.to_owned(),
            what,
            code,
        }
    }
}

/// Gives an error the words for what was being done.
pub(super) trait While<T> {
    /// The same, as a failure while `doing`.
    fn doing(self, doing: &'static str) -> Result<T, Failure>;
}

macro_rules! failures {
    ($( $error:ty => $code:expr; )*) => { $(
        impl<T> While<T> for Result<T, $error> {
            fn doing(self, doing: &'static str) -> Result<T, Failure> {
                self.map_err(|error| {
                    let code: fn(&$error) -> Option<i32> = $code;
                    Failure::new(doing, error.to_string(), code(&error))
                })
            }
        }
    )* };
}

failures! {
    ClockError => |_| None;
    DeviceError => |error| error.code;
    DriverError => DriverError::code;
    LoadError => LoadError::code;
    LogError => |_| None;
    PartError => |_| None;
    ProbeError => ProbeError::code;
    gpubench_stats::ScheduleError => |_| None;
}
