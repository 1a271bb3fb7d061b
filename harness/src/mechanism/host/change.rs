//! One change to the host: what it is, how it is made, how it is undone.
//!
//! Undoing must work for a change that was never made, because the journal is written first; and
//! for one that was undone already, because the mark may not have reached the disk.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::control::{Control, ControlError};
use super::daemon::DaemonPlace;
use crate::device::mig::{Instance, MigMode, Placement};

/// One change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "kebab-case")]
pub enum Change {
    /// Which processes may have a context, by the vendor's word.
    ComputeMode {
        /// As it was.
        found: String,
        /// The value that is set.
        set: String,
    },
    /// The length of a turn, by the vendor's word.
    Timeslice {
        /// As it was.
        found: String,
        /// The value that is set.
        set: String,
    },
    /// MIG mode.
    MigMode {
        /// As it was.
        found: bool,
        /// The value that is set.
        set: bool,
    },
    /// A GPU instance, where there was none.
    MigInstance {
        /// Name of its profile, for people.
        profile: String,
        /// Id of its profile.
        profile_id: u32,
        /// Where it lies. Places in memory do not overlap, so this names it.
        placement: Placement,
    },
    /// An MPS control daemon of our own.
    MpsDaemon {
        /// Where it lives.
        daemon: DaemonPlace,
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
        /// What its processes may have together.
        hard_mib: u64,
    },
    /// A private folder.
    Folder {
        /// Which one.
        path: PathBuf,
    },
}

/// What making a change brought about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Made {
    /// Nothing that has a name.
    Nothing,
    /// An instance.
    Instance(Instance),
}

impl Change {
    /// What it is, in a few words, as `plan` and `cleanup` tell it.
    #[must_use]
    pub fn describe(&self) -> String {
        let on = |on: bool| if on { "on" } else { "off" };
        match self {
            Self::ComputeMode { found, set } => format!("compute mode {found} to {set}"),
            Self::Timeslice { found, set } => format!("time slice {found} to {set}"),
            Self::MigMode { found, set } => format!("MIG mode {} to {}", on(*found), on(*set)),
            Self::MigInstance {
                profile, placement, ..
            } => format!("MIG instance {profile} at {}", placement.start),
            Self::MpsDaemon { daemon } => format!("MPS daemon in {}", daemon.pipes.display()),
            Self::ControlGroup { path } => format!("control group {}", path.display()),
            Self::MemoryLimit { group, hard_mib } => {
                format!("memory limit of {} to {hard_mib} MiB", group.display())
            }
            Self::Folder { path } => format!("folder {}", path.display()),
        }
    }

    /// Makes it.
    pub(super) fn make(&self, host: &dyn Control) -> Result<Made, ControlError> {
        match self {
            Self::ComputeMode { set, .. } => host.set_compute_mode(set)?,
            Self::Timeslice { set, .. } => host.set_timeslice(set)?,
            Self::MigMode { set, .. } => host.set_mig(*set)?,
            Self::MigInstance {
                profile_id,
                placement,
                ..
            } => {
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

    /// Undoes it, as far as it was made.
    pub(super) fn undo(&self, host: &dyn Control) -> Result<(), ControlError> {
        match self {
            Self::ComputeMode { found, set } => {
                let now = host.compute_mode()?;
                put_back("compute mode", &now, found, set, || {
                    host.set_compute_mode(found)
                })
            }
            Self::Timeslice { found, set } => {
                let now = host.timeslice()?;
                put_back("time slice", &now, found, set, || host.set_timeslice(found))
            }
            Self::MigMode { found, set } => {
                // One that waits for a reset is taken back too.
                let mode = host.mig_mode()?;
                let made = |mode: MigMode| mode.current == *set || mode.pending == *set;
                if !mode.is_some_and(made) || found == set {
                    return Ok(());
                }
                // With an instance that could not go, the mode would only be marked to go too.
                if !found
                    && mode.is_some_and(|mode| mode.current)
                    && !host.mig_instances()?.is_empty()
                {
                    let what = "MIG instances are still there";
                    return Err(ControlError::new("switching MIG mode off", what));
                }
                host.set_mig(*found)
            }
            Self::MigInstance {
                profile_id,
                placement,
                ..
            } => {
                // With MIG mode off there are none.
                if !host.mig_mode()?.is_some_and(|mode| mode.current) {
                    return Ok(());
                }
                let ours = |instance: &&Instance| {
                    instance.profile_id == *profile_id && instance.placement == *placement
                };
                match host.mig_instances()?.iter().find(ours) {
                    Some(instance) => host.destroy_instance(instance.id),
                    None => Ok(()),
                }
            }
            Self::MpsDaemon { daemon } => host.end_mps(daemon),
            Self::ControlGroup { path } => host.remove_group(path),
            // Limits go with their group.
            Self::MemoryLimit { group, .. } if !group.is_dir() => Ok(()),
            Self::MemoryLimit { group, .. } => host.limit_group(group, None),
            Self::Folder { path } => host.remove_folder(path),
        }
    }

    /// Whether it is a setting of the device, which goes with the device.
    #[must_use]
    pub const fn is_of_device(&self) -> bool {
        !matches!(
            self,
            Self::MpsDaemon { .. } | Self::ControlGroup { .. } | Self::Folder { .. }
        )
    }
}

/// Restores a setting that is as we left it. One that another process has changed since is kept.
fn put_back(
    what: &str,
    now: &str,
    found: &str,
    set: &str,
    undo: impl FnOnce() -> Result<(), ControlError>,
) -> Result<(), ControlError> {
    if now == found {
        return Ok(());
    }
    if now != set {
        let text = format!("{what} was {found}, was set to {set}, and is {now} now: left alone");
        return Err(ControlError::new("restoring", text));
    }
    undo()
}
