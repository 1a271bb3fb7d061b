//! `residue`: the neighbour marks pages and releases them; the victim scans memory for the marks.

use gpubench_record::probe::step::ScanPages;
use gpubench_record::{Condition, DeviceKind, ProbeFound};

use super::marked_pages::{MARK_SEED, PAGE_BYTES_VIRTUAL, mark};
use super::memory_limit::{device_bytes, release};
use super::steps::step;
use super::{NEIGHBOUR, Probe, Run, VICTIM};
use crate::run::RunError;
use crate::run::tenant_set::TenantSet;

/// The entry of the catalogue.
pub(super) const PROBE: Probe = Probe {
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
/// Number of pages on a virtual GPU.
const PAGES_VIRTUAL: u64 = 256;

/// How a tenant releases its pages.
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
    let marked = mark(tenants, pages, page_bytes).await?;
    match released_by {
        ReleasedBy::Freed => release(tenants, NEIGHBOUR).await?,
        ReleasedBy::Context => tenants.open_only(VICTIM).await?,
    }
    let scan = ScanPages { pages: scan, page_bytes, seed: MARK_SEED };
    let scanned = step(tenants, VICTIM, scan).await?;
    Ok(ProbeFound::Residue {
        released_by: released_by.as_str().to_owned(),
        page_bytes,
        marked: marked.pages,
        found_by_owner: marked.found,
        scanned: scanned.pages,
        stale: scanned.stale,
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
