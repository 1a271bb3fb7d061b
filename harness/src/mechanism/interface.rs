//! What every mechanism is asked. No method has a default body: a mechanism that does not answer
//! one of them does not compile.

use std::collections::BTreeMap;
use std::ffi::OsString;

use gpubench_record::Proof;

use super::host::{Guard, HostError};
use super::{HostFacts, InForce, MechanismEntry, Observation};
use crate::plan::Availability;
use crate::profile::Profile;

/// One way to share a GPU, on this host.
pub trait Mechanism: Sync {
    /// What is known about it without a host.
    fn entry(&self) -> &'static MechanismEntry;

    /// Whether it can run here.
    fn availability(&self, cx: &MechanismContext<'_>) -> Availability;

    /// What it does for this profile on this host.
    fn configuration(&self, cx: &MechanismContext<'_>) -> Configuration;

    /// Brings the host into the state of [`Configuration::stage`]. Everything is changed through
    /// the guard.
    ///
    /// # Errors
    /// When the host refuses; the guard then still holds what was done.
    fn enter(&self, cx: &MechanismContext<'_>, guard: &mut Guard) -> Result<InForce, HostError>;

    /// Variables for the tenant of a slot, over those of the run.
    fn tenant_env(&self, cx: &MechanismContext<'_>, set_up: &InForce, slot: usize) -> TenantEnv;

    /// Judges one observation of a cell, before its samples, among them or after them. Empty if
    /// the cell can show nothing.
    fn prove(&self, cx: &MechanismContext<'_>, observed: &Observation) -> Vec<Proof>;
}

impl dyn Mechanism {
    /// Its name in the catalogue.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.entry().name
    }
}

/// The profile and the host for which a mechanism is asked.
#[derive(Debug, Clone, Copy)]
pub struct MechanismContext<'a> {
    /// What the user wants.
    pub profile: &'a Profile,
    /// What the host is.
    pub facts: &'a HostFacts,
}

/// What a mechanism does for one profile on one host.
#[derive(Debug, Clone, PartialEq)]
pub struct Configuration {
    /// Canonical variant: the name with the options that are in force.
    pub variant: String,
    /// What it changes on the host, one line each.
    pub host_changes: Vec<String>,
    /// The state in which the host must be; `None` if nothing is set up.
    pub stage: Option<HostStage>,
    /// What its tenants report once their context is open.
    pub checks: OpeningChecks,
    /// Whether a process that is no tenant must be refused a context while tenants have theirs.
    pub refuses_outsiders: bool,
    /// The memory that one tenant may have at most; `None` if it may take everything.
    pub memory_limit_bytes: Option<u64>,
    /// The limit on one tenant's compute; `None` if none is set, or if it is a part of the SMs that
    /// the tenant itself sees.
    pub compute_limit: Option<ComputeLimit>,
}

/// The state in which the host must be for a mechanism's cells.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostStage {
    /// Mechanisms of one key share it.
    pub key: String,
    /// Whether native tenants are unaffected by it, and so run in it.
    pub allows_native: bool,
}

/// What tenants report once their context is open, beside the facts that all report.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OpeningChecks {
    /// The SMs on which their blocks run.
    pub sm_placement: bool,
    /// Whether an allocation of this size is refused.
    pub over_limit_bytes: Option<u64>,
}

/// A limit on one tenant's compute.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ComputeLimit {
    /// The share of the device.
    pub share: f64,
    /// What it is a share of.
    pub of: Compute,
}

/// What a compute limit counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compute {
    /// The arithmetic of the device at every instant: SMs.
    Arithmetic,
    /// Time, in which a tenant may have the whole device.
    Time,
}

/// Variables for a tenant, over those of the run.
pub type TenantEnv = BTreeMap<OsString, OsString>;
