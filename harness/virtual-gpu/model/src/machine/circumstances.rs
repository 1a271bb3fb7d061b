//! Conditions of the host and of the administrator that affect a measurement and belong to no
//! sharing mechanism: a hypervisor, encrypted transfers, fixed clocks, a time limit for kernels.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Machine, MachineError, wrong};

/// Conditions around the GPU. By default there are none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Circumstances {
    /// Virtualization mode that NVML reports. It changes nothing else.
    pub virtualization: Virtualization,
    /// Confidential computing as NVML reports it. The model encrypts nothing.
    pub confidential_computing: bool,
    /// Application clock set for the SMs; the model runs at it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub application_sm_clock_mhz: Option<u32>,
    /// Run time after which a kernel is ended, as on a GPU with a display; 0 for no limit.
    #[serde(skip_serializing_if = "is_zero")]
    pub kernel_run_time_limit_ms: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands out a reference")]
const fn is_zero(value: &u64) -> bool {
    *value == 0
}

/// `nvmlGpuVirtualizationMode_t`, by number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Virtualization {
    /// No hypervisor.
    #[default]
    None = 0,
    /// Passthrough: a virtual machine has the whole GPU.
    Passthrough = 1,
    /// A virtual machine has a vGPU.
    Vgpu = 2,
    /// The host provides vGPUs.
    HostVgpu = 3,
    /// The host provides vGPUs for graphics.
    HostVsga = 4,
}

impl Machine {
    /// The SM clock when the power cap does not lower it.
    #[must_use]
    pub fn sm_clock_mhz(&self) -> u32 {
        let set = self.circumstances.application_sm_clock_mhz;
        set.unwrap_or(self.gpu.sm_clock_mhz)
    }

    pub(super) fn check_circumstances(&self, path: &str) -> Result<(), MachineError> {
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
