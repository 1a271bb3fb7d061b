//! Processes of a trial that have no place among its tenants: the accomplice before the fault, and
//! the client that asks for the device after it.

use std::time::Duration;

use gpubench_record::wire::FaultPart;
use gpubench_record::{FaultSeen, FromTenant, NewClient, ToTenant};

use super::LIMIT;
use crate::run::tenant_set::{ask_auxiliary, stop};
use crate::run::{Run, RunError};
use crate::tenant::Tenant;

/// A new client asks this often, and gives up after this long: the slowest recovery of a server
/// that was published took 1.4 s (arXiv 2605.26461).
const EVERY_NS: u64 = 1_000_000;
const ARRIVE_LIMIT_NS: u64 = 10_000_000_000;
/// Longest wait for a context.
const CONTEXT: Duration = Duration::from_secs(60);

/// Opens the accomplice's context and readies its part; returns what it gives.
pub async fn arm(
    run: &mut Run,
    tenant: &mut Tenant,
    fault: &str,
) -> Result<Option<String>, RunError> {
    let open = ToTenant::Open {
        ordinal: 0,
        spin: false,
        participants: tenant.participants(),
        inside: None,
    };
    let arm = ToTenant::Arm {
        fault: fault.to_owned(),
        budget_ns: 0,
        part: FaultPart::Helper,
    };
    match ask(run, tenant, &open, CONTEXT).await? {
        FromTenant::Opened { .. } => {}
        other => return Err(tenant.unexpected(&other).into()),
    }
    match ask(run, tenant, &arm, LIMIT).await? {
        FromTenant::Armed { given } => Ok(given),
        other => Err(tenant.unexpected(&other).into()),
    }
}

/// Lets the newcomer ask for the device. Whoever was harmed has ended by now.
pub async fn arrive(
    run: &mut Run,
    mut client: Tenant,
    seen: &mut FaultSeen,
) -> Result<Option<NewClient>, RunError> {
    let message = ToTenant::Arrive {
        ordinal: 0,
        participants: client.participants(),
        every_ns: EVERY_NS,
        limit_ns: ARRIVE_LIMIT_NS,
    };
    let answer = match ask(run, &mut client, &message, LIMIT).await {
        Err(RunError::Tenant(error)) => Err(error),
        answer => Ok(answer?),
    };
    let wrong = match &answer {
        Ok(FromTenant::Arrived { .. }) => None,
        Ok(other) => Some(client.unexpected(other)),
        Err(error) => Some(error.clone()),
    };
    end(run, client).await?;
    if let Some(wrong) = wrong {
        seen.failure = Some(wrong.to_string());
    }
    match answer {
        Ok(FromTenant::Arrived {
            accepted_after_ns,
            tries,
            refused_with,
        }) => Ok(Some(NewClient {
            accepted_after_ns,
            tries,
            refused_with,
        })),
        _ => Ok(None),
    }
}

/// Ends a guest and writes down how.
pub async fn end(run: &mut Run, mut tenant: Tenant) -> Result<(), RunError> {
    stop(run, &mut tenant).await?;
    run.setup.clock.abandon(tenant.participants())?;
    run.setup.clock.reap()
}

/// Asks a guest and waits for its answer.
async fn ask(
    run: &mut Run,
    tenant: &mut Tenant,
    message: &ToTenant,
    limit: Duration,
) -> Result<FromTenant, RunError> {
    ask_auxiliary(run, tenant, message, "taking part in a fault trial", limit).await
}
