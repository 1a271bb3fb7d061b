//! `cap`: a tenant without neighbours allocates all the memory that it can, by one call after the
//! other.

use gpubench_kernels::driver::AllocKind;
use gpubench_record::{CapCall, ProbeFound};

use super::memory_limit::{ROUNDS, allocate_by, device_bytes, limit};
use super::{Probe, Run, VICTIM};
use crate::run::RunError;
use crate::run::tenant_set::TenantSet;
use crate::tenant::TenantError;

/// The entry of the catalogue.
pub(super) const PROBE: Probe = Probe {
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
    let mut calls = Vec::new();
    for kind in AllocKind::ALL {
        calls.push(match allocate_by(tenants, kind).await {
            // A call that the driver lacks allocates nothing.
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
