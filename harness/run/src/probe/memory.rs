//! Probes of memory: how much a tenant may have and gets, what it observes of a neighbour's, and
//! what happens when none is left.

use std::collections::BTreeMap;

use gpubench_host::device::Driver;
use gpubench_host::tenant::TenantError;
use gpubench_kernels::driver::AllocKind;
use gpubench_record::probe::step::{
    AllocateAndKeep, AllocateByCall, ExhaustMemory, MarkPages, MarkedPages, ReadAddresses,
    ReadMemoryInfo, ReleaseMemory, ScanPages, TimeLaunches,
};
use gpubench_record::{CapCall, Condition, DeviceKind, ExhaustTrial, ProbeFound, RefusalKind};

use super::{
    CAP_NS, CAPACITY_NS, DeviceTime, NEIGHBOUR, Probe, RESIDUE_NS, Run, VICTIM, step, step_both,
};
use crate::RunError;
use crate::tenant_set::TenantSet;

// The memory that a tenant may have, and what it allocates by one call or another.

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
        let free = tenants.handles().nvml(doing, Driver::free_bytes).await?;
        free.unwrap_or(0)
    };
    Ok(free.saturating_sub(device_bytes(tenants) / MARGIN))
}

fn configured_limit(tenants: &TenantSet) -> Option<u64> {
    let context = tenants.context();
    let mechanism = tenants.config().mechanism?;
    mechanism.configuration(&context).memory_limit_bytes
}

fn is_limited_view(tenants: &TenantSet, total_bytes: u64) -> bool {
    (total_bytes as f64) < device_bytes(tenants) as f64 * LIMITED_VIEW
}

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

// `cap`: a tenant without neighbours allocates all the memory that it can, by one call after the
// other.

pub(super) const CAP: Probe = Probe {
    name: "cap",
    summary: "how much memory past the limit does each allocating call give?",
    sub_axis: "memory/cap",
    scored: true,
    runs: &[Run::Tenants(|tenants| Box::pin(cap(tenants)))],
    ..super::PROBE
};

/// Tries every call against the limit.
async fn cap(tenants: &mut TenantSet) -> Result<ProbeFound, RunError> {
    tenants.open_only(VICTIM).await?;
    let (limit_bytes, in_use_bytes) = limit(tenants).await?;
    let mut calls = BTreeMap::new();
    // Without a limit there is no overshoot, and so no range of several rounds.
    let rounds = limit_bytes.map_or(1, |_| ROUNDS);
    let time = DeviceTime::begin(tenants, CAP_NS).await?;
    for round in 0..rounds {
        if round > 0 && !time.is_left().await? {
            break;
        }
        for (number, kind) in AllocKind::ALL.into_iter().enumerate() {
            let once = once(tenants, kind).await?;
            let call = calls.entry(number).or_insert_with(|| once.clone());
            call.bytes.0 = call.bytes.0.min(once.bytes.0);
            call.bytes.1 = call.bytes.1.max(once.bytes.1);
            call.rounds = round + 1;
            call.refused_with = once.refused_with;
        }
    }
    Ok(ProbeFound::Cap {
        limit_bytes,
        device_bytes: device_bytes(tenants),
        in_use_bytes,
        calls: calls.into_values().collect(),
    })
}

async fn once(tenants: &mut TenantSet, kind: AllocKind) -> Result<CapCall, RunError> {
    match allocate_by(tenants, kind, 1).await {
        // A call that the driver lacks allocates nothing.
        Err(RunError::Tenant(TenantError::Refused { kind: refusal, .. }))
            if refusal != RefusalKind::Waived =>
        {
            Ok(CapCall {
                call: kind.function().to_owned(),
                bytes: (0, 0),
                rounds: 1,
                refused_with: refusal.code(),
            })
        }
        call => call,
    }
}

// `capacity`: neighbours allocate all the memory that they can, and the victim then allocates its
// share. Before each further trial the neighbours allocate what the victim released.

pub(super) const CAPACITY: Probe = Probe {
    name: "capacity",
    summary: "is a reservation of memory honoured while neighbours allocate all they can?",
    sub_axis: "memory/capacity",
    scored: true,
    runs: &[Run::Tenants(|tenants| Box::pin(capacity(tenants)))],
    ..super::PROBE
};

/// Greatest number of trials: with none refused, the interval of the share starts at 0.95
/// (Clopper-Pearson).
pub(super) const TRIALS: u32 = 72;
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

