//! Why a call of the management interface is refused.

use std::io;

use crate::code::{self, Code};
use crate::device::DeviceError;
use crate::diagnostics::say;
use gpubench_virtual_gpu_model::mig::MigError;

/// A result that is not success, by its number in `nvmlReturn_t` (nvml.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum Error {
    Uninitialized = 1,
    InvalidArgument = 2,
    NotSupported = 3,
    NoPermission = 4,
    NotFound = 6,
    DriverNotLoaded = 9,
    Timeout = 10,
    OperatingSystem = 17,
    InUse = 19,
    NoData = 21,
    InsufficientResources = 23,
    Unknown = 999,
}

impl From<DeviceError> for Error {
    /// The program gets a number; standard error gets the reason.
    fn from(error: DeviceError) -> Self {
        say(&error.to_string());
        Self::Unknown
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::from(DeviceError::State(error))
    }
}

impl From<Code> for Error {
    /// The result of a table of handles.
    fn from(code: Code) -> Self {
        match code {
            code::INVALID_HANDLE => Self::InvalidArgument,
            code::OUT_OF_MEMORY => Self::InsufficientResources,
            _ => Self::Unknown,
        }
    }
}

impl From<MigError> for Error {
    fn from(error: MigError) -> Self {
        match error {
            MigError::Off => Self::NotSupported,
            MigError::Unknown => Self::InvalidArgument,
            MigError::NoRoom => Self::InsufficientResources,
            MigError::InUse => Self::InUse,
        }
    }
}
