//! The fault table of a machine: what its driver answers to each fault.
//!
//! A machine file holds the rows that someone measured on such a device. What it lacks comes from
//! `profiles/machines/documented-faults.toml`: the vendor's documents, and what is assumed.

mod table;
#[cfg(test)]
mod tests;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use table::{documented, fault_names};

/// The fault table of a machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Faults {
    /// The trials behind the rows without `evidence`; absent if there were none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured: Option<Measured>,
    /// The rows. One for a mechanism wins over one for all.
    pub rows: Vec<FaultRow>,
}

/// Fault trials on one GPU under one driver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// The GPU, as NVML names it.
    pub device: String,
    /// Version of its driver.
    pub driver: String,
    /// The day, in UTC, as year, month and day.
    pub date: String,
    /// Trials behind each row.
    pub trials: u32,
    /// Mechanisms of the trials.
    pub under: Vec<Under>,
    /// Folders of their records in `reports/examples`.
    pub records: Vec<String>,
}

/// The answers to some faults.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FaultRow {
    /// Names of the faults, as in `gpubench list faults`, or `run-time-limit`, or `deadlock`.
    pub faults: Vec<String>,
    /// The mechanism; absent for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub under: Option<Under>,
    /// What the process gets that causes the fault.
    #[serde(default)]
    pub own: Reply,
    /// What the other clients of its MPS server get.
    #[serde(default)]
    pub peer: Reply,
    /// Xids that NVML reports as events, and that name a process in the kernel's log.
    #[serde(default)]
    pub xids: Vec<u32>,
    /// Xids of the kernel's log only, without a process, before those.
    #[serde(default)]
    pub log_before: Vec<u32>,
    /// The process that the Xids name.
    #[serde(default)]
    pub names: Named,
    /// Time from the fault until calls fail: the 5 %, 50 % and 95 % points; absent for at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noticed_ms: Option<[f64; 3]>,
    /// The MPS server refuses new clients until those that the fault reached have left.
    #[serde(default)]
    pub refuses_new_clients: bool,
    /// First major driver version whose static SM partitions contain it; absent for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partitions_contain_from: Option<u32>,
    /// What the row rests on; absent for the trials of the table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Evidence>,
    /// The documents, or what is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

/// Whether a context is by itself or a client of an MPS server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Under {
    /// A context by itself: time slices, MIG, HAMi.
    TimeSlicing,
    /// A client of an MPS server.
    Mps,
}

impl Under {
    /// Both.
    pub const ALL: [Self; 2] = [Self::TimeSlicing, Self::Mps];

    /// Its name in files and lists.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TimeSlicing => "time-slicing",
            Self::Mps => "mps",
        }
    }
}

/// What a process gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "accepted is a CUresult, \"well\", \"ended\" or \"silent\"")]
pub enum Reply {
    /// A call returns this `CUresult`.
    Code(i32),
    /// Something else.
    Other(Other),
}

/// What a process gets other than an error code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Other {
    /// No error.
    Well,
    /// It ends, by itself or by a signal.
    Ended,
    /// Its call does not return.
    Silent,
}

impl Default for Reply {
    fn default() -> Self {
        Self::Other(Other::Well)
    }
}

impl Reply {
    /// The error code; `None` without one.
    pub const fn code(self) -> Option<i32> {
        match self {
            Self::Code(code) => Some(code),
            Self::Other(_) => None,
        }
    }
}

/// The process that an Xid names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Named {
    /// The one that caused the fault.
    #[default]
    Culprit,
    /// The server of its mechanism.
    Server,
}

/// What a row rests on, where that is not a trial on such a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Evidence {
    /// Documents of the vendor.
    Documented,
    /// Nothing: the row is a guess.
    Unknown,
}

impl Evidence {
    /// Its name in files and lists.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Documented => "documented",
            Self::Unknown => "unknown",
        }
    }
}

impl FaultRow {
    pub fn is_of(&self, fault: &str, under: Under) -> bool {
        self.under.is_none_or(|own| own == under) && self.faults.iter().any(|name| name == fault)
    }
}
