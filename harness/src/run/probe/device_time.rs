//! The device time of a probe: further trials begin only while some is left.
//!
//! The probes of the memory axis run in every default matrix, so together they take at most 15 s
//! under each mechanism. A finding counts the trials that were held; what they found does not
//! decide when they stop.

use crate::run::tenant_set::TenantSet;
use crate::run::{RunError, RunHandles};

/// Device time of the probe `capacity`, and of the rounds of `cap` after the first. Residue and
/// visibility take a few seconds.
pub const CAPACITY_NS: u64 = 6_000_000_000;
pub const CAP_NS: u64 = 3_000_000_000;

/// The device time that is left.
pub struct DeviceTime {
    handles: RunHandles,
    end_ns: u64,
}

impl DeviceTime {
    /// Begins now.
    pub async fn begin(tenants: &TenantSet, length_ns: u64) -> Result<Self, RunError> {
        let handles = tenants.handles().clone();
        Ok(Self { end_ns: handles.now_ns().await?.saturating_add(length_ns), handles })
    }

    /// Whether a further trial may begin.
    pub async fn is_left(&self) -> Result<bool, RunError> {
        Ok(self.handles.now_ns().await? < self.end_ns)
    }
}
