//! What tenants can take of memory, find in it, and see of each other's.

use gpubench_kernels::driver::AllocKind;
use gpubench_record::{CapCall, Condition, ProbeAsk, ProbeFound, ProbeTold};

use super::{NEIGHBOUR, VICTIM, step, unexpected};
use crate::mechanism::Mechanism;
use crate::run::tenant_set::TenantSet;
use crate::run::{Run, RunError};
use crate::tenant::TenantError;

/// Times that a reservation is tried: with none refused, the lower bound of the share is 0.95
/// (Clopper-Pearson, one-sided).
const RESERVATIONS: u32 = 59;
/// Times that free memory is looked at, before and after the neighbour took some.
const LOOKS: u32 = 14;
/// How much the neighbour takes each time.
const LOOK_BYTES: u64 = 256 << 20;
/// Times that every call is tried against the limit.
const ROUNDS: u32 = 3;
/// Pieces in which a neighbour takes everything, and in which a reservation is taken.
pub const HOG_PIECES: u32 = 32;
const RESERVATION_PIECES: u32 = 16;
/// A tenant that is shown less than this share of the device is under a limit that it can see.
const LIMITED_VIEW: f64 = 0.95;

/// What of the device is left alone where managed memory is taken: this part of it.
const ROOM_TO_SPARE: u64 = 64;

/// The GPU's large page, in which drivers hand memory out.
const PAGE_BYTES: u32 = 2 << 20;
/// In virtual time every word costs an interpreter's work: small pages, and few of them.
const PAGE_BYTES_VIRTUAL: u32 = 4096;
const PAGES_VIRTUAL: u64 = 256;
/// Which canary: not zero in any of its words, for every page size above.
const CANARY: u32 = 0xc0ff_ee11;

/// How a tenant gave its pages up.
#[derive(Debug, Clone, Copy)]
pub enum ReleasedBy {
    Freed,
    Context,
}

