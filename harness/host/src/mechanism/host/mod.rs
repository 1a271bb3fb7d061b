//! The changes that mechanisms make to the host, and how the host is restored.
//!
//! Every change is a value that can be written to a file. [`Guard::make`] writes it to the journal
//! of its GPU, syncs the line to disk, and then makes the change; [`Guard::restore`] undoes all
//! changes, last first, and compares the host with the state that was found. If gpubench dies in
//! between, the journal lists the changes that are left to undo. The guard process undoes them
//! ([`mod@recover`]); if that is dead too, the next run or `gpubench cleanup` does.

mod change;
pub mod command;
#[cfg(test)]
mod fake;
pub(super) mod front_end;
mod guard;
pub mod mps_control;
mod real;
mod recover;
mod run_id;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::device::mig::{Instance, MigMode, Placement};

pub use change::{Change, Made, When};
pub use command::{Step, found_time_slice, run_step};
pub use guard::{
    DIE_AFTER_STEPS, Guard, HostError, Journal, JournalError, JournalLocation, state_dir,
};
pub use mps_control::{DaemonConfig, end_processes, mps_processes};
pub use real::{Haste, RealHost};
pub use recover::{Kind, Leftover, Recovered, Recovery, end_run_processes, leftovers, recover};
pub use run_id::{Life, NoRun, RunId};

// The queries and changes of a host. Tests implement them with a fake host.

/// A query or change that the host refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{doing}: {what}")]
pub struct ControlError {
    pub doing: String,
    pub what: String,
    /// Exit status of the vendor's command, if one failed.
    pub status: Option<i32>,
    /// What the user can do, if the host reports a known reason.
    pub remedy: Option<&'static str>,
}

impl ControlError {
    /// An error with the query or change and what went wrong.
    pub fn new(doing: impl Into<String>, what: impl std::fmt::Display) -> Self {
        Self {
            doing: doing.into(),
            what: what.to_string().replace('\n', " "),
            status: None,
            remedy: None,
        }
    }

    /// Adds the exit status of a command.
    pub fn with_status(mut self, status: Option<i32>) -> Self {
        self.status = status;
        self
    }

    /// Adds what the user can do.
    pub fn with_remedy(mut self, remedy: Option<&'static str>) -> Self {
        self.remedy = remedy;
        self
    }
}

/// A host with its one device. Every call fails for one reason: the host refuses.
pub trait Control: Send + Sync {
    /// The compute mode, by the vendor's name: which processes may have a context.
    fn compute_mode(&self) -> Result<String, ControlError>;
    fn set_compute_mode(&self, name: &str) -> Result<(), ControlError>;
    /// The length of a time slice, by the vendor's name in lower case.
    fn timeslice(&self) -> Result<String, ControlError>;
    fn set_timeslice(&self, name: &str) -> Result<(), ControlError>;
    /// MIG mode; `None` if the device has no MIG.
    fn mig_mode(&self) -> Result<Option<MigMode>, ControlError>;
    fn set_mig(&self, on: bool) -> Result<(), ControlError>;
    /// The existing GPU instances.
    fn mig_instances(&self) -> Result<Vec<Instance>, ControlError>;
    /// Makes an instance at a placement, with one compute instance of its full size.
    fn create_instance(
        &self,
        profile_id: u32,
        placement: Placement,
    ) -> Result<Instance, ControlError>;
    fn destroy_instance(&self, id: u32) -> Result<(), ControlError>;
    /// Starts an MPS control daemon and waits until it answers.
    fn start_mps(&self, daemon: &DaemonConfig) -> Result<(), ControlError>;
    /// Ends an MPS control daemon and its servers. A daemon that has ended is no error.
    fn end_mps(&self, daemon: &DaemonConfig) -> Result<(), ControlError>;
    fn make_group(&self, path: &Path) -> Result<(), ControlError>;
    /// Removes a control group. A missing one is no error.
    fn remove_group(&self, path: &Path) -> Result<(), ControlError>;
    /// Limits the device memory of a control group; `None` removes the limit.
    fn limit_group(&self, group: &Path, hard_mib: Option<u64>) -> Result<(), ControlError>;
    /// Makes a folder that only the user can read. An existing one is an error.
    fn make_folder(&self, path: &Path) -> Result<(), ControlError>;
    /// Removes a folder with its content. A missing one is no error.
    fn remove_folder(&self, path: &Path) -> Result<(), ControlError>;
    /// Runs a command of a described mechanism.
    fn run_step(
        &self,
        step: &Step,
        variables: &BTreeMap<String, String>,
    ) -> Result<(), ControlError>;
}

// The state of a host before any change, to compare with the state afterwards.

/// The state that was found. A value that NVML does not report is absent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compute_mode: Option<String>,
    /// Whether MIG mode is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mig: Option<bool>,
    /// Whether it will be on after a reset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mig_pending: Option<bool>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instances: Vec<FoundInstance>,
}

/// A GPU instance without its id, which the driver chooses.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FoundInstance {
    pub profile_id: u32,
    pub placement: Placement,
    pub compute: Vec<String>,
}

impl Found {
    /// Reads the state. It lacks the time slice, which only a command reports:
    /// [`Change::Timeslice`] has the value that was found.
    /// Fails when MIG mode or instances cannot be read: an unknown state cannot be restored.
    pub fn read(host: &dyn Control) -> Result<Self, ControlError> {
        let mode = host.mig_mode()?;
        let mig = mode.map(|mode| mode.current);
        let mut instances = Vec::new();
        if mig == Some(true) {
            for instance in host.mig_instances()? {
                let mut compute: Vec<String> =
                    instance.compute.into_iter().map(|one| one.uuid).collect();
                compute.sort();
                instances.push(FoundInstance {
                    profile_id: instance.profile_id,
                    placement: instance.placement,
                    compute,
                });
            }
            instances.sort();
        }
        Ok(Self {
            // Some hypervisors do not report it. A change of it reads it first and is refused if
            // that fails; a change that cannot be undone is an error by itself.
            compute_mode: host.compute_mode().ok(),
            mig,
            mig_pending: mode.map(|mode| mode.pending),
            instances,
        })
    }

    /// The differences in one line; `None` if there are none.
    pub fn difference(&self, now: &Self) -> Option<String> {
        let mut parts = Vec::new();
        if self.compute_mode != now.compute_mode {
            parts.push(format!(
                "compute mode was {} and is {}",
                or_unknown(self.compute_mode.as_deref()),
                or_unknown(now.compute_mode.as_deref())
            ));
        }
        if self.mig != now.mig {
            parts.push(format!("MIG mode was {:?} and is {:?}", self.mig, now.mig));
        }
        if self.mig_pending != now.mig_pending {
            parts.push(format!(
                "MIG mode after a reset was {:?} and is {:?}",
                self.mig_pending, now.mig_pending
            ));
        }
        if self.instances != now.instances {
            parts.push(format!(
                "MIG instances were {:?} and are {:?}",
                self.instances, now.instances
            ));
        }
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}

fn or_unknown(mode: Option<&str>) -> &str {
    mode.unwrap_or("unknown")
}
