//! Processes of a trial without a slot: the helper process before the fault, and the recovery
//! client that requests the device after it.

use std::time::Duration;

use gpubench_record::wire::FaultRole;
use gpubench_record::{FaultObservation, FromTenant, NewClient, ToTenant};

use super::LIMIT;
use crate::run::tenant_set::{ask_auxiliary, stop};
use crate::run::{RunError, RunHandles};
use crate::tenant::Tenant;

/// Interval of a recovery client's requests, and the time after which it stops: the slowest
/// published recovery of a server took 1.4 s (arXiv 2605.26461).
const EVERY_NS: u64 = 1_000_000;
const ACQUIRE_LIMIT_NS: u64 = 10_000_000_000;
/// Longest wait for a context.
const CONTEXT: Duration = Duration::from_secs(60);

/// Opens the helper's context and prepares its role. Returns its data for the injector.
pub async fn arm(
    handles: &RunHandles,
    tenant: &mut Tenant,
    fault: &str,
) -> Result<Option<String>, RunError> {
    let open = ToTenant::Open {
        ordinal: 0,
        spin: false,
        participants: tenant.participants(),
        inside: None,
    };
    let arm = ToTenant::Arm { fault: fault.to_owned(), budget_ns: 0, role: FaultRole::Helper };
    match ask(handles, tenant, &open, CONTEXT).await? {
        FromTenant::Opened { .. } => {}
        other => return Err(tenant.unexpected(&other).into()),
    }
    match ask(handles, tenant, &arm, LIMIT).await? {
        FromTenant::Armed { helper_data } => Ok(helper_data),
        other => Err(tenant.unexpected(&other).into()),
    }
}

/// Has the recovery client request the device, after the injector has ended.
pub async fn acquire_device(
    handles: &RunHandles,
    mut client: Tenant,
    observed: &mut FaultObservation,
) -> Result<Option<NewClient>, RunError> {
    let message = ToTenant::AcquireDevice {
        ordinal: 0,
        participants: client.participants(),
        every_ns: EVERY_NS,
        limit_ns: ACQUIRE_LIMIT_NS,
    };
    let answer = match ask(handles, &mut client, &message, LIMIT).await {
        Err(RunError::Tenant(error)) => Err(error),
        answer => Ok(answer?),
    };
    let wrong = match &answer {
        Ok(FromTenant::DeviceAcquired { .. }) => None,
        Ok(other) => Some(client.unexpected(other)),
        Err(error) => Some(error.clone()),
    };
    end(handles, client).await?;
    if let Some(wrong) = wrong {
        observed.failure = Some(wrong.to_string());
    }
    match answer {
        Ok(FromTenant::DeviceAcquired { accepted_after_ns, tries, refused_with }) => {
            Ok(Some(NewClient { accepted_after_ns, tries, refused_with }))
        }
        _ => Ok(None),
    }
}

/// Ends an auxiliary process and writes how.
pub async fn end(handles: &RunHandles, mut tenant: Tenant) -> Result<(), RunError> {
    stop(handles, &mut tenant).await?;
    handles.abandon(tenant.participants()).await?;
    handles.reap().await
}

/// Sends an auxiliary process a message and waits for its answer.
async fn ask(
    handles: &RunHandles,
    tenant: &mut Tenant,
    message: &ToTenant,
    limit: Duration,
) -> Result<FromTenant, RunError> {
    ask_auxiliary(handles, tenant, message, "taking part in a fault trial", limit).await
}
