//! `visibility`: the victim reads at the addresses of a neighbour's memory, and observes the free
//! memory and the processes on the device.

use gpubench_record::probe::step::{ReadAddresses, ReadMemoryInfo};
use gpubench_record::{Condition, ProbeFound};

use super::capacity::TRIALS;
use super::marked_pages::{MARK_SEED, PAGE_BYTES_VIRTUAL, mark};
use super::memory_limit::{allocate, release};
use super::steps::step;
use super::{NEIGHBOUR, Probe, Run, VICTIM};
use crate::device::Nvml;
use crate::run::RunError;
use crate::run::tenant_set::TenantSet;

/// The entry of the catalogue.
pub(super) const PROBE: Probe = Probe {
    name: "visibility",
    summary: "can a tenant read a neighbour's memory at its addresses, or observe its size?",
    sub_axis: "memory/visibility",
    scored: true,
    runs: &[Run::Tenants(|tenants| Box::pin(visibility(tenants)))],
    ..super::PROBE
};

/// Times that the neighbour allocates memory, and how much each time.
const ALLOCATIONS: u32 = 14;
const ALLOCATION_BYTES: u64 = 256 << 20;

async fn visibility(tenants: &mut TenantSet) -> Result<ProbeFound, RunError> {
    tenants.arrange(Condition::C).await?;
    let marked = mark(tenants, TRIALS.into(), PAGE_BYTES_VIRTUAL).await?;
    let count = u32::try_from(marked.addresses.len()).unwrap_or(u32::MAX);
    let read = ReadAddresses { addresses: marked.addresses, seed: MARK_SEED };
    let reads = step(tenants, VICTIM, read).await?;
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
    let listed = handles.nvml(doing, Nvml::compute_pids).await?.ok();
    Ok(ProbeFound::Visibility {
        reads: count,
        blocked_reads: reads.refused + reads.other,
        allocations: ALLOCATIONS,
        visible_in_free,
        listed_by_nvml: pid.and_then(|pid| Some(listed?.contains(&pid))),
    })
}
