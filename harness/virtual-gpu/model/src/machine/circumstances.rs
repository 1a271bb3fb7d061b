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
    /// Added to the process ids that NVML lists, which are then those of another namespace, as in a
    /// container; 0 for the ids of this namespace.
    #[serde(skip_serializing_if = "is_zero")]
    pub pid_offset: u64,
    /// Compute mode at the start: 0 DEFAULT, 2 PROHIBITED, 3 EXCLUSIVE_PROCESS.
    #[serde(skip_serializing_if = "is_zero")]
    pub compute_mode: u64,
}

/// What a call of the driver or a vendor command answers instead of what the model says. One of
/// `code`, `hang`, `missing` and `value` is given, or `wait_ms` alone.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlantedAnswer {
    /// Exported function (`nvmlInit_v2`), field of NVML (`field 230`), or vendor command
    /// (`nvidia-smi`); with a star at the end all that begin so (`nvml*`), which count together.
    pub call: String,
    /// The processes that get the answer.
    #[serde(default)]
    pub role: Asker,
    /// Only in processes that share the GPU this way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub under: Option<Sharing>,
    /// Calls of a process that are answered as usual before.
    #[serde(default)]
    pub after: u64,
    /// How many calls of a process get it; absent for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<u64>,
    /// The function returns this number; a command ends with it, or by a signal if it is negative.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    /// The call does not return.
    #[serde(default)]
    pub hang: bool,
    /// The library does not export the function, or PATH does not have the command.
    #[serde(default)]
    pub missing: bool,
    /// The number that the function stores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<u64>,
    /// The number that it stores in its second result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second: Option<u64>,
    /// Milliseconds of real time before the answer.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub wait_ms: u64,
    /// What a command prints before it ends with `code`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
}

/// The processes of a run, by what they do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Asker {
    /// Every process.
    #[default]
    Any,
    /// Every process but tenants.
    Coordinator,
    /// Tenants.
    Tenant,
}

/// How a process shares the GPU, by its environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Sharing {
    /// It has an MPS daemon.
    Mps,
    /// It has a MIG instance.
    Mig,
    /// It has a preloaded library.
    Preload,
    /// None of these.
    Alone,
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
    pub fn sm_clock_mhz(&self) -> u32 {
        let set = self.circumstances.application_sm_clock_mhz;
        set.unwrap_or(self.gpu.sm_clock_mhz)
    }

    pub(super) fn check_circumstances(&self, path: &str) -> Result<(), MachineError> {
        for one in &self.answers {
            let kinds = [one.code.is_some(), one.hang, one.missing, one.value.is_some()];
            let given = kinds.iter().filter(|given| **given).count();
            if given > 1 || given == 0 && one.wait_ms == 0 {
                let accepted = "one of code, hang, missing and value, or wait_ms";
                return wrong(path, "answers", format!("of {:?}", one.call), accepted);
            }
        }
        let mode = self.circumstances.compute_mode;
        if !matches!(mode, 0 | 2 | 3) {
            return wrong(path, "circumstances.compute_mode", mode, "0, 2 or 3");
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
