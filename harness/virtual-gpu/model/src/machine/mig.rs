//! MIG as a machine file describes it: memory slots, compute slices, and the profiles of instances.
//!
//! A cell that no source states is absent from the file, and the model then uses a rule of its own,
//! which is documented at the function that applies it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Machine, MachineError, wrong};

/// What can be partitioned, and how.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Mig {
    /// Memory slots that instances are placed on.
    pub slots: u32,
    /// Compute slices; a slot more than slices is usual.
    pub slices: u32,
    /// The mode changes at once; otherwise a reset is needed and the change is pending until then.
    pub resetless: bool,
    /// What creating or destroying an instance takes.
    pub instance_ms: u64,
    /// The profiles, as the vendor numbers them.
    pub profile: Vec<Profile>,
}

/// One profile of GPU instances.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Number that creation asks for.
    pub id: u32,
    /// `NVML_GPU_INSTANCE_PROFILE_...` (nvml.h), by which its description is asked for.
    pub nvml: u32,
    /// Name, as in `3g.40gb`.
    pub name: String,
    /// Instances of it at most.
    pub max: u32,
    /// Compute slices.
    pub slices: u32,
    /// Memory slots.
    pub memory_slots: u32,
    /// Slots at which it may begin.
    pub starts: Vec<u32>,
    /// SMs, where a source states them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sm: Option<u32>,
    /// Usable memory, where a source states it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mib: Option<u64>,
    /// Copy engines, where a source states them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy_engines: Option<u32>,
    /// Video decoders, where a source states them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decoders: Option<u32>,
    /// JPEG engines, where a source states them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jpeg: Option<u32>,
    /// Optical-flow engines, where a source states them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ofa: Option<u32>,
}

impl Machine {
    /// SMs of an instance of this profile: what the file states, else a slice's worth of SMs for
    /// each slice, where the device has one slice's worth more than slices; all of them for the
    /// profile with every slice.
    #[must_use]
    pub fn profile_sms(&self, mig: &Mig, profile: &Profile) -> u32 {
        profile.sm.unwrap_or_else(|| {
            if profile.slices >= mig.slices {
                self.gpu.sm_count
            } else {
                profile.slices * (self.gpu.sm_count / (mig.slices + 1)).max(1)
            }
        })
    }

    /// Memory of an instance of this profile: what the file states, else its slots' part of all
    /// that the driver leaves.
    #[must_use]
    pub fn profile_memory_mib(&self, mig: &Mig, profile: &Profile) -> u64 {
        let usable = self.memory.total_mib - self.memory.reserved_mib;
        profile
            .memory_mib
            .unwrap_or_else(|| usable * u64::from(profile.memory_slots) / u64::from(mig.slots))
    }

    pub(super) fn check_mig(&self, path: &str) -> Result<(), MachineError> {
        let Some(mig) = &self.mig else {
            return Ok(());
        };
        if mig.slots == 0 || mig.slots > 8 {
            return wrong(path, "mig.slots", mig.slots, "1 to 8");
        }
        if mig.slices == 0 || mig.slices > mig.slots {
            return wrong(path, "mig.slices", mig.slices, "1 to mig.slots");
        }
        for profile in &mig.profile {
            let ends = profile.starts.iter().map(|s| s + profile.memory_slots);
            if profile.memory_slots == 0 || ends.max().is_none_or(|end| end > mig.slots) {
                let accepted = "starts whose memory slots all exist";
                return wrong(path, "mig.profile.starts", &profile.name, accepted);
            }
            if profile.slices == 0 || profile.slices > mig.slices {
                return wrong(
                    path,
                    "mig.profile.slices",
                    profile.slices,
                    "1 to mig.slices",
                );
            }
            if self.profile_sms(mig, profile) > self.gpu.sm_count {
                return wrong(
                    path,
                    "mig.profile.sm",
                    &profile.name,
                    "at most gpu.sm_count",
                );
            }
        }
        Ok(())
    }
}
