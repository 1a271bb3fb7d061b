//! The calibration of one workload: its parameters, found by the tenant that will run it.

use std::time::Duration;

use gpubench_record::user_victim::USER_VICTIM;
use gpubench_record::{CalibrationEntry, FromTenant, ToTenant};

use crate::run::RunError;
use crate::run::tenant_set::TenantSet;
use crate::tenant::TenantError;

/// Longest wait for one workload.
pub const LIMIT: Duration = Duration::from_secs(300);
/// Attempts on the wall clock, where load on the host can spoil one, and the pause between them.
/// Virtual time has one attempt.
const ATTEMPTS_WALL: u32 = 10;
const PAUSE_WALL: Duration = Duration::from_millis(300);

/// Calibrates one workload to the service time of the plan; on the wall clock a refused attempt is
/// repeated.
pub async fn with_retries(
    tenants: &mut TenantSet,
    slot: usize,
    name: &str,
    share: f64,
) -> Result<CalibrationEntry, RunError> {
    let service_ns = tenants.handles().setup.plan.service_ns;
    with_retries_to(tenants, slot, name, share, service_ns).await
}

/// The same to this service time.
pub async fn with_retries_to(
    tenants: &mut TenantSet,
    slot: usize,
    name: &str,
    share: f64,
    service_ns: u64,
) -> Result<CalibrationEntry, RunError> {
    let is_program = name == USER_VICTIM;
    let attempts =
        if tenants.handles().setup.clock.is_virtual() || is_program { 1 } else { ATTEMPTS_WALL };
    for number in 1..attempts {
        match attempt(tenants, slot, name, share, service_ns).await {
            Err(RunError::Tenant(TenantError::Refused { what, .. })) => {
                tenants.handles().recorder.warning(format!(
                    "calibration of {name}, attempt {number} of {attempts}: {what}"
                ))?;
                tokio::time::sleep(PAUSE_WALL).await;
            }
            other => return other,
        }
    }
    attempt(tenants, slot, name, share, service_ns).await
}

/// Has a tenant find the parameters of one workload.
pub async fn attempt(
    tenants: &mut TenantSet,
    slot: usize,
    name: &str,
    share: f64,
    service_ns: u64,
) -> Result<CalibrationEntry, RunError> {
    let message = ToTenant::Calibrate { workload: name.to_owned(), share, service_ns };
    match tenants.ask(slot, &message, "calibrating", LIMIT).await? {
        FromTenant::Calibrated { spec, rate_per_s, service_ns, work_per_request, unit } => {
            Ok(CalibrationEntry {
                spec,
                native_rate_per_s: rate_per_s,
                service_ns,
                work_per_request,
                unit,
            })
        }
        other => {
            tenants
                .handles()
                .recorder
                .warning(format!("calibration of {name} was answered with {other:?}"))?;
            Err(tenants.unexpected(slot, &other))
        }
    }
}
