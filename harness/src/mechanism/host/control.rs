//! The few things that can be asked and changed of a host: the seam at which tests put a fake one.

use std::path::Path;

use super::daemon::DaemonPlace;
use crate::device::mig::{Instance, MigMode, Placement};

/// The host refuses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{doing}: {what}")]
pub struct ControlError {
    /// What was being done.
    pub doing: String,
    /// What went wrong, in one line.
    pub what: String,
    /// The status with which a command of the vendor's ended, where one did.
    pub status: Option<i32>,
    /// What would make it possible, where the host says that it cannot be rather than that it
    /// failed.
    pub remedy: Option<&'static str>,
}

impl ControlError {
    /// What was being done, and what went wrong.
    pub fn new(doing: impl Into<String>, what: impl std::fmt::Display) -> Self {
        Self {
            doing: doing.into(),
            what: what.to_string().replace('\n', " "),
            status: None,
            remedy: None,
        }
    }

    /// The status with which a command ended.
    #[must_use]
    pub fn with_status(mut self, status: Option<i32>) -> Self {
        self.status = status;
        self
    }

    /// What would make it possible.
    #[must_use]
    pub fn with_remedy(mut self, remedy: Option<&'static str>) -> Self {
        self.remedy = remedy;
        self
    }
}

/// A host with its one device.
#[expect(
    clippy::missing_errors_doc,
    reason = "every call fails for one reason: the host refuses"
)]
pub trait Control: Send + Sync {
    /// Which processes may have a context, by the vendor's word.
    fn compute_mode(&self) -> Result<String, ControlError>;
    /// Sets it.
    fn set_compute_mode(&self, word: &str) -> Result<(), ControlError>;
    /// The length of a turn, by the vendor's word in lower case.
    fn timeslice(&self) -> Result<String, ControlError>;
    /// Sets it.
    fn set_timeslice(&self, word: &str) -> Result<(), ControlError>;
    /// MIG mode; absent where there is no MIG.
    fn mig_mode(&self) -> Result<Option<MigMode>, ControlError>;
    /// Sets it.
    fn set_mig(&self, on: bool) -> Result<(), ControlError>;
    /// The GPU instances that are there.
    fn mig_instances(&self) -> Result<Vec<Instance>, ControlError>;
    /// Makes one at a place, with one compute instance of its whole size.
    fn create_instance(&self, profile_id: u32, place: Placement) -> Result<Instance, ControlError>;
    /// Destroys one with its compute instances.
    fn destroy_instance(&self, id: u32) -> Result<(), ControlError>;
    /// Starts an MPS control daemon and waits until it answers.
    fn start_mps(&self, daemon: &DaemonPlace) -> Result<(), ControlError>;
    /// Ends an MPS control daemon and its servers; one that is not there is ended.
    fn end_mps(&self, daemon: &DaemonPlace) -> Result<(), ControlError>;
    /// Makes a control group; one that is there already is refused.
    fn make_group(&self, path: &Path) -> Result<(), ControlError>;
    /// Removes a control group; one that is not there is removed.
    fn remove_group(&self, path: &Path) -> Result<(), ControlError>;
    /// Limits the device memory of a control group, or takes its limit back.
    fn limit_group(&self, group: &Path, hard_mib: Option<u64>) -> Result<(), ControlError>;
    /// Makes a folder for the user alone; one that is there already is refused.
    fn make_folder(&self, path: &Path) -> Result<(), ControlError>;
    /// Removes a folder with all that is in it; one that is not there is removed.
    fn remove_folder(&self, path: &Path) -> Result<(), ControlError>;
}