/// Neighbours take all that they can get; the victim then takes what it is entitled to.
pub async fn capacity(run: &mut Run, tenants: &mut TenantSet) -> Result<ProbeFound, RunError> {
    tenants.arrange(run, Condition::C).await?;
    let device = device_bytes(run);
    let reserved = (device as f64 * run.setup.plan.share) as u64;
    let slots = run.setup.plan.tenants as usize;
    let (mut honoured, mut hogged_bytes, mut granted_bytes) = (0, u64::MAX, u64::MAX);
    for _ in 0..RESERVATIONS {
        let mut hogged = 0;
        for slot in NEIGHBOUR..slots {
            hogged += allocate_to_limit(run, tenants, slot, allocation(device, HOG_PIECES))
                .await?
                .0;
        }
        let reservation = allocation(reserved, RESERVATION_PIECES);
        let granted = allocate_to_limit(run, tenants, VICTIM, reservation)
            .await?
            .0;
        for slot in VICTIM..slots {
            release(run, tenants, slot).await?;
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

/// A tenant alone takes all that it can get, by one call after the other.
pub async fn cap(run: &mut Run, tenants: &mut TenantSet) -> Result<ProbeFound, RunError> {
    tenants.open_only(run, VICTIM).await?;
    let (limit_bytes, in_use_bytes) = limit(run, tenants).await?;
    let mut calls = Vec::new();
    for kind in AllocKind::ALL {
        calls.push(match obtained(run, tenants, kind).await {
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
        device_bytes: device_bytes(run),
        in_use_bytes,
        calls,
    })
}

/// The memory that the victim may have at most, if that is limited, and what it has already.
pub async fn limit(run: &mut Run, tenants: &mut TenantSet) -> Result<(Option<u64>, u64), RunError> {
    let (total, free) = visible_memory(run, tenants, VICTIM).await?;
    let limited_view = (total as f64) < device_bytes(run) as f64 * LIMITED_VIEW;
    let asked = run.setup.host.asked();
    let set = tenants
        .config()
        .mechanism
        .and_then(|mechanism: &dyn Mechanism| mechanism.configuration(&asked).memory_limit_bytes);
    // A part of the device is its own limit. What the whole device has in use is not only this
    // tenant's.
    let in_use = match set {
        // MPS shows the device's total, and of its limit what is left.
        Some(limit) if free < limit && !limited_view => limit - free,
        _ if limited_view => total - free.min(total),
        _ => 0,
    };
    Ok((set.or(limited_view.then_some(total)), in_use))
}

/// What the victim gets by one call, again and again.
pub async fn obtained(
    run: &mut Run,
    tenants: &mut TenantSet,
    kind: AllocKind,
) -> Result<CapCall, RunError> {
    let (mut least, mut most, mut refused_with) = (u64::MAX, 0, None);
    let most_bytes = match kind {
        AllocKind::Managed => without_oversubscription(run, tenants).await?,
        _ => device_bytes(run),
    };
    for _ in 0..ROUNDS {
        let ask = ProbeAsk::Grab {
            call: kind.function().to_owned(),
            most_bytes,
        };
        let (bytes, refused) = allocate_to_limit(run, tenants, VICTIM, ask).await?;
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

/// The managed memory that may be asked for: no more than is free, with room to spare. The driver
/// refuses none for its size, and more of it than there is can hang the GPU for everybody.
async fn without_oversubscription(run: &mut Run, tenants: &mut TenantSet) -> Result<u64, RunError> {
    let (shown, free) = visible_memory(run, tenants, VICTIM).await?;
    let asked = run.setup.host.asked();
    let set = tenants
        .config()
        .mechanism
        .and_then(|mechanism: &dyn Mechanism| mechanism.configuration(&asked).memory_limit_bytes);
    // What a limit in software shows is the limit; a part of the device shows what it has.
    let is_part = set.is_none() && (shown as f64) < device_bytes(run) as f64 * LIMITED_VIEW;
    let free = if is_part {
        free
    } else {
        // With nobody to say what is free, none is asked for.
        run.setup.nvml.free_bytes().unwrap_or(0)
    };
    Ok(free.saturating_sub(device_bytes(run) / ROOM_TO_SPARE))
}

/// The neighbour marks pages and gives them up; the victim looks for them.
pub async fn residue(
    run: &mut Run,
    tenants: &mut TenantSet,
    released_by: ReleasedBy,
) -> Result<ProbeFound, RunError> {
    tenants.arrange(run, Condition::C).await?;
    let (page_bytes, pages, scan) = if run.setup.clock.is_virtual() {
        (PAGE_BYTES_VIRTUAL, PAGES_VIRTUAL, PAGES_VIRTUAL)
    } else {
        let all = device_bytes(run) / u64::from(PAGE_BYTES);
        // All that can be had, because nobody knows where the neighbour's pages come up again.
        (
            (PAGE_BYTES),
            (all as f64 * run.setup.plan.share) as u64,
            all,
        )
    };
    let (marked, found_by_owner, _) = mark(run, tenants, pages, page_bytes).await?;
    match released_by {
        ReleasedBy::Freed => release(run, tenants, NEIGHBOUR).await?,
        ReleasedBy::Context => tenants.open_only(run, VICTIM).await?,
    }
    let ask = ProbeAsk::Scan {
        pages: scan,
        page_bytes,
        seed: CANARY,
    };
    match step(run, tenants, VICTIM, ask).await? {
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

/// The neighbour has memory; the victim reads at its addresses, and watches free memory.
pub async fn visibility(run: &mut Run, tenants: &mut TenantSet) -> Result<ProbeFound, RunError> {
    tenants.arrange(run, Condition::C).await?;
    let (page_bytes, pages) = (PAGE_BYTES_VIRTUAL, RESERVATIONS.into());
    let (_, _, addresses) = mark(run, tenants, pages, page_bytes).await?;
    let reads = u32::try_from(addresses.len()).unwrap_or(u32::MAX);
    let ask = ProbeAsk::Read {
        addresses,
        seed: CANARY,
    };
    let kept_out = match step(run, tenants, VICTIM, ask).await? {
        ProbeTold::Read { refused, other, .. } => refused + other,
        other => return Err(unexpected(tenants, VICTIM, other)),
    };
    let mut seen_in_free = 0;
    for _ in 0..LOOKS {
        let before = visible_memory(run, tenants, VICTIM).await?.1;
        let (taken, _) =
            allocate_to_limit(run, tenants, NEIGHBOUR, allocation(LOOK_BYTES, 1)).await?;
        let after = visible_memory(run, tenants, VICTIM).await?.1;
        release(run, tenants, NEIGHBOUR).await?;
        seen_in_free += u32::from(taken > 0 && before.saturating_sub(after) >= taken / 2);
    }
    let pid = tenants
        .observations()
        .iter()
        .find(|told| told.slot == NEIGHBOUR)
        .map(|told| told.pid);
    let listed = run.setup.nvml.compute_pids().ok();
    Ok(ProbeFound::Visibility {
        reads,
        kept_out,
        looks: LOOKS,
        seen_in_free,
        seen_in_nvml: pid.and_then(|pid| Some(listed?.contains(&pid))),
    })
}

/// All the memory of the device.
pub const fn device_bytes(run: &Run) -> u64 {
    run.setup.host.facts.memory_mib << 20
}

pub const fn allocation(most_bytes: u64, pieces: u32) -> ProbeAsk {
    ProbeAsk::Hold { most_bytes, pieces }
}

async fn mark(
    run: &mut Run,
    tenants: &mut TenantSet,
    pages: u64,
    page_bytes: u32,
) -> Result<(u64, u64, Vec<u64>), RunError> {
    let ask = ProbeAsk::Mark {
        pages,
        page_bytes,
        seed: CANARY,
    };
    match step(run, tenants, NEIGHBOUR, ask).await? {
        ProbeTold::Marked {
            pages,
            found,
            addresses,
        } => Ok((pages, found, addresses)),
        other => Err(unexpected(tenants, NEIGHBOUR, other)),
    }
}

pub async fn allocate_to_limit(
    run: &mut Run,
    tenants: &mut TenantSet,
    slot: usize,
    ask: ProbeAsk,
) -> Result<(u64, Option<i32>), RunError> {
    match step(run, tenants, slot, ask).await? {
        ProbeTold::Took {
            bytes,
            refused_with,
        } => Ok((bytes, refused_with)),
        other => Err(unexpected(tenants, slot, other)),
    }
}

pub async fn release(run: &mut Run, tenants: &mut TenantSet, slot: usize) -> Result<(), RunError> {
    match step(run, tenants, slot, ProbeAsk::Release).await? {
        ProbeTold::Released => Ok(()),
        other => Err(unexpected(tenants, slot, other)),
    }
}

/// All memory and free memory, as a tenant is shown them.
async fn visible_memory(
    run: &mut Run,
    tenants: &mut TenantSet,
    slot: usize,
) -> Result<(u64, u64), RunError> {
    match step(run, tenants, slot, ProbeAsk::Look).await? {
        ProbeTold::Shown {
            total_bytes,
            free_bytes,
        } => Ok((total_bytes, free_bytes)),
        other => Err(unexpected(tenants, slot, other)),
    }
}
