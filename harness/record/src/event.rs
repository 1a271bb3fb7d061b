//! `events.jsonl`: what happened, one JSON line each, flushed as it happens.
//!
//! The first line carries the plan and the provenance, so that whatever dies, everything measured
//! until then can be read.

use serde::{Deserialize, Serialize};

use crate::cell::TenantResult;
use crate::fault::FaultObservation;
use crate::mechanism::{MechanismRow, Proof};
use crate::plan::Plan;
use crate::probe::ProbeResult;
use crate::provenance::{DeviceIdentity, Provenance};
use crate::run::Calibration;
use crate::version::FormatVersion;
use crate::xid::XidLine;

/// One line of the event file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "event")]
pub enum RunEvent {
    /// First line: everything needed to read the rest.
    Began {
        /// Format of the record.
        format_version: FormatVersion,
        /// The plan.
        plan: Box<Plan>,
        /// The device.
        device: Box<DeviceIdentity>,
        /// The circumstances.
        provenance: Box<Provenance>,
    },
    /// Calibration was made or reused.
    Calibrated {
        /// The calibration.
        calibration: Calibration,
        /// The device, with what only a tenant that has all of it can tell: the first event is
        /// written before there is one. Absent where nobody had all of it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        device: Option<Box<DeviceIdentity>>,
    },
    /// A mechanism was set up, or could not be.
    Mechanism {
        /// Its row so far.
        row: MechanismRow,
    },
    /// Evidence about a mechanism in force.
    Proved {
        /// Variant concerned.
        variant: String,
        /// The evidence.
        proof: Proof,
    },
    /// A tenant process was started.
    TenantStarted {
        /// Its name.
        tenant: String,
        /// Its process id.
        pid: u32,
    },
    /// A tenant process ended.
    TenantEnded {
        /// Its name.
        tenant: String,
        /// Its process id.
        pid: u32,
        /// How it ended.
        reason: String,
    },
    /// A cell began.
    CellBegan {
        /// Its id.
        id: String,
    },
    /// A cell ended; its samples are in the cell's logs.
    CellEnded {
        /// Its id.
        id: String,
        /// Each tenant, the victim first.
        tenants: Vec<TenantResult>,
        /// Why it failed, if it did.
        failure: Option<String>,
        /// Whether NVML listed a process that is none of ours while it ran; absent if not asked.
        #[serde(alias = "foreign_processes")]
        other_processes: Option<Vec<u32>>,
        /// Reasons for throttling seen while it ran, as NVML's bit mask; absent if not asked.
        throttle_reasons: Option<u64>,
        /// Xids that the device reported from the end of the last cell to the end of this one;
        /// absent if nobody listened.
        #[serde(default)]
        xids: Option<Vec<u32>>,
        /// What the kernel's log said of Xids in that time; absent if nobody read it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        xid_lines: Option<Vec<XidLine>>,
        /// Share of the host's CPU time that a hypervisor took while it ran, 0 to 1; absent in
        /// virtual time and where the host does not tell.
        #[serde(default)]
        cpu_steal_ratio: Option<f64>,
    },
    /// A probe ended.
    Probed {
        /// What it found.
        result: ProbeResult,
    },
    /// A fault trial began.
    FaultTrialBegan {
        /// Id of its cell.
        id: String,
    },
    /// A fault trial ended; the victims' samples are in its logs.
    FaultTrialEnded {
        /// Id of its cell.
        id: String,
        /// What was seen.
        seen: Box<FaultObservation>,
    },
    /// No further fault trial was held.
    FaultTrialsStopped {
        /// Id of the cell of the last one.
        id: String,
        /// What it showed that the GPU needs.
        reason: String,
    },
    /// Something the reader should know.
    Warning {
        /// The text.
        text: String,
    },
    /// Last line of a run that reached its end.
    Ended {
        /// Whether every planned cell ran.
        complete: bool,
        /// Why not.
        reason: Option<String>,
        /// RFC 3339 time.
        at: String,
    },
}
