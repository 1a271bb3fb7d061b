//! MIG as a machine file describes it: memory slots, compute slices, and instance profiles.
//!
//! A figure without a published source is absent from the file. The model then computes it; the
//! function that does so documents the rule.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Machine, MachineError, wrong};

/// How the device can be partitioned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Mig {
    /// Memory slots for instances.
    pub slots: u32,
    /// Compute slices; usually one less than slots.
    pub slices: u32,
    /// A change of the mode applies at once; otherwise it is pending until a reset.
    pub resetless: bool,
    /// Time to create or destroy an instance.
    pub instance_ms: u64,
    /// The profiles, as the vendor numbers them.
    pub profile: Vec<Profile>,
}

/// One profile of GPU instances.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Number that selects the profile in calls that create instances.
    pub id: u32,
    /// `NVML_GPU_INSTANCE_PROFILE_...` (nvml.h), which selects it in queries.
    pub nvml: u32,
    /// Name, as in `3g.40gb`.
    pub name: String,
    /// Maximum number of instances.
    pub max: u32,
    /// Compute slices.
    pub slices: u32,
    /// Memory slots.
    pub memory_slots: u32,
    /// Slots at which an instance can start.
    pub starts: Vec<u32>,
    /// SMs, where published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sm: Option<u32>,
    /// Usable memory, where published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mib: Option<u64>,
    /// Copy engines, where published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy_engines: Option<u32>,
    /// Video decoders, where published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decoders: Option<u32>,
    /// JPEG engines, where published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jpeg: Option<u32>,
    /// Optical-flow engines, where published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ofa: Option<u32>,
}

impl Machine {
    /// SMs of an instance of this profile. Without a figure in the file: the SMs are divided into
    /// one more part than there are slices, and each slice has one part; the profile with every
    /// slice has all SMs.
    pub fn profile_sms(&self, mig: &Mig, profile: &Profile) -> u32 {
        profile.sm.unwrap_or_else(|| {
            if profile.slices >= mig.slices {
                self.gpu.sm_count
            } else {
                profile.slices * (self.gpu.sm_count / (mig.slices + 1)).max(1)
            }
        })
    }

    /// Memory of an instance of this profile. Without a figure in the file: its slots' share of the
    /// memory that the driver does not reserve.
    pub fn profile_memory_mib(&self, mig: &Mig, profile: &Profile) -> u64 {
        let usable = self.memory.total_mib - self.memory.reserved_mib;
        profile
            .memory_mib
            .unwrap_or_else(|| usable * u64::from(profile.memory_slots) / u64::from(mig.slots))
    }

    pub(super) fn check_mig(&self, path: &str) -> Result<(), MachineError> {
        let Some(mig) = &self.mig else { return Ok(()) };
        for profile in &mig.profile {
            let ends = profile.starts.iter().map(|s| s + profile.memory_slots);
            if profile.memory_slots == 0 || ends.max().is_none_or(|end| end > mig.slots) {
                let accepted = "starts whose memory slots all exist";
                return wrong(path, "mig.profile.starts", &profile.name, accepted);
            }
            if profile.slices == 0 || profile.slices > mig.slices {
                return wrong(path, "mig.profile.slices", profile.slices, "1 to mig.slices");
            }
            if self.profile_sms(mig, profile) > self.gpu.sm_count {
                return wrong(path, "mig.profile.sm", &profile.name, "at most gpu.sm_count");
            }
        }
        Ok(())
    }
}
