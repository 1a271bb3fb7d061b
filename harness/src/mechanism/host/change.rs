//! One change to the host: what it is, and how it is made. `undo` undoes it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::control::{Control, ControlError};
use super::daemon::DaemonConfig;
use crate::device::mig::{Instance, Placement};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "kebab-case")]
pub enum Change {
    /// The compute mode, by the vendor's name: which processes may have a context.
    ComputeMode {
        /// The value that was found.
        found: String,
        set: String,
    },
    /// The length of a time slice, by the vendor's name.
    Timeslice {
        /// The value that was found.
        found: String,
        set: String,
    },
    MigMode {
        /// The value that was found.
        found: bool,
        set: bool,
    },
    /// A new GPU instance.
    MigInstance {
        /// Name of its profile, for messages.
        profile: String,
        profile_id: u32,
        placement: Placement,
        /// UUIDs of its compute instances, by which it is known; empty until it is made.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        uuids: Vec<String>,
    },
    /// An MPS control daemon of our own.
    MpsDaemon {
        /// Its folders, device and options.
        daemon: DaemonConfig,
    },
    /// A control group of our own.
    ControlGroup {
        /// Its folder.
        path: PathBuf,
    },
    /// The limit on the device memory of a control group of our own.
    MemoryLimit {
        /// Folder of the group.
        group: PathBuf,
        /// The limit on all of its processes together.
        hard_mib: u64,
    },
    /// A private folder.
    Folder { path: PathBuf },
}

/// The result of making a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Made {
    /// Nothing that the caller needs.
    Nothing,
    Instance(Instance),
}

impl Change {
    /// A short description, as `plan` and `cleanup` print it.
    #[must_use]
    pub fn describe(&self) -> String {
        let on = |on: bool| if on { "on" } else { "off" };
        match self {
            Self::ComputeMode { found, set } => format!("compute mode {found} to {set}"),
            Self::Timeslice { found, set } => format!("time slice {found} to {set}"),
            Self::MigMode { found, set } => format!("MIG mode {} to {}", on(*found), on(*set)),
            Self::MigInstance { profile, placement, .. } => {
                format!("MIG instance {profile} at {}", placement.start)
            }
            Self::MpsDaemon { daemon } => format!("MPS daemon in {}", daemon.pipes.display()),
            Self::ControlGroup { path } => format!("control group {}", path.display()),
            Self::MemoryLimit { group, hard_mib } => {
                format!("memory limit of {} to {hard_mib} MiB", group.display())
            }
            Self::Folder { path } => format!("folder {}", path.display()),
        }
    }

    pub(super) fn make(&self, host: &dyn Control) -> Result<Made, ControlError> {
        match self {
            Self::ComputeMode { set, .. } => host.set_compute_mode(set)?,
            Self::Timeslice { set, .. } => host.set_timeslice(set)?,
            Self::MigMode { set, .. } => host.set_mig(*set)?,
            Self::MigInstance { profile_id, placement, .. } => {
                let made = host.create_instance(*profile_id, *placement)?;
                return Ok(Made::Instance(made));
            }
            Self::MpsDaemon { daemon } => host.start_mps(daemon)?,
            Self::ControlGroup { path } => host.make_group(path)?,
            Self::MemoryLimit { group, hard_mib } => host.limit_group(group, Some(*hard_mib))?,
            Self::Folder { path } => host.make_folder(path)?,
        }
        Ok(Made::Nothing)
    }

    /// Whether it is a setting of the device, which ends with a virtual device.
    #[must_use]
    pub const fn is_of_device(&self) -> bool {
        !matches!(self, Self::MpsDaemon { .. } | Self::ControlGroup { .. } | Self::Folder { .. })
    }
}
