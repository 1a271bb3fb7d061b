//! The memory that a tenant may have, and what it gets by one call after the other.

use gpubench_kernels::driver::AllocKind;
use gpubench_record::{CapCall, ProbeAsk, ProbeTold};

use super::{VICTIM, step, unexpected};
use crate::device::Nvml;
use crate::mechanism::Mechanism;
use crate::run::RunError;
use crate::run::tenant_set::TenantSet;

/// Times that every call is tried against the limit.
pub const ROUNDS: u32 = 3;
/// A tenant that is shown less than this share of the device is under a limit that it can see.
const LIMITED_VIEW: f64 = 0.95;
/// The part of the device that stays free where managed memory is allocated.
const ROOM_TO_SPARE: u64 = 64;

/// The memory that the victim may have at most, if that is limited, and what it has already.
pub async fn limit(tenants: &mut TenantSet) -> Result<(Option<u64>, u64), RunError> {
    let (total, free) = visible_memory(tenants, VICTIM).await?;
    let limited_view = (total as f64) < device_bytes(tenants) as f64 * LIMITED_VIEW;
    let asked = tenants.handles().setup.host.asked();
    let set = tenants
        .config()
        .mechanism
        .and_then(|mechanism: &dyn Mechanism| mechanism.configuration(&asked).memory_limit_bytes);
    // A part of the device is its own limit. Memory in use on the whole device is not only this
    // tenant's.
    let in_use = match set {
        // MPS shows the device's total, and of its limit what is left.
        Some(limit) if free < limit && !limited_view => limit - free,
        _ if limited_view => total - free.min(total),
        _ => 0,
    };
    Ok((set.or(limited_view.then_some(total)), in_use))
}

/// What the victim gets by repeating one call.
pub async fn obtained(tenants: &mut TenantSet, kind: AllocKind) -> Result<CapCall, RunError> {
    let (mut least, mut most, mut refused_with) = (u64::MAX, 0, None);
    let most_bytes = match kind {
        AllocKind::Managed => without_oversubscription(tenants).await?,
        _ => device_bytes(tenants),
    };
    for _ in 0..ROUNDS {
        let ask = ProbeAsk::Grab {
            call: kind.function().to_owned(),
            most_bytes,
        };
        let (bytes, refused) = allocate_to_limit(tenants, VICTIM, ask).await?;
        (least, most) = (least.min(bytes), most.max(bytes));
        refused_with = refused;
    }
    Ok(CapCall {
        call: kind.function().to_owned(),
        bytes: (least, most),
        rounds: ROUNDS,
        refused_with,
    })
}

/// The managed memory that may be requested: no more than is free, with room to spare. The driver
/// refuses none for its size, and more of it than there is can hang the GPU for all tenants.
async fn without_oversubscription(tenants: &mut TenantSet) -> Result<u64, RunError> {
    let (shown, free) = visible_memory(tenants, VICTIM).await?;
    let asked = tenants.handles().setup.host.asked();
    let set = tenants
        .config()
        .mechanism
        .and_then(|mechanism: &dyn Mechanism| mechanism.configuration(&asked).memory_limit_bytes);
    // What a limit in software shows is the limit; a part of the device shows what it has.
    let is_part = set.is_none() && (shown as f64) < device_bytes(tenants) as f64 * LIMITED_VIEW;
    let free = if is_part {
        free
    } else {
        // Where NVML does not tell the free memory, none is requested.
        let doing = "asking NVML for the free memory";
        let free = tenants.handles().nvml(doing, Nvml::free_bytes).await?;
        free.unwrap_or(0)
    };
    Ok(free.saturating_sub(device_bytes(tenants) / ROOM_TO_SPARE))
}

/// All the memory of the device.
pub fn device_bytes(tenants: &TenantSet) -> u64 {
    tenants.handles().setup.host.facts.memory_mib << 20
}

pub const fn allocation(most_bytes: u64, pieces: u32) -> ProbeAsk {
    ProbeAsk::Hold { most_bytes, pieces }
}

pub async fn allocate_to_limit(
    tenants: &mut TenantSet,
    slot: usize,
    ask: ProbeAsk,
) -> Result<(u64, Option<i32>), RunError> {
    match step(tenants, slot, ask).await? {
        ProbeTold::Took {
            bytes,
            refused_with,
        } => Ok((bytes, refused_with)),
        other => Err(unexpected(tenants, slot, other)),
    }
}

pub async fn release(tenants: &mut TenantSet, slot: usize) -> Result<(), RunError> {
    match step(tenants, slot, ProbeAsk::Release).await? {
        ProbeTold::Released => Ok(()),
        other => Err(unexpected(tenants, slot, other)),
    }
}

/// All memory and free memory, as a tenant is shown them.
pub async fn visible_memory(tenants: &mut TenantSet, slot: usize) -> Result<(u64, u64), RunError> {
    match step(tenants, slot, ProbeAsk::Look).await? {
        ProbeTold::Shown {
            total_bytes,
            free_bytes,
        } => Ok((total_bytes, free_bytes)),
        other => Err(unexpected(tenants, slot, other)),
    }
}
