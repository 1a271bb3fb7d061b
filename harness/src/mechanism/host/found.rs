//! The state of a host before anything was changed, in a form that can be compared afterwards.

use serde::{Deserialize, Serialize};

use super::control::{Control, ControlError};
use crate::device::mig::Placement;

/// What was found. What the device does not have, or NVML does not tell, is absent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// Which processes may have a context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compute_mode: Option<String>,
    /// Whether MIG mode is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mig: Option<bool>,
    /// Whether it will be on after a reset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mig_pending: Option<bool>,
    /// The GPU instances.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instances: Vec<FoundInstance>,
}

/// A GPU instance by what it is. Its number is the driver's to give.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FoundInstance {
    /// Id of its profile.
    pub profile_id: u32,
    /// Where it lies.
    pub placement: Placement,
    /// UUIDs of its compute instances.
    pub compute: Vec<String>,
}

impl Found {
    /// Looks at the host. The length of a turn is not among it: only a command tells that, and
    /// [`super::Change::Timeslice`] carries its own.
    ///
    /// # Errors
    /// When instances may be there and cannot be listed: what is not known cannot be restored.
    pub fn take(host: &dyn Control) -> Result<Self, ControlError> {
        let mode = host.mig_mode()?;
        let mig = mode.map(|mode| mode.current);
        let mut instances = Vec::new();
        if mig == Some(true) {
            for instance in host.mig_instances()? {
                let mut compute: Vec<String> =
                    instance.compute.into_iter().map(|one| one.uuid).collect();
                compute.sort();
                instances.push(FoundInstance {
                    profile_id: instance.profile_id,
                    placement: instance.placement,
                    compute,
                });
            }
            instances.sort();
        }
        Ok(Self {
            // Some virtual machines do not tell their guests.
            compute_mode: host.compute_mode().ok(),
            mig,
            mig_pending: mode.map(|mode| mode.pending),
            instances,
        })
    }

    /// What is different now, in one line; nothing if it is the same.
    #[must_use]
    pub fn difference(&self, now: &Self) -> Option<String> {
        let mut parts = Vec::new();
        if self.compute_mode != now.compute_mode {
            parts.push(format!(
                "compute mode was {} and is {}",
                word(self.compute_mode.as_deref()),
                word(now.compute_mode.as_deref())
            ));
        }
        if self.mig != now.mig {
            parts.push(format!("MIG mode was {:?} and is {:?}", self.mig, now.mig));
        }
        if self.mig_pending != now.mig_pending {
            parts.push(format!(
                "MIG mode after a reset was {:?} and is {:?}",
                self.mig_pending, now.mig_pending
            ));
        }
        if self.instances != now.instances {
            parts.push(format!(
                "MIG instances were {:?} and are {:?}",
                self.instances, now.instances
            ));
        }
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}

fn word(mode: Option<&str>) -> &str {
    mode.unwrap_or("not told")
}
