//! How the device was kept at one speed: heating before the first cell, load after an idle, and the
//! rate of one kernel between cells.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a plan does to keep the device at one speed; 0 is never.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SoakPlan {
    /// Longest heating before the first cell.
    pub limit_ns: u64,
    /// Length of a window of the heating.
    pub window_ns: u64,
    /// Idle time after which the device is loaded before the next cell.
    pub keep_warm_ns: u64,
    /// Length of one measurement of the check kernel.
    pub check_ns: u64,
    /// Longest time between two of them.
    pub every_ns: u64,
}

/// What was done to keep the device at one speed, and its speed between cells.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceSpeed {
    /// The heating before the first cell; absent where there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heating: Option<Heating>,
    /// How often the device was loaded after an idle.
    pub kept_warm: u32,
    /// The measurements of the check kernel, in order.
    pub checks: Vec<SpeedCheck>,
}

/// Heating under load until rate and temperature are steady.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Heating {
    /// Whether both were steady before the limit.
    pub steady: bool,
    /// How long it took.
    pub elapsed_ns: u64,
    /// The first window.
    pub first: SpeedCheck,
    /// The last window.
    pub last: SpeedCheck,
}

/// The rate of a kernel that always does the same work, alone on the device, with the readings
/// at its end.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SpeedCheck {
    /// When it ended, on the clock of the run.
    pub at_ns: u64,
    /// Completed requests per second of device time.
    pub rate_per_s: f64,
    /// The clock of the SMs; absent where NVML does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sm_clock_mhz: Option<f64>,
    /// The temperature of the GPU; absent where NVML does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature_c: Option<f64>,
}
