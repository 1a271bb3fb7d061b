//! The catalogue of mechanisms as this host runs them: whether one can run, what it changes on the
//! host, what its tenants need, and the proof that it was in force while samples were taken.
//!
//! What can be told of a mechanism without a host stands in `catalogue`. To add one, add its file,
//! its `mod` line and its line in [`CATALOGUE`].

pub mod control_groups;
mod elf;
mod exclusive;
mod exclusive_process;
pub mod facts;
mod green_context;
mod hami;
pub mod host;
mod in_force;
pub mod labels;
mod memory_cap;
mod mig;
mod mig_layout;
mod mig_mps;
#[cfg(test)]
mod mig_tests;
mod mps;
mod mps_memory;
mod mps_quota;
mod mps_static;
mod private;
mod program;
pub mod refusal;
mod seen;
mod stream_priority;
mod time_slicing;

use std::collections::BTreeMap;
use std::ffi::OsString;

use gpubench_record::Proof;
use gpubench_record::wire::Inside;

use crate::plan::Availability;
use crate::profile::Profile;
pub use facts::{HostFacts, Said};
use host::{Guard, HostError};
pub use in_force::InForce;
pub use mig::share_of_instance;
pub use mps_quota::PRIORITY;
pub use program::ProgramSeen;
pub use seen::{OverLimit, Seen, TenantSeen};

/// What a mechanism is asked about: what the user wants, and what the host is.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// What the user wants.
    pub profile: &'a Profile,
    /// What the host is.
    pub facts: &'a HostFacts,
}

/// The state in which the host must be for a mechanism's cells.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stage {
    /// Mechanisms of one key share it.
    pub key: String,
    /// Whether tenants without any mechanism are unaffected by it, and so may run meanwhile.
    pub plain_too: bool,
}

/// Variables for a tenant, over those of the run.
pub type TenantEnv = BTreeMap<OsString, OsString>;

/// What tenants shall tell once their context is open, beside the facts that all tell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Questions {
    /// On which SMs their blocks run.
    pub census: bool,
    /// What becomes of an allocation of this size.
    pub over_limit_bytes: Option<u64>,
}

/// One way to share a GPU, on this host.
pub trait Mechanism: Sync {
    /// Name, as in `catalogue`.
    fn name(&self) -> &'static str;

    /// Canonical variant: the name with the options that are in force.
    fn variant(&self, _asked: &Asked<'_>) -> String {
        self.name().to_owned()
    }

    /// Whether it can run here.
    fn availability(&self, _asked: &Asked<'_>) -> Availability {
        Availability::Available
    }

    /// What it would change on the host, one line each.
    fn host_changes(&self, _asked: &Asked<'_>) -> Vec<String> {
        Vec::new()
    }

    /// The state in which the host must be. `None` if nothing is set up.
    fn stage(&self, _asked: &Asked<'_>) -> Option<Stage> {
        None
    }

    /// Brings the host into its stage. Everything is changed through the guard.
    ///
    /// # Errors
    /// When the host refuses; the guard then still holds what was done.
    fn enter(&self, _asked: &Asked<'_>, _guard: &mut Guard) -> Result<InForce, HostError> {
        Ok(InForce::default())
    }

    /// Variables for the tenant in a place.
    fn tenant_env(&self, _asked: &Asked<'_>, _set_up: &InForce, _place: usize) -> TenantEnv {
        TenantEnv::new()
    }

    /// What each of so many tenants has of the one process that they share; empty where each is a
    /// process of its own.
    fn inside(&self, _places: usize) -> Vec<Inside> {
        Vec::new()
    }

    /// Whether it lets one tenant in and turns every other away. Its cells have the victim alone,
    /// and each neighbour asks for a context in vain.
    fn turns_away(&self) -> bool {
        false
    }

    /// Whether somebody who is none of its tenants shall ask for a context while theirs are open.
    fn refuses_strangers(&self, _asked: &Asked<'_>) -> bool {
        false
    }

    /// What its tenants shall tell.
    fn questions(&self, _asked: &Asked<'_>) -> Questions {
        Questions::default()
    }

    /// The memory that one tenant may have at most; none if it may take everything.
    fn memory_limit_bytes(&self, _asked: &Asked<'_>) -> Option<u64> {
        None
    }

    /// The share of the device's arithmetic that one tenant is told to keep to; none if that is
    /// not set, or if it is a part of the SMs that the tenant itself sees.
    fn compute_share(&self, _asked: &Asked<'_>) -> Option<f64> {
        None
    }

    /// Whether that share is one of time, in which a tenant may have the whole device.
    fn limits_time(&self) -> bool {
        false
    }

    /// Judges what was seen at one look at a cell, before its samples, among them or after them.
    /// Empty if the cell can show nothing.
    fn prove(&self, asked: &Asked<'_>, seen: &Seen) -> Vec<Proof>;
}

/// Every mechanism, in the order of `catalogue`.
pub const CATALOGUE: &[&dyn Mechanism] = &[
    &exclusive::Exclusive,
    &exclusive_process::ExclusiveProcess,
    &time_slicing::TimeSlicing,
    &mps::Mps,
    &mps_quota::MpsQuota,
    &mps_static::MpsStatic,
    &mps_memory::MpsMemory,
    &mig::Mig,
    &mig_mps::MigMps,
    &hami::Hami,
    &green_context::GreenContext,
    &stream_priority::StreamPriority,
];

/// The mechanism of that name.
#[must_use]
pub fn find(name: &str) -> Option<&'static dyn Mechanism> {
    CATALOGUE
        .iter()
        .copied()
        .find(|mechanism| mechanism.name() == name)
}

