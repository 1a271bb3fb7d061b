//! Memory of tenants: how much they get, residue of other tenants in it, and what they see of each
//! other's.

use gpubench_kernels::driver::AllocKind;
use gpubench_record::{CapCall, Condition, ProbeAsk, ProbeFound, ProbeTold};

use super::memory_limit::{
    ROUNDS, allocate_to_limit, allocation, device_bytes, limit, obtained, release, visible_memory,
};
use super::{NEIGHBOUR, VICTIM, step, unexpected};
use crate::device::Nvml;
use crate::run::RunError;
use crate::run::tenant_set::TenantSet;
use crate::tenant::TenantError;

/// Times that a reservation is tried: with none refused, the lower bound of the share is 0.95
/// (Clopper-Pearson, one-sided).
const RESERVATIONS: u32 = 59;
/// Times that free memory is read, before and after the neighbour allocates some.
const LOOKS: u32 = 14;
/// How much the neighbour allocates each time.
const LOOK_BYTES: u64 = 256 << 20;
/// Pieces in which a neighbour allocates everything, and in which a reservation is allocated.
pub const HOG_PIECES: u32 = 32;
const RESERVATION_PIECES: u32 = 16;
/// The GPU's large page, in which drivers hand memory out.
const PAGE_BYTES: u32 = 2 << 20;
/// In virtual time every word costs the interpreter time: small pages, and few of them.
const PAGE_BYTES_VIRTUAL: u32 = 4096;
const PAGES_VIRTUAL: u64 = 256;
/// Seed of the pattern on marked pages: no word of it is zero, for every page size above.
const PATTERN: u32 = 0xc0ff_ee11;

/// How a tenant released its pages.
#[derive(Debug, Clone, Copy)]
pub enum ReleasedBy {
    Freed,
    Context,
}

/// Neighbours allocate all that they can get; the victim then allocates its share.
pub async fn capacity(tenants: &mut TenantSet) -> Result<ProbeFound, RunError> {
    tenants.arrange(Condition::C).await?;
    let device = device_bytes(tenants);
    let reserved = (device as f64 * tenants.handles().setup.plan.share) as u64;
    let slots = tenants.handles().setup.plan.tenants as usize;
    let (mut honoured, mut hogged_bytes, mut granted_bytes) = (0, u64::MAX, u64::MAX);
    for _ in 0..RESERVATIONS {
        let mut hogged = 0;
        for slot in NEIGHBOUR..slots {
            hogged += allocate_to_limit(tenants, slot, allocation(device, HOG_PIECES))
                .await?
                .0;
        }
        let reservation = allocation(reserved, RESERVATION_PIECES);
        let granted = allocate_to_limit(tenants, VICTIM, reservation).await?.0;
        for slot in VICTIM..slots {
            release(tenants, slot).await?;
        }
        honoured += u32::from(granted == reserved);
        hogged_bytes = hogged_bytes.min(hogged);
        granted_bytes = granted_bytes.min(granted);
    }
    Ok(ProbeFound::Capacity {
        reserved_bytes: reserved,
        trials: RESERVATIONS,
        honoured,
        hogged_bytes,
        granted_bytes,
    })
}

/// A tenant alone allocates all that it can get, by one call after the other.
pub async fn cap(tenants: &mut TenantSet) -> Result<ProbeFound, RunError> {
    tenants.open_only(VICTIM).await?;
    let (limit_bytes, in_use_bytes) = limit(tenants).await?;
    let mut calls = Vec::new();
    for kind in AllocKind::ALL {
        calls.push(match obtained(tenants, kind).await {
            // A call that the driver has not gives nothing.
            Err(RunError::Tenant(TenantError::Refused { kind: refusal, .. })) => CapCall {
                call: kind.function().to_owned(),
                bytes: (0, 0),
                rounds: ROUNDS,
                refused_with: refusal.code(),
            },
            call => call?,
        });
    }
    Ok(ProbeFound::Cap {
        limit_bytes,
        device_bytes: device_bytes(tenants),
        in_use_bytes,
        calls,
    })
}

