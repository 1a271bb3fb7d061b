//! Victim and neighbour at the same time.

use gpubench_record::{FromTenant, ProbeAsk, ProbeTold, ToTenant};

use super::{NEIGHBOUR, STEP, VICTIM};
use crate::run::tenant_set::{TenantSet, name_of, note_end};
use crate::run::{Run, RunError};
use crate::tenant::TenantError;

/// Has the victim do one step of a probe and the neighbour another, and waits for both.
pub async fn probe_both(
    run: &mut Run,
    tenants: &mut TenantSet,
    victim: &ProbeAsk,
    neighbour: &ProbeAsk,
) -> Result<(ProbeTold, ProbeTold), RunError> {
    let step = |ask: &ProbeAsk| ToTenant::Probe { ask: ask.clone() };
    let (first, second) = ask_both(run, tenants, &step(victim), &step(neighbour)).await?;
    let told = |answer, slot| match answer {
        FromTenant::Probed { told } => Ok(told),
        other => Err(tenants.unexpected(slot, &other)),
    };
    Ok((told(first, VICTIM)?, told(second, NEIGHBOUR)?))
}

/// Sends each of the two its message at the same time; their answers in this order.
pub async fn ask_both(
    run: &mut Run,
    tenants: &mut TenantSet,
    victim: &ToTenant,
    neighbour: &ToTenant,
) -> Result<(FromTenant, FromTenant), RunError> {
    let mut members = tenants.take_slots(&[VICTIM, NEIGHBOUR]);
    // In virtual time nobody begins before both have been heard of.
    for (_, tenant) in &members {
        run.setup.clock.expect(tenant.participants().issuer)?;
    }
    let mut sent = Vec::new();
    for ((_, tenant), message) in members.iter_mut().zip([victim, neighbour]) {
        sent.push(tenant.send(message).await);
    }
    let (mut answers, mut failure) = (Vec::new(), None);
    for ((slot, mut tenant), sent) in members.into_iter().zip(sent) {
        let answer = match sent {
            Ok(()) => tenant.receive("probing beside another", STEP).await,
            Err(error) => Err(error),
        };
        // One that answered without touching the device never joined.
        run.setup.clock.abandon(tenant.participants())?;
        match answer {
            Ok(answer) => {
                answers.push(answer);
                tenants.put_back(slot, tenant);
            }
            Err(error) => {
                note_end(run, tenant, &error).await?;
                failure.get_or_insert(error);
            }
        }
    }
    match (failure, answers.pop(), answers.pop()) {
        (None, Some(second), Some(first)) => Ok((first, second)),
        (Some(error), ..) => Err(error.into()),
        (None, ..) => Err(TenantError::Ended {
            tenant: name_of(NEIGHBOUR),
            how: "before it was asked".to_owned(),
        }
        .into()),
    }
}
