//! `capacity`: neighbours allocate all the memory that they can, and the victim then allocates its
//! share. Before each further trial the neighbours allocate what the victim released.

use gpubench_record::{Condition, ProbeFound};

use super::device_time::{CAPACITY_NS, DeviceTime};
use super::memory_limit::{HOG_PIECES, allocate, device_bytes, release};
use super::{NEIGHBOUR, Probe, Run, VICTIM};
use crate::run::RunError;
use crate::run::tenant_set::TenantSet;

/// The entry of the catalogue.
pub(super) const PROBE: Probe = Probe {
    name: "capacity",
    summary: "is a reservation of memory honoured while neighbours allocate all they can?",
    sub_axis: "memory/capacity",
    scored: true,
    runs: &[Run::Tenants(|tenants| Box::pin(capacity(tenants)))],
    ..super::PROBE
};

/// Greatest number of trials: with none refused, the lower bound of the share is 0.95
/// (Clopper-Pearson, one-sided).
pub(super) const TRIALS: u32 = 59;
/// Pieces in which a reservation is allocated.
const PIECES: u32 = 16;

/// Counts the trials in which the victim gets its whole share.
async fn capacity(tenants: &mut TenantSet) -> Result<ProbeFound, RunError> {
    tenants.arrange(Condition::C).await?;
    let device_bytes = device_bytes(tenants);
    let plan = &tenants.handles().setup.plan;
    let reserved_bytes = (device_bytes as f64 * plan.share) as u64;
    let slots = plan.tenants as usize;
    let (mut trials, mut honoured) = (0, 0);
    let (mut held_bytes, mut neighbour_bytes, mut granted_bytes) = (0, u64::MAX, u64::MAX);
    let time = DeviceTime::begin(tenants, CAPACITY_NS).await?;
    while trials == 0 || trials < TRIALS && time.is_left().await? {
        for slot in NEIGHBOUR..slots {
            held_bytes += allocate(tenants, slot, device_bytes, HOG_PIECES).await?;
        }
        let granted = allocate(tenants, VICTIM, reserved_bytes, PIECES).await?;
        release(tenants, VICTIM).await?;
        trials += 1;
        honoured += u32::from(granted == reserved_bytes);
        neighbour_bytes = neighbour_bytes.min(held_bytes);
        granted_bytes = granted_bytes.min(granted);
    }
    for slot in NEIGHBOUR..slots {
        release(tenants, slot).await?;
    }
    Ok(ProbeFound::Capacity { reserved_bytes, trials, honoured, neighbour_bytes, granted_bytes })
}
