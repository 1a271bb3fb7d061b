//! Steps of probes: by one tenant, or by victim and neighbour at the same time.

use std::time::Duration;

use gpubench_record::probe::step::Step;
use gpubench_record::{FromTenant, ToTenant};

use super::{NEIGHBOUR, VICTIM};
use crate::run::RunError;
use crate::run::tenant_set::{TenantSet, missing, note_end};

/// Longest wait for one step.
const LIMIT: Duration = Duration::from_secs(300);

/// Has the tenant in a slot do a step.
pub async fn step<S: Step>(
    tenants: &mut TenantSet,
    slot: usize,
    step: S,
) -> Result<S::Reply, RunError> {
    let message = message(step);
    let answer = tenants.ask(slot, &message, "probing", LIMIT).await?;
    reply_of::<S>(tenants, slot, answer)
}

/// Has victim and neighbour do a step each, at the same time.
pub async fn step_both<V: Step, N: Step>(
    tenants: &mut TenantSet,
    victim: V,
    neighbour: N,
) -> Result<(V::Reply, N::Reply), RunError> {
    let (first, second) = ask_both(tenants, &message(victim), &message(neighbour)).await?;
    Ok((reply_of::<V>(tenants, VICTIM, first)?, reply_of::<N>(tenants, NEIGHBOUR, second)?))
}

fn message(step: impl Step) -> ToTenant {
    ToTenant::Probe { step: step.into_step() }
}

fn reply_of<S: Step>(
    tenants: &TenantSet,
    slot: usize,
    answer: FromTenant,
) -> Result<S::Reply, RunError> {
    let FromTenant::Probed { reply } = answer else {
        return Err(tenants.unexpected(slot, &answer));
    };
    S::reply(reply).map_err(|reply| {
        let reply = *reply;
        tenants.unexpected(slot, &FromTenant::Probed { reply })
    })
}

/// Sends victim and neighbour a message each at the same time; returns the answers in that order.
pub async fn ask_both(
    tenants: &mut TenantSet,
    victim: &ToTenant,
    neighbour: &ToTenant,
) -> Result<(FromTenant, FromTenant), RunError> {
    let handles = tenants.handles().clone();
    let mut members = tenants.take_slots(&[VICTIM, NEIGHBOUR]);
    // Both are announced first, so that in virtual time neither begins alone.
    let ids = members.iter().map(|(_, tenant)| tenant.participants().issuer);
    handles.expect(ids.collect()).await?;
    let mut sent = Vec::new();
    for ((_, tenant), message) in members.iter_mut().zip([victim, neighbour]) {
        sent.push(tenant.send(message).await);
    }
    let (mut answers, mut failure) = (Vec::new(), None);
    for ((slot, mut tenant), sent) in members.into_iter().zip(sent) {
        let doing = "probing beside a neighbour";
        let answer = match sent {
            Ok(()) => handles.waits.reply(&mut tenant, doing, LIMIT).await,
            Err(error) => Some(Err(error)),
        };
        // A tenant that answered without using the device has not joined the clock.
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

/// Replaces the victim's process and opens its context only: a limiter has no history of it.
pub async fn restart_victim(tenants: &mut TenantSet) -> Result<(), RunError> {
    tenants.close().await?;
    tenants.renew(VICTIM).await?;
    tenants.ensure().await?;
    tenants.open_only(VICTIM).await
}
