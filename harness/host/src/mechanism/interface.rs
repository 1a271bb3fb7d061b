//! The interface of a mechanism. No method has a default body: a mechanism without one of them does
//! not compile.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use gpubench_plan::Availability;
use gpubench_plan::profile::Profile;
use gpubench_record::wire::Inside;
use gpubench_record::{
    MechanismProperties, Proof, ProofTime, RequiredProof, Sharing, SmNumbers, TenantForm,
};

use super::facts::DEFAULT_MODE;
use super::host::{Guard, HostError, RunId};
use super::{HostFacts, InForce, Observation};

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
    /// Fails when the host refuses; the guard then still has the changes that were made.
    fn enter(&self, cx: &MechanismContext<'_>, guard: &mut Guard) -> Result<InForce, HostError>;

    /// Variables for the tenant of a slot, over those of the run.
    fn tenant_env(&self, cx: &MechanismContext<'_>, set_up: &InForce, slot: usize) -> TenantEnv;

    /// Judges the observation of a cell. Empty if the cell cannot show anything about the
    /// mechanism; a proof whose evidence was not observed is absent.
    fn prove(&self, cx: &MechanismContext<'_>, observed: &Observation) -> Vec<Proof>;
}

impl dyn Mechanism {
    pub fn name(&self) -> &'static str {
        self.entry().name
    }
}

/// The profile and the host of a mechanism.
#[derive(Debug, Clone, Copy)]
pub struct MechanismContext<'a> {
    pub profile: &'a Profile,
    pub facts: &'a HostFacts,
}

/// What a mechanism does for one profile on one host.
#[derive(Debug, Clone, PartialEq)]
pub struct Configuration {
    /// Canonical variant: the name with its options.
    pub variant: String,
    pub host_changes: Vec<String>,
    /// The required state of the host; `None` if nothing is set up.
    pub stage: Option<HostStage>,
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
    /// When kernels of victim and neighbour ran that were launched at the same time.
    pub time_slices: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ComputeLimit {
    /// The share of the device.
    pub share: f64,
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

// The facts of a mechanism that need no host.
//
// Every field is required, so that a mechanism without one of the facts does not compile. No code
// derives a fact from a mechanism's name.

/// A way to share one GPU: its facts that need no GPU.
#[derive(Debug, Clone, Copy)]
pub struct MechanismEntry {
    /// Name on the command line, in profiles and in records.
    pub name: &'static str,
    /// One line for `gpubench list mechanisms`.
    pub summary: &'static str,
    pub about: About,
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

/// What people ask about a mechanism first, as `gpubench list mechanisms` prints it.
#[derive(Debug, Clone, Copy)]
pub struct About {
    /// The first driver that has it.
    pub since: &'static str,
    pub needs: &'static str,
    /// What it changes on the host.
    pub changes: &'static str,
    /// What shows that it is in force.
    pub proof: &'static str,
    pub deployed_by: &'static str,
}

/// What most mechanisms have in common.
pub(super) const USUAL: MechanismEntry = MechanismEntry {
    name: "",
    summary: "",
    about: About { since: "", needs: "", changes: "", proof: "", deployed_by: "" },
    group: "",
    reconfigures: false,
    options: &[],
    sharing: Sharing::InSpace,
    tenants: Tenants::Processes,
    mps_daemon: false,
    accounting_library: false,
    sm_numbers: SmNumbers::OfDevice,
    settles_ns: 0,
    period_ns: 0,
    unprotected: None,
};

/// Whether the tenants of a mechanism are processes or threads.
#[derive(Debug, Clone, Copy)]
pub enum Tenants {
    Processes,
    /// All are threads of one process. The function returns the settings of each of `n` threads.
    Threads(fn(usize) -> Vec<Inside>),
}

/// One key of a mechanism's table in a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OptionEntry {
    pub key: &'static str,
    pub summary: &'static str,
    pub accepted: &'static [&'static str],
}

pub(super) const MEMORY_PCT: OptionEntry = OptionEntry {
    key: "memory_pct",
    summary: "maximum memory of each process, in percent of the device; 100 is no limit",
    accepted: &["1 to 100"],
};

impl MechanismEntry {
    /// The facts that plans and records keep.
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
    pub fn inside(&self, slots: usize) -> Vec<Inside> {
        match self.tenants {
            Tenants::Processes => Vec::new(),
            Tenants::Threads(inside) => inside(slots),
        }
    }
}

// Codes with which the driver refuses a context, with meaning and remedy. A mechanism under which
// a tenant gets such a code is waived; the tenant did not fail.

/// Why no tenant can be added, and the remedy; `None` for a code that is a failure.
pub fn of_code(code: i32) -> Option<(&'static str, &'static str)> {
    // Numbers and names of cuda.h.
    match code {
        46 => Some((
            "the compute mode refuses a second process (46, CUDA_ERROR_DEVICE_UNAVAILABLE)",
            DEFAULT_MODE,
        )),
        808 => Some((
            "the MPS server takes no more clients (808, CUDA_ERROR_MPS_MAX_CLIENTS_REACHED)",
            "fewer tenants",
        )),
        809 => Some((
            "the MPS server has no more connections (809, CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED)",
            "fewer tenants, or a smaller CUDA_DEVICE_MAX_CONNECTIONS",
        )),
        _ => None,
    }
}

// What a cell must show before its mechanism counts as in force.

/// A check of a mechanism, and when its evidence is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Requirement {
    when: ProofTime,
    check: &'static str,
}