// `residue`: the neighbour marks pages and releases them; the victim scans memory for the marks.

pub(super) const RESIDUE: Probe = Probe {
    name: "residue",
    summary: "how many marked pages of the last owner does the next one find?",
    sub_axis: "memory/residue",
    scored: true,
    runs: &[
        Run::Tenants(|tenants| Box::pin(residue(tenants, ReleasedBy::Freed))),
        Run::Tenants(|tenants| Box::pin(residue(tenants, ReleasedBy::Context))),
    ],
    ..super::PROBE
};

/// The GPU's large page, in which drivers allocate memory.
const PAGE_BYTES: u32 = 2 << 20;
const PAGES_VIRTUAL: u64 = 64;
/// Releases: of both kinds together 17 without a mark show L2, and 72 show L3. A context takes
/// longer to close and to open than pages to free.
const RELEASES_FREED: u32 = 60;
const RELEASES_CONTEXT: u32 = 12;

#[derive(Debug, Clone, Copy)]
enum ReleasedBy {
    /// One by one.
    Freed,
    /// By closing its context.
    Context,
}

async fn residue(tenants: &mut TenantSet, released_by: ReleasedBy) -> Result<ProbeFound, RunError> {
    tenants.arrange(Condition::C).await?;
    let is_virtual = tenants.handles().setup.identity.kind == DeviceKind::Virtual;
    let (page_bytes, pages, scan) = if is_virtual {
        (PAGE_BYTES_VIRTUAL, PAGES_VIRTUAL, PAGES_VIRTUAL)
    } else {
        // The whole device is scanned: the neighbour's pages may be anywhere.
        let all = device_bytes(tenants) / u64::from(PAGE_BYTES);
        let share = tenants.handles().setup.plan.share;
        (PAGE_BYTES, (all as f64 * share) as u64, all)
    };
    let releases_max = match released_by {
        ReleasedBy::Freed => RELEASES_FREED,
        ReleasedBy::Context => RELEASES_CONTEXT,
    };
    let (mut releases, mut clean) = (0, 0);
    let (mut marked, mut found_by_owner, mut scanned, mut stale) = (0, 0, 0, 0);
    let time = DeviceTime::begin(tenants, RESIDUE_NS).await?;
    while releases == 0 || releases < releases_max && time.is_left().await? {
        let pages = mark(tenants, pages, page_bytes).await?;
        match released_by {
            ReleasedBy::Freed => release(tenants, NEIGHBOUR).await?,
            ReleasedBy::Context => tenants.open_only(VICTIM).await?,
        }
        let scan = ScanPages { pages: scan, page_bytes, seed: MARK_SEED };
        let found = step(tenants, VICTIM, scan).await?;
        if matches!(released_by, ReleasedBy::Context) {
            tenants.arrange(Condition::C).await?;
        }
        releases += 1;
        clean += u32::from(found.stale == 0);
        marked += pages.pages;
        found_by_owner += pages.found;
        scanned += found.pages;
        stale += found.stale;
    }
    Ok(ProbeFound::Residue {
        releases,
        clean: Some(clean),
        released_by: released_by.as_str().to_owned(),
        page_bytes,
        marked,
        found_by_owner,
        scanned,
        stale,
    })
}

impl ReleasedBy {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Freed => "freed",
            Self::Context => "context",
        }
    }
}

// Pages of the neighbour that carry a mark.

/// Seed of the mark: no word of it is zero, for every page size in use.
pub const MARK_SEED: u32 = 0xc0ff_ee11;
/// A page on a virtual GPU, where every word costs the interpreter time.
pub const PAGE_BYTES_VIRTUAL: u32 = 4096;

/// Has the neighbour allocate, mark and keep pages.
pub async fn mark(
    tenants: &mut TenantSet,
    pages: u64,
    page_bytes: u32,
) -> Result<MarkedPages, RunError> {
    let mark = MarkPages { pages, page_bytes, seed: MARK_SEED };
    step(tenants, NEIGHBOUR, mark).await
}

// `visibility`: the victim reads at the addresses of a neighbour's memory, and observes the free
// memory and the processes on the device.

pub(super) const VISIBILITY: Probe = Probe {
    name: "visibility",
    summary: "can a tenant read a neighbour's memory at its addresses, or observe its size?",
    sub_axis: "memory/visibility",
    scored: true,
    runs: &[Run::Tenants(|tenants| Box::pin(visibility(tenants)))],
    ..super::PROBE
};

