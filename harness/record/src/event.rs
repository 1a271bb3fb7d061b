//! `events.jsonl`: what happened, one JSON line each, flushed as it happens.
//!
//! The first line has the plan and the provenance, so that everything measured before a crash can
//! be read.

use serde::{Deserialize, Serialize};

use super::calibration::{Heating, SpeedCheck};
use super::cell::Surroundings;
use super::mechanism::{Proof, TenantProcess};
use super::telemetry::XidLine;
use super::time_use::TopUp;
use crate::calibration::Calibration;
use crate::cell::TenantResult;
use crate::fault::FaultObservation;
use crate::interruption::{Interruption, Left, RunSettings};
use crate::mechanism::MechanismRow;
use crate::plan::{Cell, Plan};
use crate::probe::ProbeResult;
use crate::provenance::{DeviceIdentity, Provenance};
use crate::time_use::SpentTime;
use crate::version::FormatVersion;

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
        /// What `matrix --resume` needs; absent in older records, which cannot be resumed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        settings: Option<Box<RunSettings>>,
    },
    /// The run was started again after an interruption.
    Resumed {
        /// The interruption.
        interruption: Box<Interruption>,
        /// What was left of the plan.
        left: Left,
    },
    /// Calibration was made or reused.
    Calibrated {
        /// The calibration.
        calibration: Calibration,
        /// The device, with the facts that a tenant of the whole device reports; the first event is
        /// written before there is a tenant. Absent where no tenant had the whole device.
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
        /// The cell in which it was in force, or not; `None` in records of format 1.0, which
        /// pooled the evidence of a variant.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cell: Option<String>,
        /// The evidence.
        proof: Proof,
    },
    /// The process of a tenant was first seen in a cell of a variant.
    TenantSeen {
        /// Variant concerned.
        variant: String,
        /// The tenant.
        tenant: String,
        /// Its environment and libraries.
        process: TenantProcess,
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
    /// The device was heated before the first cell.
    Heated {
        /// How.
        heating: Heating,
    },
    /// The device was loaded because it had been idle.
    KeptWarm {
        /// How long it had been idle.
        idle_ns: u64,
        /// How long it was loaded.
        load_ns: u64,
    },
    /// The check kernel was measured between two cells.
    SpeedChecked {
        /// Its rate.
        check: SpeedCheck,
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
        /// Processes of other programs that NVML listed while it ran; absent where NVML did not
        /// answer.
        other_processes: Option<Vec<u32>>,
        /// Reasons for throttling while it ran, as NVML's bit mask; absent where NVML did not
        /// answer.
        throttle_reasons: Option<u64>,
        /// Xids that the device reported from the end of the last cell to the end of this one;
        /// absent without NVML events.
        #[serde(default)]
        xids: Option<Vec<u32>>,
        /// Xid lines of the kernel's log in that time; absent if the log was not readable.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        xid_lines: Option<Vec<XidLine>>,
        /// Share of the host's CPU time that a hypervisor took while it ran, 0 to 1; absent in
        /// virtual time and where the host does not report it.
        #[serde(default)]
        cpu_steal_ratio: Option<f64>,
        /// Further observations around it.
        #[serde(default)]
        surroundings: Box<Surroundings>,
    },
    /// After the planned cells: which undecided rows get more blocks. Written once, where a row is
    /// undecided.
    ToppedUp {
        /// The decision on each row.
        top_up: TopUp,
        /// The cells that run in addition.
        cells: Vec<Cell>,
    },
    /// A probe ended.
    Probed {
        /// What it found.
        result: ProbeResult,
    },
    /// A fault trial began.
    FaultTrialBegan {
        /// Its id.
        id: String,
    },
    /// A fault trial ended; the victims' samples are in its logs.
    FaultTrialEnded {
        /// Its id.
        id: String,
        /// What was observed.
        observed: Box<FaultObservation>,
    },
    /// No further fault trial runs.
    FaultTrialsStopped {
        /// Id of the last one.
        id: String,
        /// The reset or restart that the GPU needs.
        reason: String,
    },
    /// A warning for the reader.
    Warning {
        /// The text.
        text: String,
    },
    /// What the time of this start was spent on.
    TimeSpent {
        /// Its parts.
        time: Vec<SpentTime>,
    },
    /// Last line of a run that ended by itself.
    Ended {
        /// Whether every planned cell ran.
        complete: bool,
        /// Why not.
        reason: Option<String>,
        /// RFC 3339 time.
        at: String,
    },
}
