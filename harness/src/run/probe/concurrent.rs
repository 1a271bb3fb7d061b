//! Victim and neighbour at the same time.

use gpubench_record::{FromTenant, ProbeAsk, ProbeTold, ToTenant};

use super::{NEIGHBOUR, STEP, VICTIM};
use crate::run::RunError;
use crate::run::tenant_set::{TenantSet, missing, note_end};

/// Has the victim do one step of a probe and the neighbour another, and waits for both.
pub async fn probe_both(
    tenants: &mut TenantSet,
    victim: &ProbeAsk,
    neighbour: &ProbeAsk,
) -> Result<(ProbeTold, ProbeTold), RunError> {
    let step = |ask: &ProbeAsk| ToTenant::Probe { ask: ask.clone() };
    let (first, second) = ask_both(tenants, &step(victim), &step(neighbour)).await?;
    let told = |answer, slot| match answer {
        FromTenant::Probed { told } => Ok(told),
        other => Err(tenants.unexpected(slot, &other)),
    };
    Ok((told(first, VICTIM)?, told(second, NEIGHBOUR)?))
}

/// Sends each of the two its message at the same time; their answers in this order.
pub async fn ask_both(
    tenants: &mut TenantSet,
    victim: &ToTenant,
    neighbour: &ToTenant,
) -> Result<(FromTenant, FromTenant), RunError> {
    let handles = tenants.handles().clone();
    let mut members = tenants.take_slots(&[VICTIM, NEIGHBOUR]);
    // In virtual time neither begins before both have been announced.
    let ids = members
        .iter()
        .map(|(_, tenant)| tenant.participants().issuer);
    handles.expect(ids.collect()).await?;
    let mut sent = Vec::new();
    for ((_, tenant), message) in members.iter_mut().zip([victim, neighbour]) {
        sent.push(tenant.send(message).await);
    }
    let (mut answers, mut failure) = (Vec::new(), None);
    for ((slot, mut tenant), sent) in members.into_iter().zip(sent) {
        let doing = "probing beside another";
        let answer = match sent {
            Ok(()) => handles.waits.reply(&mut tenant, doing, STEP).await,
            Err(error) => Some(Err(error)),
        };
        // A tenant that answered without touching the device never joined.
        handles.abandon(tenant.participants()).await?;
        match answer {
            Some(Ok(answer)) => {
                answers.push(answer);
                tenants.put_back(slot, tenant);
            }
            Some(Err(error)) => {
                note_end(&handles, tenant, &error).await?;
                failure.get_or_insert(error);
            }
            None => return Err(RunError::Interrupted),
        }
    }
    match (failure, answers.pop(), answers.pop()) {
        (None, Some(second), Some(first)) => Ok((first, second)),
        (Some(error), ..) => Err(error.into()),
        (None, ..) => Err(missing(NEIGHBOUR).into()),
    }
}
