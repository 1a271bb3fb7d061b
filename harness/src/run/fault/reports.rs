//! The reports of the injector and the helper process: what each answered, or how it ended.

use gpubench_record::{FaultObservation, FaultTrial, FromTenant, InjectorResult};
use gpubench_workloads::fault::{self, HostAct};

use super::injector_end::is_failure;
use crate::run::tenant_set::{TenantSet, note_end};
use crate::run::{RunError, RunHandles};
use crate::tenant::{Tenant, TenantError};

/// Writes how a helper process ended. Any end but the signal fails the trial.
pub async fn helper_ended(
    handles: &RunHandles,
    tenant: Tenant,
    answer: Result<FromTenant, TenantError>,
    observed: &mut FaultObservation,
) -> Result<(), RunError> {
    let error = match answer {
        Err(error @ TenantError::Ended { .. }) => error,
        Err(error) => {
            observed.failure = Some(error.to_string());
            error
        }
        Ok(_) => {
            let text = "the helper process outlived its signal".to_owned();
            observed.failure = Some(text.clone());
            TenantError::Protocol { tenant: tenant.name().to_owned(), what: text }
        }
    };
    note_end(handles, tenant, &error).await.map(|_| ())
}

/// Records what the injector reported.
pub async fn injected(
    tenants: &mut TenantSet,
    trial: &FaultTrial,
    slot: usize,
    tenant: Tenant,
    answer: Result<FromTenant, TenantError>,
    observed: &mut FaultObservation,
) -> Result<InjectorResult, RunError> {
    let error = match answer {
        Ok(FromTenant::Injected { began_ns, detected_ns, code, later_code }) => {
            tenants.put_back(slot, tenant);
            return Ok(InjectorResult {
                began_ns: Some(began_ns),
                detected_ns: Some(detected_ns),
                code,
                later_code: Some(later_code),
                ..InjectorResult::default()
            });
        }
        Ok(other) => tenant.unexpected(&other),
        Err(error) => error,
    };
    let act = fault::find(&trial.fault).map_or(HostAct::None, |fault| fault.act);
    if is_failure(act, &error) {
        observed.failure = Some(error.to_string());
    }
    let ended = Some(note_end(tenants.handles(), tenant, &error).await?);
    Ok(InjectorResult { ended, ..InjectorResult::default() })
}
