//! One change to the host: what it is, and how it is made. `undo` undoes it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::command::Step;
use super::mps_control::DaemonConfig;
use super::{Control, ControlError};
use crate::device::mig::{Instance, MigMode, Placement};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "kebab-case")]
pub enum Change {
    /// The compute mode, by the vendor's name: which processes may have a context.
    ComputeMode {
        found: String,
        set: String,
    },
    /// The length of a time slice, by the vendor's name.
    Timeslice {
        found: String,
        set: String,
    },
    MigMode {
        found: bool,
        set: bool,
    },
    MigInstance {
        profile: String,
        profile_id: u32,
        placement: Placement,
        /// UUIDs of its compute instances, by which it is known; empty until it is made.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        uuids: Vec<String>,
    },
    /// An MPS control daemon of our own.
    MpsDaemon {
        daemon: DaemonConfig,
    },
    /// A control group of our own.
    ControlGroup {
        path: PathBuf,
    },
    /// The limit on the device memory of a control group of our own.
    MemoryLimit {
        group: PathBuf,
        hard_mib: u64,
    },
    Folder {
        path: PathBuf,
    },
    /// What the commands of a described mechanism change.
    Command {
        mechanism: String,
        enter: Step,
        leave: Step,
        variables: BTreeMap<String, String>,
    },
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
            Self::Command { mechanism, leave, .. } => format!("{mechanism} by {:?}", leave.run),
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
            Self::Command { enter, variables, .. } => host.run_step(enter, variables)?,
        }
        Ok(Made::Nothing)
    }

    /// Whether it is a setting of the device, which ends with a virtual device.
    pub const fn is_of_device(&self) -> bool {
        !matches!(
            self,
            Self::MpsDaemon { .. }
                | Self::ControlGroup { .. }
                | Self::Folder { .. }
                | Self::Command { .. }
        )
    }
}

// Undoes one change to the host.
//
// Undoing also works for a change that was never made, because the journal is written first, and
// for a change that was undone already, because its mark may not have reached the disk.
//
// What was not made by the run is left alone. A MIG instance is known by its UUID and the boot, as
// an operator can make one of the same profile at the same placement.

/// When a change is undone, which decides what is known to be the run's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// While the run or its guard process has the device: an instance whose UUID did not reach the
    /// journal is the run's.
    InRun,
    /// Later in the same boot.
    Later,
    /// After a reboot: processes, instances and volatile settings are gone.
    AfterReboot,
}

/// How an undoing ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Undone {
    Done,
    /// Another process has changed it since; the reason in one line.
    LeftAlone(String),
}

impl Change {
    /// Undoes it, as far as it was made.
    pub(super) fn undo(&self, host: &dyn Control, when: When) -> Result<Undone, ControlError> {
        let rebooted = when == When::AfterReboot;
        match self {
            // Compute mode and time slice do not survive a reboot (nvidia-smi(1), "-c"; the slice
            // is a state of the driver), and instances do not (MIG User Guide, "Persistence").
            Self::ComputeMode { .. }
            | Self::Timeslice { .. }
            | Self::MigInstance { .. }
            | Self::MpsDaemon { .. }
                if rebooted =>
            {
                return Ok(Undone::Done);
            }
            Self::ComputeMode { found, set } => {
                let now = host.compute_mode()?;
                return restore_setting("compute mode", &now, found, set, || {
                    host.set_compute_mode(found)
                });
            }
            Self::Timeslice { found, set } => {
                let now = host.timeslice()?;
                return restore_setting("time slice", &now, found, set, || {
                    host.set_timeslice(found)
                });
            }
            Self::MigMode { found, set } => return restore_mig_mode(host, *found, *set, when),
            Self::MigInstance { profile_id, placement, uuids, .. } => {
                destroy_instance(host, *profile_id, *placement, uuids, when)?
            }
            Self::MpsDaemon { daemon } => host.end_mps(daemon)?,
            Self::ControlGroup { path } => host.remove_group(path)?,
            // The limit of a removed group is gone, so one that cannot be taken off ends with it.
            Self::MemoryLimit { group, .. } if !group.is_dir() => {}
            Self::MemoryLimit { group, .. } => {
                host.limit_group(group, None).or_else(|_| host.remove_group(group))?
            }
            Self::Folder { path } => host.remove_folder(path)?,
            Self::Command { leave, variables, .. } => host.run_step(leave, variables)?,
        }
        Ok(Undone::Done)
    }