impl Requirement {
    /// A check of what tenants report when they open their contexts.
    pub(super) const fn at_open(check: &'static str) -> Self {
        let when = ProofTime::AtOpen;
        Self { when, check }
    }

    pub(super) const fn once(check: &'static str) -> Self {
        let when = ProofTime::Once;
        Self { when, check }
    }

    /// A check of what is observed while the samples are taken.
    pub const fn during(check: &'static str) -> Self {
        let when = ProofTime::During;
        Self { when, check }
    }

    /// Its proof for one cell. The caller adds the instant.
    pub fn proof(self, holds: bool, evidence: impl Into<String>) -> Proof {
        Proof {
            when: self.when,
            t_ns: None,
            check: self.check.to_owned(),
            holds,
            evidence: evidence.into(),
            hardware: false,
            limiter: false,
        }
    }

    /// As in a plan.
    pub fn planned(self) -> RequiredProof {
        RequiredProof { when: self.when, check: self.check.to_owned() }
    }
}

// Paths for private folders that hold sockets.

/// Longest path of a Unix socket without the terminating zero (`sun_path` in sys/un.h is 108).
const SOCKET_PATH_MAX: usize = 107;
const LONGEST_SOCKET: &str = "pipe/tenants/p999/control_privileged";

/// The path of a new folder, short enough for the sockets in it: in the user's runtime folder, else
/// in a temporary one. The folder is not made here: its journal line must come first.
pub fn short_folder() -> Option<PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let parents = runtime.into_iter().chain([std::env::temp_dir(), PathBuf::from("/tmp")]);
    parents
        .filter(|parent| parent.is_absolute() && parent.is_dir())
        .find_map(|parent| free_name(&parent))
}

fn free_name(parent: &Path) -> Option<PathBuf> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // The journal of a dead run names its folders, so no later run may have one of the same name.
    let run = RunId::own().ok()?.short();
    (0..100).find_map(|_| {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("gpubench-{run}-{number}");
        let path = parent.join(name);
        let fits = path.join(LONGEST_SOCKET).as_os_str().len() <= SOCKET_PATH_MAX;
        (fits && !path.exists()).then_some(path)
    })
}

#[cfg(test)]
mod tests {
    use super::{free_name, short_folder};
    use std::path::Path;

    #[test]
    fn skips_a_parent_folder_whose_path_is_too_long() {
        let long = Path::new("/").join("x".repeat(90));
        assert_eq!(free_name(&long), None);
        assert!(free_name(Path::new("/run/user/1000")).is_some());
        assert_ne!(short_folder(), short_folder());
    }
}
