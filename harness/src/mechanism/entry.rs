//! The facts of a mechanism that need no host.
//!
//! Every field is required, so that a mechanism without one of the facts does not compile. No code
//! derives a fact from a mechanism's name.

use gpubench_record::wire::Inside;
use gpubench_record::{MechanismProperties, Sharing, SmNumbers, TenantForm};

use crate::profile::Profile;

/// A way to share one GPU: its facts that need no GPU.
#[derive(Debug, Clone, Copy)]
pub struct MechanismEntry {
    /// Name on the command line, in profiles and in records.
    pub name: &'static str,
    /// One line for `gpubench list mechanisms`.
    pub summary: &'static str,
    /// Mechanisms of one group run one after another without a change of the host in between.
    pub group: &'static str,
    /// Whether it requires a change to the host.
    pub reconfigures: bool,
    /// Keys of its table in a profile; empty if it has none.
    pub options: &'static [OptionEntry],
    /// How its tenants share the device.
    pub sharing: Sharing,
    /// Whether its tenants are processes or threads.
    pub tenants: Tenants,
    /// Whether an MPS daemon serves the tenants.
    pub mps_daemon: bool,
    /// Whether a preloaded library counts the memory and the launches of each tenant.
    pub accounting_library: bool,
    /// The meaning of the SM number that a block reads (`%smid`).
    pub sm_numbers: SmNumbers,
    /// Time from a tenant's first launch until its limits act steadily; 0 if they do at once.
    pub settles_ns: u64,
    /// Longest period in which it lets a tenant run and then wait; 0 where none is known. Closed
    /// loops last whole periods, and its cells start at a random instant of one.
    pub period_ns: u64,
    /// Sets the options under which it protects no tenant, if it is the unprotected form of its
    /// [`Sharing`]; `None` for every other mechanism.
    pub unprotected: Option<fn(&mut Profile)>,
}

/// Whether the tenants of a mechanism are processes or threads.
#[derive(Debug, Clone, Copy)]
pub enum Tenants {
    /// Each is a process of its own.
    Processes,
    /// All are threads of one process. The function returns the settings of each of `n` threads.
    Threads(fn(usize) -> Vec<Inside>),
}

/// One key of a mechanism's table in a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OptionEntry {
    pub key: &'static str,
    /// One line on what it sets.
    pub summary: &'static str,
    /// Accepted values.
    pub accepted: &'static [&'static str],
}

/// The option of a mechanism that always limits memory.
pub(super) const MEMORY_PCT: OptionEntry = OptionEntry {
    key: "memory_pct",
    summary: "maximum memory of each process, in percent of the device",
    accepted: &["1 to 100"],
};

impl MechanismEntry {
    /// The facts that plans and records keep.
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
            period_ns: self.period_ns,
        }
    }

    /// The settings of each tenant as a thread of one process; empty if tenants are processes.
    #[must_use]
    pub fn inside(&self, slots: usize) -> Vec<Inside> {
        match self.tenants {
            Tenants::Processes => Vec::new(),
            Tenants::Threads(inside) => inside(slots),
        }
    }
}
