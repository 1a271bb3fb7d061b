//! Mechanisms on this host: whether one can run, what it changes, what its tenants need, and the
//! proof that it was in force while samples were taken.
//!
//! # To add a mechanism
//!
//! 1. Its file here, with its `mod` line: a type that implements [`Mechanism`], and its
//!    [`MechanismEntry`], which holds every fact that needs no host.
//! 2. Its line in `catalogue/mechanisms.rs`, from which [`CATALOGUE`] is made.
//!
//! A mechanism with options has a table in the profile as well: its type in `profile::options`,
//! its field in [`Profile`](gpubench_plan::profile::Profile), and its values in
//! `profiles/default.toml`.
//!
//! The facts of a mechanism are in its own file, right of `profile` and `plan` in the flow. A
//! profile needs only the names in that list. A plan gets the facts with each
//! [`Capability`](gpubench_plan::Capability) and writes them into the record
//! ([`MechanismProperties`](gpubench_record::MechanismProperties)), where gates and scores read
//! them.

pub mod control_groups;
mod described;
mod elf;
mod exclusive;
mod exclusive_process;
pub mod facts;
pub mod fitness;
mod green_context;
mod hami;
pub mod host;
mod in_force;
pub mod interface;
pub mod labels;
mod memory_cap;
mod mig;
mod mig_layout;
mod mig_mps;
mod mps;
mod mps_memory;
mod mps_quota;
mod mps_static;
mod observation;
mod stream_priority;
#[cfg(test)]
mod tests;
mod time_slicing;
mod time_slicing_capped;
mod unprotected;
mod user_program;
mod waivers;

pub use described::load;
pub use facts::{HostFacts, HostInputs};
pub use hami::LIBRARY_FAULTS;
pub use in_force::{InForce, ProofCommand};
pub use interface::Requirement;
pub use interface::{
    Compute, ComputeLimit, Configuration, HostStage, Mechanism, MechanismContext, OpeningChecks,
    TenantEnv,
};
pub use interface::{MechanismEntry, OptionEntry, Tenants};
pub use mig_layout::share_of_instance;
pub use mps_quota::PRIORITY;
pub use observation::{Observation, OverLimit, ProgramObservation, TenantObservation};
pub use unprotected::{native_runs, unprotected_form, unprotected_profile};
pub use waivers::{unfit, without_context};

macro_rules! listed {
    ($($module:ident::$kind:ident => $name:literal,)*) => {
        &[$(&$module::$kind),*]
    };
}

/// Every mechanism, in report order.
pub const CATALOGUE: &[&dyn Mechanism] = gpubench_catalogue::mechanisms!(listed);

/// The catalogue and the mechanisms that the user describes.
pub fn all() -> impl Iterator<Item = &'static dyn Mechanism> {
    CATALOGUE.iter().chain(described::own()).copied()
}

pub fn find(name: &str) -> Option<&'static dyn Mechanism> {
    all().find(|mechanism| mechanism.name() == name)
}
