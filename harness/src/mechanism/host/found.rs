//! The state of a host before any change, to compare with the state afterwards.

use serde::{Deserialize, Serialize};

use super::control::{Control, ControlError};
use crate::device::mig::Placement;

/// The state that was found. A value that NVML does not report is absent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
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

/// A GPU instance without its id, which the driver chooses.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FoundInstance {
    pub profile_id: u32,
    pub placement: Placement,
    /// UUIDs of its compute instances.
    pub compute: Vec<String>,
}

impl Found {
    /// Reads the state. It lacks the time slice, which only a command reports:
    /// [`super::Change::Timeslice`] has the value that was found.
    ///
    /// # Errors
    /// When MIG mode or instances cannot be read: an unknown state cannot be restored.
    pub fn read(host: &dyn Control) -> Result<Self, ControlError> {
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
            // Some hypervisors do not report it. A change of it reads it first and is refused if
            // that fails; a change that cannot be undone is an error by itself.
            compute_mode: host.compute_mode().ok(),
            mig,
            mig_pending: mode.map(|mode| mode.pending),
            instances,
        })
    }

    /// The differences in one line; `None` if there are none.
    #[must_use]
    pub fn difference(&self, now: &Self) -> Option<String> {
        let mut parts = Vec::new();
        if self.compute_mode != now.compute_mode {
            parts.push(format!(
                "compute mode was {} and is {}",
                or_unknown(self.compute_mode.as_deref()),
                or_unknown(now.compute_mode.as_deref())
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

fn or_unknown(mode: Option<&str>) -> &str {
    mode.unwrap_or("unknown")
}