/// Times that the neighbour allocates memory anew for reads; 17 of which none lets a read through
/// show L2, and 72 show L3.
const MAPPINGS: u32 = 72;
const ADDRESSES: u64 = 4;
/// Times that the neighbour allocates memory, and how much each time.
const ALLOCATIONS: u32 = 14;
const ALLOCATION_BYTES: u64 = 256 << 20;

async fn visibility(tenants: &mut TenantSet) -> Result<ProbeFound, RunError> {
    tenants.arrange(Condition::C).await?;
    let (mut reads, mut blocked_reads, mut blocked_mappings) = (0, 0, 0);
    for _ in 0..MAPPINGS {
        let marked = mark(tenants, ADDRESSES, PAGE_BYTES_VIRTUAL).await?;
        let count = u32::try_from(marked.addresses.len()).unwrap_or(u32::MAX);
        let read = ReadAddresses { addresses: marked.addresses, seed: MARK_SEED };
        let found = step(tenants, VICTIM, read).await?;
        release(tenants, NEIGHBOUR).await?;
        let blocked = found.refused + found.other;
        reads += count;
        blocked_reads += blocked;
        blocked_mappings += u32::from(blocked == count);
    }
    let mut visible_in_free = 0;
    for _ in 0..ALLOCATIONS {
        let before = step(tenants, VICTIM, ReadMemoryInfo {}).await?.free_bytes;
        let bytes = allocate(tenants, NEIGHBOUR, ALLOCATION_BYTES, 1).await?;
        let after = step(tenants, VICTIM, ReadMemoryInfo {}).await?.free_bytes;
        release(tenants, NEIGHBOUR).await?;
        visible_in_free += u32::from(bytes > 0 && before.saturating_sub(after) >= bytes / 2);
    }
    let observations = tenants.observations();
    let mut observations = observations.iter();
    let neighbour = observations.find(|observation| observation.slot == NEIGHBOUR);
    let pid = neighbour.map(|neighbour| neighbour.pid);
    let doing = "reading the processes on the device from NVML";
    let handles = tenants.handles();
    // Without a list it is unknown whether NVML shows the neighbour, and the finding says so.
    let listed = handles.nvml(doing, Driver::compute_pids).await?.ok();
    Ok(ProbeFound::Visibility {
        mappings: MAPPINGS,
        blocked_mappings: Some(blocked_mappings),
        reads,
        blocked_reads,
        allocations: ALLOCATIONS,
        visible_in_free,
        listed_by_nvml: pid.and_then(|pid| Some(listed?.contains(&pid))),
    })
}

// `out-of-memory`: a tenant runs out of memory beside a neighbour that keeps launching.

pub(super) const OUT_OF_MEMORY: Probe = Probe {
    name: "out-of-memory",
    summary: "when a tenant runs out of memory, which refusal does it get, does its context still \
              work, and do its neighbours?",
    sub_axis: "memory/capacity",
    runs: &[Run::Tenants(|tenants| Box::pin(out_of_memory(tenants)))],
    ..super::PROBE
};

/// Of six values the smallest and the largest bound the median with 97 %.
const OUT_OF_MEMORY_TRIALS: u32 = 6;
/// The neighbour's launches a second, and for how long.
const RATE_PER_S: f64 = 500.0;
const WATCH_NS: u64 = 50_000_000;

/// Exhausts the victim's memory once in each trial.
async fn out_of_memory(tenants: &mut TenantSet) -> Result<ProbeFound, RunError> {
    tenants.arrange(Condition::C).await?;
    let exhaust = ExhaustMemory { max_bytes: device_bytes(tenants) };
    let seed = tenants.handles().setup.plan.seed;
    let mut trials = Vec::new();
    for number in 0..OUT_OF_MEMORY_TRIALS {
        let launches = TimeLaunches {
            rate_per_s: RATE_PER_S,
            watch_ns: WATCH_NS,
            seed: seed.wrapping_add(number.into()),
        };
        match step_both(tenants, exhaust, launches).await {
            Ok((tenant, stamps)) => trials.push(ExhaustTrial {
                tenant: Some(tenant),
                neighbour_served: Some(stamps.len() as u32),
            }),
            // A dead tenant is a finding; the next trial needs new tenants.
            Err(RunError::Tenant(_)) => {
                trials.push(ExhaustTrial::default());
                tenants.arrange(Condition::C).await?;
            }
            Err(other) => return Err(other),
        }
    }
    Ok(ProbeFound::OutOfMemory { trials })
}
