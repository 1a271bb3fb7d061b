//! A mechanism in a record: its properties, its outcome, and the evidence that it was in force.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::exit_code::Outcome;

/// Properties of a mechanism that plans and scores need. They do not depend on the host. The plan
/// has them, so that a record is read without the catalogue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MechanismProperties {
    /// How its tenants share the device.
    pub sharing: Sharing,
    /// Whether tenants are processes or threads.
    pub tenants: TenantForm,
    /// Whether an MPS daemon serves the tenants.
    pub mps_daemon: bool,
    /// Whether a library that is preloaded into each tenant accounts for its memory and launches.
    pub accounting_library: bool,
    /// The meaning of the SM number that a block reads (`%smid`).
    pub sm_numbers: SmNumbers,
    /// Time after a tenant's first launch until the mechanism's limits are in effect.
    pub settles_ns: u64,
    /// Longest period in which the mechanism lets a tenant run and then wait; 0 where none is
    /// known.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub period_ns: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(value: &u64) -> bool {
    *value == 0
}

/// How the tenants of a mechanism share the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Sharing {
    /// One tenant has the whole device: the reference for every mechanism.
    Reference,
    /// The first tenant has the device, and every other is refused.
    OneTenant,
    /// Tenants run in time slices.
    InTime,
    /// Work of several tenants runs at the same time.
    InSpace,
}

/// What a tenant is for the operating system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TenantForm {
    /// Each is a process.
    Processes,
    /// All are threads of one process, which ends as a whole.
    Threads,
}

/// The meaning of the SM number that a block reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SmNumbers {
    /// The device counts SMs: equal numbers of two tenants are the same SM.
    OfDevice,
    /// Each hardware partition counts its SMs from zero.
    OfPart,
}

impl MechanismProperties {
    /// Whether this is the reference for every mechanism.
    pub const fn is_reference(&self) -> bool {
        matches!(self.sharing, Sharing::Reference)
    }

    /// Whether only one tenant gets the device, so that no cell has a neighbour.
    pub const fn admits_one_tenant(&self) -> bool {
        matches!(self.sharing, Sharing::OneTenant)
    }

    /// Whether its tenants take turns on the device.
    pub const fn takes_turns(&self) -> bool {
        matches!(self.sharing, Sharing::InTime)
    }

    /// Whether its tenants are threads of one process.
    pub const fn has_threads(&self) -> bool {
        matches!(self.tenants, TenantForm::Threads)
    }

    /// The properties of a mechanism in records of format 1.0, which lack them. The table is
    /// frozen.
    pub fn of_format_1_0(name: &str) -> Self {
        use Sharing::{InSpace, InTime, OneTenant, Reference};
        let (sharing, mps_daemon) = match name {
            "exclusive" => (Reference, false),
            "exclusive-process" => (OneTenant, false),
            "mps" | "mps-quota" | "mps-static" | "mps-memory" | "mig-mps" => (InSpace, true),
            "mig" | "green-context" | "stream-priority" => (InSpace, false),
            _ => (InTime, false),
        };
        let tenants = match name {
            "green-context" | "stream-priority" => TenantForm::Threads,
            _ => TenantForm::Processes,
        };
        let sm_numbers = if name == "mig" { SmNumbers::OfPart } else { SmNumbers::OfDevice };
        Self {
            sharing,
            tenants,
            mps_daemon,
            accounting_library: name == "hami",
            sm_numbers,
            settles_ns: if name == "hami" { 360_000_000 } else { 0 },
            period_ns: if name == "hami" { 120_000_000 } else { 0 },
        }
    }
}

/// The reference of a plan of format 1.0, which did not write it.
pub(crate) fn reference_of_old_records() -> String {
    "exclusive".to_owned()
}

/// One mechanism variant in a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MechanismRow {
    /// Name in the catalogue.
    pub name: String,
    /// Canonical variant.
    pub variant: String,
    /// Outcome with its reason.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// What would make it available, where it is waived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// Evidence that it was in force: each check with each result once, with the first evidence.
    /// Which cell has which proof stands in the events.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub proof: Vec<Proof>,
    /// The process of each tenant, by the tenant's name, as it was first seen in a cell. Absent in
    /// older records, and for a variant without a measured cell.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tenants: BTreeMap<String, TenantProcess>,
}

/// What decides which driver a tenant's process talks to, as Linux reports it (`/proc/PID`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TenantProcess {
    /// Its variables of CUDA, NVIDIA, the dynamic linker and HAMi. `*` stands for a path up to a
    /// folder of this run; the value of a name with KEY, TOKEN, SECRET or PASSWORD is not recorded.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// The mapped libraries of the driver, and those that answer for it, by their path: the version
    /// of the driver is in the file's name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub libraries: BTreeMap<String, MappedAs>,
}

named! {
    /// What a mapped library is.
    pub enum MappedAs {
        /// A library of the driver, by its name.
        Driver = "driver",
        /// Another library that exports calls of the driver, and so gets them first.
        Interposer = "interposer",
    }
}

// Evidence that a mechanism was in force in a cell.

/// When evidence was taken. It shows no more than that instant does.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub enum ProofTime {
    /// When the tenants opened their contexts.
    #[serde(rename = "at open")]
    AtOpen,
    /// Once in the life of each tenant process.
    #[serde(rename = "once")]
    Once,
    /// While the samples of the cell were taken.
    #[serde(rename = "during")]
    During,
    /// Before the samples: records of format 1.0.
    #[serde(rename = "before")]
    Before,
    /// After the samples: records of format 1.0.
    #[serde(rename = "after")]
    After,
}

impl ProofTime {
    /// As in records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AtOpen => "at open",
            Self::Once => "once",
            Self::During => "during",
            Self::Before => "before",
            Self::After => "after",
        }
    }
}

impl fmt::Display for ProofTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A proof that each cell of a variant needs.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub struct RequiredProof {
    /// When it is taken.
    pub when: ProofTime,
    /// What is checked, as in [`Proof::check`].
    pub check: String,
}

/// One piece of evidence that a mechanism was, or was not, in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Proof {
    /// When it was taken.
    pub when: ProofTime,
    /// The instant, in ns from the start of the cell; negative before it. Absent in
    /// records of format 1.0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub t_ns: Option<i64>,
    /// What was checked.
    pub check: String,
    /// Whether it shows that the mechanism is in force.
    pub holds: bool,
    /// What was observed.
    pub evidence: String,
    /// Whether a hardware partition was observed (MIG instance ids, disjoint slices).
    #[serde(default)]
    pub hardware: bool,
    /// Whether a limiter was observed in force (a percentage, a mapped interposer).
    #[serde(default)]
    pub limiter: bool,
}

impl Proof {
    /// Whether it is this required proof.
    pub fn is(&self, required: &RequiredProof) -> bool {
        self.when == required.when && self.check == required.check
    }

    /// Whether another proof is the same check with the same result, perhaps of another cell.
    pub fn agrees_with(&self, other: &Self) -> bool {
        (self.when, &self.check, self.holds) == (other.when, &other.check, other.holds)
            && (self.hardware, self.limiter) == (other.hardware, other.limiter)
    }
}
