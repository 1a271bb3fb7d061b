//! The user's view of an error: what a failure of another room means for the exit code and the
//! message.

use std::path::Path;

use gpubench_record::RefusalKind;
use gpubench_reports::StoreError;

use crate::device::nvml::{self, QueryError};
use crate::device::virtual_gpu::VirtualGpuError;
use crate::device::visible::VisibleError;
use crate::error::ExpectedError;
use crate::mechanism::host::{HostError, JournalError};
use crate::run::RunError;
use crate::tenant::TenantError;

/// A virtual GPU did not start.
#[must_use]
pub fn from_virtual_gpu(error: VirtualGpuError) -> ExpectedError {
    match error {
        VirtualGpuError::Machine(error) => {
            ExpectedError::Usage { problem: error.to_string(), remedy: None }
        }
        other => ExpectedError::NothingRan { reason: other.to_string() },
    }
}

/// NVML gives no access to a device.
#[must_use]
pub fn from_nvml(error: QueryError) -> ExpectedError {
    match error {
        QueryError::Device { which, .. } => ExpectedError::NoDevice {
            wanted: which,
            // What is found serves the message alone; without it the message is still true.
            found: nvml::devices().unwrap_or_default(),
        },
        other => no_devices(other),
    }
}

/// `CUDA_VISIBLE_DEVICES` allows no choice of a device.
#[must_use]
pub fn from_visible(error: VisibleError) -> ExpectedError {
    match error {
        VisibleError::Hidden(_) => ExpectedError::DevicesHidden { problem: error.to_string() },
        VisibleError::Order(_) => ExpectedError::Usage {
            problem: error.to_string(),
            remedy: Some("set CUDA_DEVICE_ORDER=PCI_BUS_ID, or list UUIDs".to_owned()),
        },
        VisibleError::Query(error) => from_nvml(error),
    }
}

/// The driver lists no device.
#[must_use]
pub fn no_devices(error: QueryError) -> ExpectedError {
    match error {
        QueryError::Load(source) => ExpectedError::NoDriver { reason: source.to_string() },
        QueryError::NoneListed | QueryError::Device { .. } | QueryError::Fact { .. } => {
            ExpectedError::NothingRan { reason: error.to_string() }
        }
    }
}

/// A change of the host failed.
#[must_use]
pub fn from_host(error: HostError) -> ExpectedError {
    match error {
        HostError::Journal(error) => from_journal(error),
        HostError::Refused(error) => ExpectedError::NotRestored { what: error.to_string() },
        HostError::NotRestored(what) => ExpectedError::NotRestored { what },
    }
}

/// The journal of host changes cannot be used.
#[must_use]
pub fn from_journal(error: JournalError) -> ExpectedError {
    match error {
        JournalError::Io { path, source } => ExpectedError::from_write(Path::new(&path), source),
        JournalError::Line { .. } => ExpectedError::NotRestored { what: error.to_string() },
        JournalError::NoFolder => ExpectedError::Usage {
            problem: error.to_string(),
            remedy: Some("set XDG_STATE_HOME".to_owned()),
        },
    }
}

/// The folder of a record cannot be used.
#[must_use]
pub fn from_store(dir: &Path, error: StoreError) -> ExpectedError {
    let (path, problem) = (dir.to_owned(), error.to_string());
    match error {
        StoreError::Version { source, .. } => {
            ExpectedError::IncompatibleVersion { path, problem: source.to_string() }
        }
        StoreError::Io { action: "read" | "list", .. } => {
            ExpectedError::RecordUnreadable { path, problem }
        }
        StoreError::Io { path, source, .. } => ExpectedError::from_write(path, source),
        StoreError::Occupied { .. } | StoreError::InUse { .. } => {
            ExpectedError::Usage { problem, remedy: None }
        }
        _ => ExpectedError::RecordUnreadable { path, problem },
    }
}

/// A tenant failed in a run with a victim of the user: the first tenant is that victim.
#[must_use]
pub fn from_user_victim(error: TenantError) -> ExpectedError {
    match error {
        TenantError::Refused { kind: RefusalKind::Program, what, .. } => {
            ExpectedError::VictimProgram { problem: what }
        }
        error => ExpectedError::NothingRan { reason: error.to_string() },
    }
}

/// A run ended before its plan did.
#[must_use]
pub fn from_run(error: RunError, out: &Path) -> ExpectedError {
    match error {
        RunError::Store(error) => from_store(out, error),
        RunError::Spawn(error) => ExpectedError::NothingRan { reason: error.to_string() },
        RunError::Tenant(error) => ExpectedError::NothingRan { reason: error.to_string() },
        RunError::NoAnswer(error) => ExpectedError::NothingRan { reason: error.to_string() },
        RunError::Verification(what) => {
            ExpectedError::NothingRan { reason: format!("kernel verification failed: {what}") }
        }
        error @ RunError::VirtualClock(_) => ExpectedError::Internal { what: error.to_string() },
        RunError::Bug(what) => ExpectedError::Internal { what },
        RunError::Cores(error) => {
            ExpectedError::Internal { what: format!("placing threads on cores: {error}") }
        }
        RunError::DiskFull => ExpectedError::DiskFull { path: out.to_path_buf() },
        RunError::Interrupted => ExpectedError::Interrupted { record: out.to_path_buf() },
        RunError::Host(error) => from_host(error),
        RunError::UnknownMechanism(name) => ExpectedError::Internal {
            what: format!("mechanism {name} is planned and cannot be run"),
        },
    }
}
