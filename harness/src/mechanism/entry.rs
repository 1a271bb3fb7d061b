//! What is known about a mechanism without asking a host.
//!
//! Every field is required, so that a mechanism that leaves a fact out does not compile. Nothing
//! about a mechanism is read off its name.

use gpubench_record::wire::Inside;
use gpubench_record::{MechanismProperties, Sharing, SmNumbers, TenantForm};

use crate::profile::Profile;

/// A way to share one GPU, as far as it can be told without a GPU.
#[derive(Debug, Clone, Copy)]
pub struct MechanismEntry {
    /// Name on the command line, in profiles and in records.
    pub name: &'static str,
    /// What it is, in one line.
    pub summary: &'static str,
    /// Mechanisms that can follow one another without a switch of the host share a group.
    pub group: &'static str,
    /// Whether it cannot run without a change to the host.
    pub reconfigures: bool,
    /// Keys of its table in a profile; empty where it has none.
    pub options: &'static [OptionEntry],
    /// How its tenants have the device.
    pub sharing: Sharing,
    /// How its tenants are placed.
    pub tenants: Tenants,
    /// Whether an MPS daemon serves the tenants.
    pub mps_daemon: bool,
    /// Whether a library that is preloaded into each tenant counts what the tenant takes.
    pub accounting_library: bool,
    /// What the SM number that a block reads (`%smid`) tells.
    pub sm_numbers: SmNumbers,
    /// Time after a tenant's first launch until its limits act steadily; 0 where they do at once.
    pub settles_ns: u64,
    /// Sets the options under which it protects no tenant, where it is the form with which others
    /// of the same [`Sharing`] are compared; `None` for every other mechanism.
    pub unprotected: Option<fn(&mut Profile)>,
}

/// How the tenants of a mechanism are placed.
#[derive(Debug, Clone, Copy)]
pub enum Tenants {
    /// Each is a process of its own.
    Processes,
    /// All are threads of one process. The function gives what each of so many has of it.
    Threads(fn(usize) -> Vec<Inside>),
}

/// One key of a mechanism's table in a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OptionEntry {
    /// The key.
    pub key: &'static str,
    /// What it sets, in one line.
    pub summary: &'static str,
    /// Accepted values.
    pub accepted: &'static [&'static str],
}

/// The option of a mechanism that always limits memory.
pub(super) const MEMORY_PCT: OptionEntry = OptionEntry {
    key: "memory_pct",
    summary: "most memory of each process, in percent of the device",
    accepted: &["1 to 100"],
};

impl MechanismEntry {
    /// What plans and records keep of it.
    #[must_use]
    pub const fn properties(&self) -> MechanismProperties {
        MechanismProperties {
            sharing: self.sharing,
            tenants: match self.tenants {
                Tenants::Processes => TenantForm::Processes,
                Tenants::Threads(_) => TenantForm::Threads,
            },
            mps_daemon: self.mps_daemon,
            accounting_library: self.accounting_library,
            sm_numbers: self.sm_numbers,
            settles_ns: self.settles_ns,
        }
    }

    /// What each of so many tenants has of the one process that they share; empty where each is a
    /// process of its own.
    #[must_use]
    pub fn inside(&self, slots: usize) -> Vec<Inside> {
        match self.tenants {
            Tenants::Processes => Vec::new(),
            Tenants::Threads(inside) => inside(slots),
        }
    }
}