    /// Whether the host still has the setting or instance of this change. What ends with a process
    /// or a folder is checked where it is undone.
    pub(super) fn remains(&self, host: &dyn Control) -> Result<bool, ControlError> {
        Ok(match self {
            Self::ComputeMode { found, set } => found != set && host.compute_mode()? == *set,
            Self::Timeslice { found, set } => found != set && host.timeslice()? == *set,
            Self::MigMode { found, set } => {
                let has = |mode: MigMode| mode.current == *set || mode.pending == *set;
                found != set && host.mig_mode()?.is_some_and(has)
            }
            Self::MigInstance { uuids, .. } => {
                host.mig_mode()?.is_some_and(|mode| mode.current)
                    && host.mig_instances()?.iter().any(|one| is_one_of(one, uuids))
            }
            Self::MpsDaemon { .. }
            | Self::ControlGroup { .. }
            | Self::MemoryLimit { .. }
            | Self::Folder { .. }
            | Self::Command { .. } => false,
        })
    }
}

fn is_one_of(instance: &Instance, uuids: &[String]) -> bool {
    instance.compute.iter().any(|part| uuids.contains(&part.uuid))
}

/// A change that could not be undone, in one line with the remedy.
pub(super) fn not_undone(change: &Change, error: &ControlError) -> String {
    let remedy = error.remedy;
    let remedy = remedy.map_or_else(String::new, |remedy| format!(" ({remedy})"));
    format!("{}: {error}{remedy}", change.describe())
}

fn restore_mig_mode(
    host: &dyn Control,
    found: bool,
    set: bool,
    when: When,
) -> Result<Undone, ControlError> {
    // A mode that is pending until a reset is set back too.
    let mode = host.mig_mode()?;
    if found == set || !mode.is_some_and(|mode| mode.current == set || mode.pending == set) {
        return Ok(Undone::Done);
    }
    let is_on = !found && mode.is_some_and(|mode| mode.current);
    let has_instances = || host.mig_instances().map(|instances| !instances.is_empty());
    match if is_on { has_instances() } else { Ok(false) } {
        // With an instance left, the driver would only mark the mode as pending.
        Ok(true) => {
            let what = "MIG instances still exist";
            if when == When::AfterReboot {
                // All of them were made since the reboot.
                return Ok(Undone::LeftAlone(format!("MIG mode is on, and {what}")));
            }
            Err(ControlError::new("switching MIG mode off", what))
        }
        Ok(false) => host.set_mig(found).map(|()| Undone::Done),
        // A driver that does not list them says by the mode itself whether one is left.
        Err(unlisted) => {
            host.set_mig(found)?;
            let restored = |mode: MigMode| mode.current == found && mode.pending == found;
            let is_restored = host.mig_mode()?.is_some_and(restored);
            if is_restored { Ok(Undone::Done) } else { Err(unlisted) }
        }
    }
}

fn destroy_instance(
    host: &dyn Control,
    profile_id: u32,
    placement: Placement,
    uuids: &[String],
    when: When,
) -> Result<(), ControlError> {
    // With MIG mode off there are none.
    if !host.mig_mode()?.is_some_and(|mode| mode.current) {
        return Ok(());
    }
    let instances = match host.mig_instances() {
        // It was refused, and a part of it is seen where the mode or the whole state is compared.
        Err(_) if uuids.is_empty() && when == When::InRun => return Ok(()),
        listed => listed?,
    };
    let is_like_it = |one: &&Instance| one.profile_id == profile_id && one.placement == placement;
    if !uuids.is_empty() {
        // One that lost its compute instances in an earlier attempt has no UUID any more.
        let half = |one: &&Instance| is_like_it(one) && one.compute.is_empty();
        let found = instances.iter().find(|one| is_one_of(one, uuids));
        return match found.or_else(|| instances.iter().find(half)) {
            Some(instance) => host.destroy_instance(instance.id),
            None => Ok(()),
        };
    }
    match (instances.iter().find(is_like_it), when) {
        (None, _) => Ok(()),
        (Some(instance), When::InRun) => host.destroy_instance(instance.id),
        (Some(instance), When::Later | When::AfterReboot) => Err(ControlError::new(
            "destroying a MIG instance",
            format!(
                "the run died before it recorded its UUID, so instance {} at placement {} may be \
                 of another user: destroy it with nvidia-smi mig -dci and -dgi if it is not",
                instance.id, placement.start
            ),
        )),
    }
}

/// Restores a setting that still has our value. A value that another process has set since is kept.
fn restore_setting(
    what: &str,
    now: &str,
    found: &str,
    set: &str,
    undo: impl FnOnce() -> Result<(), ControlError>,
) -> Result<Undone, ControlError> {
    if now == found {
        return Ok(Undone::Done);
    }
    if now != set {
        let text = format!("{what} was {found}, was set to {set}, and is {now} now: left alone");
        return Ok(Undone::LeftAlone(text));
    }
    undo().map(|()| Undone::Done)
}
