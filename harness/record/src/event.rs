//! `events.jsonl`: what happened, one JSON line each, flushed as it happens.
//!
//! The first line has the plan and the provenance, so that everything measured before a crash can
//! be read.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::calibration::{Heating, SpeedCheck};
use super::cell::Surroundings;
use super::mechanism::Proof;
use super::plan::TopUp;
use super::run::{DeviceIdentity, Provenance};
use super::telemetry::XidLine;
use crate::calibration::Calibration;
use crate::cell::TenantResult;
use crate::fault::{FaultObservation, FaultTrial};
use crate::mechanism::MechanismRow;
use crate::plan::{Cell, Plan};
use crate::probe::ProbeResult;
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

// A run that was interrupted and started again.

/// What a later start of a run needs beside its plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunSettings {
    /// The profile with the values of the command line, as JSON.
    pub profile: String,
    /// The run of the profile's rotation.
    pub rotation_run: u32,
    /// Version of the scoring rules of this build.
    pub scoring: String,
    /// Hash over the PTX of every kernel.
    pub ptx_hash: String,
    /// The value of `--device`; absent without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// The value of `--hami-lib`; absent without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hami_lib: Option<String>,
    /// Whether the user allowed changes of device settings; absent without a flag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub may_reconfigure: Option<bool>,
    /// The boot of the host; absent where it is not readable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<String>,
}

/// An interruption of a run, and the start that went on after it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interruption {
    /// RFC 3339 time of the last event before it.
    pub last_event_at: String,
    /// Why the run ended; absent where it was killed or the host stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Blocks that were complete before it. They are kept.
    pub blocks_before: u32,
    /// Blocks that were left to measure after it, those that it had cut included.
    pub blocks_after: u32,
    /// Cells that had been measured in blocks that were cut. These blocks are measured again, and
    /// the cells do not count.
    pub superseded: u32,
    /// The boot of the host before and after it, where it was readable.
    pub boot_ids: [Option<String>; 2],
    /// Facts of host, build and time of the start after it.
    pub provenance: Provenance,
}

impl Interruption {
    /// Whether the host was started again meanwhile; `None` where this is not known.
    #[must_use]
    pub fn is_reboot(&self) -> Option<bool> {
        let [before, after] = &self.boot_ids;
        Some(before.as_ref()? != after.as_ref()?)
    }
}

impl std::fmt::Display for Interruption {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let cause = match (&self.reason, self.is_reboot()) {
            (Some(reason), _) => reason.as_str(),
            (None, Some(true)) => "the host was started again",
            (None, _) => "the run was killed",
        };
        write!(
            f,
            "{cause} after {}, and the run went on at {}: {} blocks before, {} after",
            self.last_event_at, self.provenance.started_at, self.blocks_before, self.blocks_after
        )?;
        match self.superseded {
            0 => Ok(()),
            1 => f.write_str("; 1 cell of a cut block was measured again"),
            cells => write!(f, "; {cells} cells of cut blocks were measured again"),
        }
    }
}

/// What is left of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Left {
    /// The cells that are left, in run order: whole blocks.
    pub cells: Vec<Cell>,
    /// Ids of cells that began in these blocks before; they do not count.
    pub superseded: Vec<String>,
    /// Ids of fault trials that began and did not end. Each gets another id.
    pub trials_again: Vec<String>,
}

impl Plan {
    /// Replaces the blocks of `left` by its cells, and moves what began in them aside.
    pub fn resume(&mut self, left: &Left) {
        let again = |cell: &Cell| left.cells.iter().any(|one| one.block == cell.block);
        let (replaced, kept) = std::mem::take(&mut self.cells).into_iter().partition(again);
        let began = |cell: &Cell| left.superseded.contains(&cell.id);
        let replaced: Vec<Cell> = replaced;
        self.superseded.extend(replaced.into_iter().filter(began));
        self.cells = kept;
        self.cells.extend(left.cells.iter().cloned());
        for trial in &mut self.fault_trials {
            if left.trials_again.contains(&trial.id) {
                self.superseded_trials.push(trial.clone());
                trial.id += AGAIN;
            }
        }
    }

    /// Every cell that ran or will run, with those that do not count.
    pub fn all_cells(&self) -> impl Iterator<Item = &Cell> {
        self.cells.iter().chain(&self.superseded)
    }

    /// Every fault trial, with those that do not count.
    pub fn all_fault_trials(&self) -> impl Iterator<Item = &FaultTrial> {
        self.fault_trials.iter().chain(&self.superseded_trials)
    }
}

/// What the id of a fault trial gets when it runs again.
const AGAIN: &str = "-again";