/// The neighbour marks pages and releases them; the victim looks for them.
pub async fn residue(
    tenants: &mut TenantSet,
    released_by: ReleasedBy,
) -> Result<ProbeFound, RunError> {
    tenants.arrange(Condition::C).await?;
    let (page_bytes, pages, scan) = if tenants.handles().setup.clock.is_virtual() {
        (PAGE_BYTES_VIRTUAL, PAGES_VIRTUAL, PAGES_VIRTUAL)
    } else {
        let all = device_bytes(tenants) / u64::from(PAGE_BYTES);
        // All that can be had: the neighbour's pages may be anywhere in it.
        (
            PAGE_BYTES,
            (all as f64 * tenants.handles().setup.plan.share) as u64,
            all,
        )
    };
    let (marked, found_by_owner, _) = mark(tenants, pages, page_bytes).await?;
    match released_by {
        ReleasedBy::Freed => release(tenants, NEIGHBOUR).await?,
        ReleasedBy::Context => tenants.open_only(VICTIM).await?,
    }
    let ask = ProbeAsk::Scan {
        pages: scan,
        page_bytes,
        seed: PATTERN,
    };
    match step(tenants, VICTIM, ask).await? {
        ProbeTold::Scanned { pages, stale } => Ok(ProbeFound::Residue {
            given_up: match released_by {
                ReleasedBy::Freed => "freed",
                ReleasedBy::Context => "context",
            }
            .to_owned(),
            page_bytes,
            marked,
            found_by_owner,
            scanned: pages,
            stale,
        }),
        other => Err(unexpected(tenants, VICTIM, other)),
    }
}

/// The neighbour has memory; the victim reads at its addresses, and reads how much is free.
pub async fn visibility(tenants: &mut TenantSet) -> Result<ProbeFound, RunError> {
    tenants.arrange(Condition::C).await?;
    let (page_bytes, pages) = (PAGE_BYTES_VIRTUAL, RESERVATIONS.into());
    let (_, _, addresses) = mark(tenants, pages, page_bytes).await?;
    let reads = u32::try_from(addresses.len()).unwrap_or(u32::MAX);
    let ask = ProbeAsk::Read {
        addresses,
        seed: PATTERN,
    };
    let kept_out = match step(tenants, VICTIM, ask).await? {
        ProbeTold::Read { refused, other, .. } => refused + other,
        other => return Err(unexpected(tenants, VICTIM, other)),
    };
    let mut seen_in_free = 0;
    for _ in 0..LOOKS {
        let before = visible_memory(tenants, VICTIM).await?.1;
        let (taken, _) = allocate_to_limit(tenants, NEIGHBOUR, allocation(LOOK_BYTES, 1)).await?;
        let after = visible_memory(tenants, VICTIM).await?.1;
        release(tenants, NEIGHBOUR).await?;
        seen_in_free += u32::from(taken > 0 && before.saturating_sub(after) >= taken / 2);
    }
    let pid = tenants
        .observations()
        .iter()
        .find(|told| told.slot == NEIGHBOUR)
        .map(|told| told.pid);
    let doing = "asking NVML for processes";
    let listed = tenants
        .handles()
        .nvml(doing, Nvml::compute_pids)
        .await?
        .ok();
    Ok(ProbeFound::Visibility {
        reads,
        kept_out,
        looks: LOOKS,
        seen_in_free,
        seen_in_nvml: pid.and_then(|pid| Some(listed?.contains(&pid))),
    })
}

async fn mark(
    tenants: &mut TenantSet,
    pages: u64,
    page_bytes: u32,
) -> Result<(u64, u64, Vec<u64>), RunError> {
    let ask = ProbeAsk::Mark {
        pages,
        page_bytes,
        seed: PATTERN,
    };
    match step(tenants, NEIGHBOUR, ask).await? {
        ProbeTold::Marked {
            pages,
            found,
            addresses,
        } => Ok((pages, found, addresses)),
        other => Err(unexpected(tenants, NEIGHBOUR, other)),
    }
}
