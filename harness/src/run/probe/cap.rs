//! `cap`: a tenant without neighbours allocates all the memory that it can, by one call after the
//! other.

use std::collections::BTreeMap;

use gpubench_kernels::driver::AllocKind;
use gpubench_record::{CapCall, ProbeFound};

use super::device_time::{CAP_NS, DeviceTime};
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

/// One round of a call.
async fn once(tenants: &mut TenantSet, kind: AllocKind) -> Result<CapCall, RunError> {
    match allocate_by(tenants, kind, 1).await {
        // A call that the driver lacks allocates nothing.
        Err(RunError::Tenant(TenantError::Refused { kind: refusal, .. })) => Ok(CapCall {
            call: kind.function().to_owned(),
            bytes: (0, 0),
            rounds: 1,
            refused_with: refusal.code(),
        }),
        call => call,
    }
}
