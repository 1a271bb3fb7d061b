//! What stands around a machine's GPU that no way to share decides, and that whoever measures on it
//! must know: a hypervisor, encrypted transfers, clocks that somebody has
//! set, a watch over how long kernels run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Machine, MachineError, wrong};

/// What stands around the GPU. By default nothing does.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Circumstances {
    /// Whose GPU this is, as NVML tells it. The model knows no hypervisor: nothing else changes.
    pub virtualization: Virtualization,
    /// Confidential computing is on, as NVML tells it. The model encrypts nothing.
    pub confidential_computing: bool,
    /// Application clock that somebody has set for the SMs, at which the model then runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub application_sm_clock_mhz: Option<u32>,
    /// Time from its beginning after which a kernel is ended, as where a display waits for the same
    /// GPU; 0 for none.
    #[serde(skip_serializing_if = "is_zero")]
    pub kernel_run_time_limit_ms: u64,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands out a reference"
)]
const fn is_zero(value: &u64) -> bool {
    *value == 0
}

/// `nvmlGpuVirtualizationMode_t`, by its number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Virtualization {
    /// No hypervisor stands between.
    #[default]
    None = 0,
    /// A virtual machine has the whole GPU.
    Passthrough = 1,
    /// A virtual machine has a part of it.
    Vgpu = 2,
    /// The host hands parts out.
    HostVgpu = 3,
    /// The host hands it out for graphics.
    HostVsga = 4,
}

impl Machine {
    /// The clock at which the SMs run when nothing slows them down.
    #[must_use]
    pub fn sm_clock_mhz(&self) -> u32 {
        let set = self.circumstances.application_sm_clock_mhz;
        set.unwrap_or(self.gpu.sm_clock_mhz)
    }

    pub(super) fn check_circumstances(&self, path: &str) -> Result<(), MachineError> {
        const LONGEST_MS: u64 = 3_600_000;
        let limit_ms = self.circumstances.kernel_run_time_limit_ms;
        if limit_ms > LONGEST_MS {
            let key = "circumstances.kernel_run_time_limit_ms";
            return wrong(path, key, limit_ms, "0 to 3600000");
        }
        let most = self.gpu.sm_clock_mhz;
        match self.circumstances.application_sm_clock_mhz {
            Some(set) if !(1..=most).contains(&set) => {
                let key = "circumstances.application_sm_clock_mhz";
                wrong(path, key, set, "1 to gpu.sm_clock_mhz")
            }
            _ => Ok(()),
        }
    }
}
