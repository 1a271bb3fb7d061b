//! Pages of the neighbour that carry a mark.

use gpubench_record::probe::step::{MarkPages, MarkedPages};

use super::NEIGHBOUR;
use super::steps::step;
use crate::run::RunError;
use crate::run::tenant_set::TenantSet;

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
