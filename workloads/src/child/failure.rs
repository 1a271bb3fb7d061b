//! The reply of a tenant that could not carry out a message.

use gpubench_kernels::driver::DriverError;
use gpubench_record::{FromTenant, RefusalKind};

use crate::clock::ClockError;
use crate::generator::{CellRunError, DeviceError};
use crate::load::LoadError;
use crate::log::LogError;
use crate::probe::ProbeError;

/// Why a message could not be carried out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{doing}: {text}")]
pub struct Failure {
    doing: &'static str,
    kind: RefusalKind,
    text: String,
}

impl Failure {
    /// The step, the kind of failure, and its error in one line.
    #[must_use]
    pub fn new(doing: &'static str, kind: RefusalKind, text: impl Into<String>) -> Self {
        Self { doing, kind, text: text.into().replace('\n', " ") }
    }

    /// A failure of no special kind.
    #[must_use]
    pub fn other(doing: &'static str, text: impl Into<String>) -> Self {
        Self::new(doing, RefusalKind::Other, text)
    }
}

impl From<Failure> for FromTenant {
    fn from(Failure { doing, kind, text }: Failure) -> Self {
        Self::Refused { doing: doing.to_owned(), kind, text }
    }
}

/// Adds the step to an error.
pub(crate) trait While<T> {
    /// The error as a failure of the step `doing`.
    fn doing(self, doing: &'static str) -> Result<T, Failure>;
}

macro_rules! failures {
    ($( $error:ty => $kind:expr; )*) => { $(
        impl<T> While<T> for Result<T, $error> {
            fn doing(self, doing: &'static str) -> Result<T, Failure> {
                self.map_err(|error| {
                    let kind: fn(&$error) -> RefusalKind = $kind;
                    Failure::new(doing, kind(&error), error.to_string())
                })
            }
        }
    )* };
}

failures! {
    ClockError => |_| RefusalKind::Other;
    DeviceError => |error| RefusalKind::of_code(error.code);
    DriverError => |error| RefusalKind::of_code(error.code());
    LoadError => LoadError::kind;
    LogError => LogError::kind;
    CellRunError => |_| RefusalKind::Other;
    ProbeError => |error| RefusalKind::of_code(error.code());
    gpubench_stats::ScheduleError => |_| RefusalKind::Other;
}
