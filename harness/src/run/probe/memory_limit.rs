//! The memory that a tenant may have, and what it allocates by one call or another.

use gpubench_kernels::driver::AllocKind;
use gpubench_record::CapCall;
use gpubench_record::probe::step::{
    AllocateAndKeep, AllocateByCall, ReadMemoryInfo, ReleaseMemory,
};

use super::VICTIM;
use super::steps::step;
use crate::device::Nvml;
use crate::run::RunError;
use crate::run::tenant_set::TenantSet;

/// Most times that every call is tried against the limit.
pub const ROUNDS: u32 = 3;
/// Pieces in which a tenant allocates the whole device.
pub const HOG_PIECES: u32 = 32;
/// A tenant that sees less than this share of the device's memory sees a limited device.
const LIMITED_VIEW: f64 = 0.95;
/// One part in this many of the device stays free when managed memory is allocated.
const MARGIN: u64 = 64;

/// The limit of the victim's memory, if it has one, and the memory that it has in use.
pub async fn limit(tenants: &mut TenantSet) -> Result<(Option<u64>, u64), RunError> {
    let memory = step(tenants, VICTIM, ReadMemoryInfo {}).await?;
    let (total, free) = (memory.total_bytes, memory.free_bytes);
    let limited_view = is_limited_view(tenants, total);
    let configured = configured_limit(tenants);
    // A partition of the device is its own limit. Memory in use on the whole device belongs to
    // other tenants as well.
    let in_use = match configured {
        // MPS shows the total of the device, and as free what remains of the limit.
        Some(limit) if free < limit && !limited_view => limit - free,
        _ if limited_view => total - free.min(total),
        _ => 0,
    };
    Ok((configured.or(limited_view.then_some(total)), in_use))
}

/// What the victim allocates by repeating one call, in each round until it is refused.
pub async fn allocate_by(
    tenants: &mut TenantSet,
    kind: AllocKind,
    rounds: u32,
) -> Result<CapCall, RunError> {
    let (mut min_bytes, mut max_bytes, mut refused_with) = (u64::MAX, 0, None);
    let request = AllocateByCall {
        call: kind.function().to_owned(),
        max_bytes: match kind {
            AllocKind::Managed => without_oversubscription(tenants).await?,
            _ => device_bytes(tenants),
        },
    };
    for _ in 0..rounds {
        let allocated = step(tenants, VICTIM, request.clone()).await?;
        min_bytes = min_bytes.min(allocated.bytes);
        max_bytes = max_bytes.max(allocated.bytes);
        refused_with = allocated.refused_with;
    }
    Ok(CapCall { call: request.call, bytes: (min_bytes, max_bytes), rounds, refused_with })
}

/// The managed memory that may be requested: what is free, less a margin. The driver refuses none
/// for its size, and oversubscribed managed memory can hang the GPU for all tenants.
async fn without_oversubscription(tenants: &mut TenantSet) -> Result<u64, RunError> {
    let memory = step(tenants, VICTIM, ReadMemoryInfo {}).await?;
    // With a limit in software the total is the limit; in a partition it is that of the partition.
    let is_partition =
        configured_limit(tenants).is_none() && is_limited_view(tenants, memory.total_bytes);
    let free = if is_partition {
        memory.free_bytes
    } else {
        // Where NVML does not report the free memory, none is requested.
        let doing = "reading the free memory from NVML";
        let free = tenants.handles().nvml(doing, Nvml::free_bytes).await?;
        free.unwrap_or(0)
    };
    Ok(free.saturating_sub(device_bytes(tenants) / MARGIN))
}

fn configured_limit(tenants: &TenantSet) -> Option<u64> {
    let context = tenants.handles().setup.host.context();
    let mechanism = tenants.config().mechanism?;
    mechanism.configuration(&context).memory_limit_bytes
}

fn is_limited_view(tenants: &TenantSet, total_bytes: u64) -> bool {
    (total_bytes as f64) < device_bytes(tenants) as f64 * LIMITED_VIEW
}

/// All memory of the device.
pub fn device_bytes(tenants: &TenantSet) -> u64 {
    tenants.handles().setup.host.facts.memory_mib << 20
}

/// Has a tenant allocate and keep up to `max_bytes`; returns how much it allocated.
pub async fn allocate(
    tenants: &mut TenantSet,
    slot: usize,
    max_bytes: u64,
    pieces: u32,
) -> Result<u64, RunError> {
    let request = AllocateAndKeep { max_bytes, pieces };
    Ok(step(tenants, slot, request).await?.bytes)
}

/// Has a tenant free the memory that it keeps.
pub async fn release(tenants: &mut TenantSet, slot: usize) -> Result<(), RunError> {
    step(tenants, slot, ReleaseMemory {}).await
}