/// A mechanism that cannot run here.
fn waived(reason: impl Into<String>, remedy: Option<&str>) -> Availability {
    Availability::Waived {
        reason: reason.into(),
        remedy: remedy.map(str::to_owned),
    }
}

/// One that changes device settings without the user's leave.
fn needs_leave(what: &str) -> Availability {
    waived(
        format!("it would change device settings ({what})"),
        Some("--allow-reconfigure"),
    )
}

/// Why a setting of the device may not or cannot be changed; nothing if it can.
fn settings_locked(facts: &HostFacts, what: &str) -> Option<Availability> {
    if !facts.allow_reconfigure {
        return Some(needs_leave(what));
    }
    (!facts.may_change_settings).then(|| {
        waived(
            format!("changing the {what} takes CAP_SYS_ADMIN, which this user does not have"),
            Some("run as root"),
        )
    })
}

/// Why a tenant cannot have the share that the victim abides by; nothing if it can.
fn too_little_for_share(asked: &Asked<'_>, what: &str, pct: u32) -> Option<Availability> {
    let share = asked.profile.share.value();
    (f64::from(pct) / 100.0 < share).then(|| {
        waived(
            format!("{pct} % of the {what} is less than the victim's share of {share:.3}"),
            Some("a larger percentage, or a smaller share"),
        )
    })
}

/// Why nothing can be done that needs a device which nobody uses; nothing if nobody does.
fn held_by_others(facts: &HostFacts, consequence: &str) -> Option<Availability> {
    (!facts.holders.is_empty()).then(|| {
        waived(
            format!(
                "processes {:?} use the device: {consequence}",
                facts.holders
            ),
            Some("end them, or choose another --device"),
        )
    })
}

/// The remedy for a compute mode.
const DEFAULT_MODE: &str = "nvidia-smi -c DEFAULT";

/// A remedy by a command, for this device: without its name the command would change all of the
/// host's.
fn on_this(device: &str, command: &str) -> String {
    format!("{command} -i {device}")
}

/// Why nobody can have a context; nothing if somebody can.
fn prohibited(facts: &HostFacts) -> Option<Availability> {
    (facts.compute_mode.as_deref() == Some("PROHIBITED")).then(|| {
        waived(
            "compute mode PROHIBITED keeps every process out",
            Some(&on_this(&facts.uuid, DEFAULT_MODE)),
        )
    })
}

/// Why no several processes can share the device; nothing if they can.
fn sharing_is_off(facts: &HostFacts) -> Option<Availability> {
    let prohibited = prohibited(facts);
    let mode = facts.compute_mode.as_deref()?;
    prohibited.or_else(|| {
        matches!(mode, exclusive_process::MODE | "EXCLUSIVE_THREAD").then(|| {
            waived(
                format!("compute mode {mode} keeps a second process out"),
                Some(&on_this(&facts.uuid, DEFAULT_MODE)),
            )
        })
    })
}

/// Why nothing can run on the whole device; nothing if it is whole.
fn device_is_cut(facts: &HostFacts) -> Option<Availability> {
    (facts.mig == Some(true)).then(|| {
        waived(
            "MIG mode is on, so there is no whole device",
            Some(&on_this(&facts.uuid, "nvidia-smi -mig 0")),
        )
    })
}

/// Why no process can have a context of the device as it is; nothing if one can.
#[must_use]
pub fn without_context(facts: &HostFacts) -> Option<String> {
    if let Some(Availability::Waived { reason, .. }) = prohibited(facts) {
        return Some(reason);
    }
    let mut instances = facts.mig_instances.iter();
    let is_empty = instances.all(|instance| instance.compute.is_empty());
    (facts.mig == Some(true) && is_empty)
        .then(|| "MIG mode is on, and there is no instance".to_owned())
}

/// A piece of evidence. When it was taken is written down by whoever looked.
fn observed(check: &str, holds: bool, evidence: String) -> Proof {
    Proof {
        when: String::new(),
        check: check.to_owned(),
        holds,
        evidence,
        hardware: false,
        limiter: false,
    }
}

#[cfg(test)]
mod tests {
    use super::{CATALOGUE, Seen};
    use gpubench_record::Condition;

    #[test]
    fn both_catalogues_have_the_same_names_in_the_same_order() {
        let here: Vec<&str> = CATALOGUE.iter().map(|mechanism| mechanism.name()).collect();
        assert_eq!(here, crate::catalogue::names());
    }

    #[test]
    fn numbers_of_another_namespace_accuse_nobody() {
        let seen = |ours: &[u32], listed: &[u32]| Seen {
            listed: Some(listed.to_vec()),
            ..Seen::new(Condition::N, ours.to_vec())
        };
        assert_eq!(seen(&[7, 8], &[7, 8, 9]).foreign(), Some(vec![9]));
        assert_eq!(seen(&[7], &[7]).foreign(), Some(vec![]));
        assert_eq!(seen(&[7], &[30_123]).foreign(), None);
    }
}
