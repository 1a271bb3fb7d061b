//! The interface of a mechanism. No method has a default body: a mechanism without one of them does
//! not compile.

use std::collections::BTreeMap;
use std::ffi::OsString;

use gpubench_record::Proof;

use super::host::{Guard, HostError};
use super::{HostFacts, InForce, MechanismEntry, Observation, Requirement};
use crate::plan::Availability;
use crate::profile::Profile;

/// One way to share a GPU, on this host.
pub trait Mechanism: Sync {
    /// Its facts that need no host.
    fn entry(&self) -> &'static MechanismEntry;

    /// Whether it can run here.
    fn availability(&self, cx: &MechanismContext<'_>) -> Availability;

    /// What it does for this profile on this host.
    fn configuration(&self, cx: &MechanismContext<'_>) -> Configuration;

    /// Brings the host into the state of [`Configuration::stage`]. Every change is made through the
    /// guard.
    ///
    /// # Errors
    /// When the host refuses; the guard then still has the changes that were made.
    fn enter(&self, cx: &MechanismContext<'_>, guard: &mut Guard) -> Result<InForce, HostError>;

    /// Variables for the tenant of a slot, over those of the run.
    fn tenant_env(&self, cx: &MechanismContext<'_>, set_up: &InForce, slot: usize) -> TenantEnv;

    /// Judges the observation of a cell. Empty if the cell cannot show anything about the
    /// mechanism; a proof whose evidence was not observed is absent.
    fn prove(&self, cx: &MechanismContext<'_>, observed: &Observation) -> Vec<Proof>;
}

impl dyn Mechanism {
    /// Its name in the catalogue.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.entry().name
    }
}

/// The profile and the host of a mechanism.
#[derive(Debug, Clone, Copy)]
pub struct MechanismContext<'a> {
    /// The user's profile.
    pub profile: &'a Profile,
    pub facts: &'a HostFacts,
}

/// What a mechanism does for one profile on one host.
#[derive(Debug, Clone, PartialEq)]
pub struct Configuration {
    /// Canonical variant: the name with its options.
    pub variant: String,
    /// What it changes on the host, one line each.
    pub host_changes: Vec<String>,
    /// The required state of the host; `None` if nothing is set up.
    pub stage: Option<HostStage>,
    /// What its tenants check when their context is open.
    pub checks: OpeningChecks,
    /// Whether a process that is no tenant must be refused a context while tenants have theirs.
    pub refuses_outsiders: bool,
    /// Memory limit of one tenant; `None` if there is none.
    pub memory_limit_bytes: Option<u64>,
    /// Compute limit of one tenant; `None` if there is none, or if it lies in the number of SMs
    /// that the tenant sees.
    pub compute_limit: Option<ComputeLimit>,
    /// The proofs that each of its cells needs; a cell without one of them is not scored. At least
    /// one is taken during the samples.
    pub required: Vec<Requirement>,
}

impl Configuration {
    /// Of a mechanism of one variant that sets up, checks and limits nothing.
    pub(super) fn without_setup(entry: &MechanismEntry, required: Vec<Requirement>) -> Self {
        Self {
            variant: entry.name.to_owned(),
            host_changes: Vec::new(),
            stage: None,
            checks: OpeningChecks::default(),
            refuses_outsiders: false,
            memory_limit_bytes: None,
            compute_limit: None,
            required,
        }
    }
}

/// The required state of the host for a mechanism's cells.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostStage {
    /// Mechanisms with one key share the state.
    pub key: String,
    /// Whether native tenants are unaffected by it, and run in it.
    pub allows_native: bool,
}

/// What tenants check when their context is open, beside the facts that all report.
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
    /// What the limit counts.
    pub of: Compute,
}

/// What a compute limit counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compute {
    /// SMs, at every instant.
    Arithmetic,
    /// Time, in which a tenant may use the whole device.
    Time,
}

/// Variables for a tenant, over those of the run.
pub type TenantEnv = BTreeMap<OsString, OsString>;
