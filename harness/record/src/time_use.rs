//! What the time of a run is spent on, as planned and as used.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What an instant of a run is spent on. Each instant has one part, so the parts add up to the run.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum TimePart {
    /// Phases of cells that figures come from, and the gaps between them.
    Windows,
    /// Warm-up of cells.
    WarmUp,
    /// From the message to start until the common start of the tenants, and after the last window
    /// until each has answered.
    Waiting,
    /// Opening and closing contexts, with the checks of a new one.
    Contexts,
    /// Loading modules before a cell.
    Modules,
    /// Allocating and filling buffers, logs and schedules before a cell.
    Buffers,
    /// Starting and ending the processes of tenants.
    Tenants,
    /// Starting and ending MPS daemons.
    Daemons,
    /// Other changes of the host, such as MIG mode, and their undoing.
    Switches,
    /// Evidence after a cell: observations, proofs, digests of outputs.
    Proofs,
    /// Heating, loads after an idle, and the check kernel.
    SpeedChecks,
    /// Verification of kernels and calibration.
    Calibration,
    /// Probes.
    Probes,
    /// Fault trials.
    Faults,
    /// Anything else, such as scoring for the look at undecided rows.
    Other,
}

impl TimePart {
    /// The words of tables.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Windows => "windows",
            Self::WarmUp => "warm-up",
            Self::Waiting => "waiting",
            Self::Contexts => "contexts",
            Self::Modules => "modules",
            Self::Buffers => "buffers",
            Self::Tenants => "tenant processes",
            Self::Daemons => "daemons",
            Self::Switches => "switches of the host",
            Self::Proofs => "proofs",
            Self::SpeedChecks => "checks of speed",
            Self::Calibration => "calibration",
            Self::Probes => "probes",
            Self::Faults => "fault trials",
            Self::Other => "other",
        }
    }
}

impl fmt::Display for TimePart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The time that a part of a run takes by its plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlannedTime {
    /// The part.
    pub part: TimePart,
    /// Its time.
    pub ns: u64,
    /// Whether it rests on a cost that no run on hardware has split from others.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub guessed: bool,
}

/// The time that a part of a run took, on the clock of its tenants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SpentTime {
    /// The part.
    pub part: TimePart,
    /// Its time.
    pub ns: u64,
}
