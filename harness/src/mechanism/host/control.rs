//! The queries and changes of a host. Tests implement them with a fake host.

use std::path::Path;

use super::daemon::DaemonConfig;
use crate::device::mig::{Instance, MigMode, Placement};

/// A query or change that the host refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{doing}: {what}")]
pub struct ControlError {
    /// The query or change.
    pub doing: String,
    /// What went wrong, in one line.
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
    #[must_use]
    pub fn with_status(mut self, status: Option<i32>) -> Self {
        self.status = status;
        self
    }

    /// Adds what the user can do.
    #[must_use]
    pub fn with_remedy(mut self, remedy: Option<&'static str>) -> Self {
        self.remedy = remedy;
        self
    }
}

/// A host with its one device.
#[expect(clippy::missing_errors_doc, reason = "every call fails for one reason: the host refuses")]
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
    /// Destroys an instance with its compute instances.
    fn destroy_instance(&self, id: u32) -> Result<(), ControlError>;
    /// Starts an MPS control daemon and waits until it answers.
    fn start_mps(&self, daemon: &DaemonConfig) -> Result<(), ControlError>;
    /// Ends an MPS control daemon and its servers. A daemon that has ended is no error.
    fn end_mps(&self, daemon: &DaemonConfig) -> Result<(), ControlError>;
    /// Makes a control group. An existing one is an error.
    fn make_group(&self, path: &Path) -> Result<(), ControlError>;
    /// Removes a control group. A missing one is no error.
    fn remove_group(&self, path: &Path) -> Result<(), ControlError>;
    /// Limits the device memory of a control group; `None` removes the limit.
    fn limit_group(&self, group: &Path, hard_mib: Option<u64>) -> Result<(), ControlError>;
    /// Makes a folder that only the user can read. An existing one is an error.
    fn make_folder(&self, path: &Path) -> Result<(), ControlError>;
    /// Removes a folder with its content. A missing one is no error.
    fn remove_folder(&self, path: &Path) -> Result<(), ControlError>;
}
