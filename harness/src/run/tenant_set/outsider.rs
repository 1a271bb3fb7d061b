//! Whoever is none of the tenants: a process without the mechanism's variables, which asks for a
//! context while theirs are open, where the mechanism is to keep everybody else out.

use std::time::Duration;

use gpubench_record::wire::Participants;
use gpubench_record::{FromTenant, RefusalKind, ToTenant};

use super::{CONTEXT, TenantSet, note_end, participants_of, stop};
use crate::mechanism::TenantEnv;
use crate::run::{Run, RunError};
use crate::tenant::{Tenant, TenantError};

/// Its name, in the record's events and in proofs.
const NAME: &str = "outsider";
/// Its number among those who have no place, behind all whom a fault trial has.
const NUMBER: usize = 7;
/// What it is doing.
const DOING: &str = "asking for a context";

impl TenantSet {
    /// Has the stranger ask for a context. One that gets it gives it back.
    pub(super) async fn ask_outsider(&mut self, run: &mut Run) -> Result<(), RunError> {
        self.access_attempts.clear();
        let mut tenant = match self.outsider.take() {
            Some(tenant) => tenant,
            None => start(run, participants_of(self.slots.len() + NUMBER)).await?,
        };
        let open = ToTenant::Open {
            ordinal: 0,
            spin: false,
            participants: tenant.participants(),
            inside: None,
        };
        let answer = match ask_auxiliary(run, &mut tenant, &open, DOING, CONTEXT).await {
            Ok(FromTenant::Opened { .. }) => give_back(run, &mut tenant).await,
            Err(RunError::Tenant(TenantError::Refused {
                kind: RefusalKind::Driver { code },
                ..
            })) => Ok(Some(code)),
            Err(RunError::Tenant(error)) => Err(error),
            Ok(other) => Err(tenant.unexpected(&other)),
            Err(error) => return Err(error),
        };
        match answer {
            Ok(code) => {
                self.access_attempts.push((NAME.to_owned(), code));
                self.outsider = Some(tenant);
                Ok(())
            }
            // What became of it is no evidence, and the proof then says that nobody asked.
            Err(error) => note_end(run, tenant, &error).await.map(|_| ()),
        }
    }

    /// Ends it.
    pub(super) async fn dismiss_outsider(&mut self, run: &mut Run) -> Result<(), RunError> {
        match self.outsider.take() {
            Some(mut tenant) => stop(run, &mut tenant).await,
            None => Ok(()),
        }
    }
}

async fn start(run: &mut Run, participants: Participants) -> Result<Tenant, RunError> {
    let spawner = run.setup.spawner.clone();
    let tenant = spawner.spawn(NAME, participants, &TenantEnv::new()).await?;
    run.started(NAME, tenant.pid())?;
    Ok(tenant)
}

/// Has one that got a context give it back; that it got one is the answer.
async fn give_back(run: &mut Run, tenant: &mut Tenant) -> Result<Option<i32>, TenantError> {
    match ask_auxiliary(run, tenant, &ToTenant::Close, DOING, CONTEXT).await {
        Ok(FromTenant::Closed) => Ok(None),
        Ok(other) => Err(tenant.unexpected(&other)),
        Err(RunError::Tenant(error)) => Err(error),
        Err(error) => Err(TenantError::Ended {
            tenant: NAME.to_owned(),
            how: error.to_string(),
        }),
    }
}

/// Asks somebody without a place, and waits for the answer.
pub async fn ask_auxiliary(
    run: &mut Run,
    tenant: &mut Tenant,
    message: &ToTenant,
    doing: &'static str,
    limit: Duration,
) -> Result<FromTenant, RunError> {
    run.setup.clock.expect(tenant.participants().issuer)?;
    let answer: Result<FromTenant, TenantError> = match tenant.send(message).await {
        Ok(()) => tenant.receive(doing, limit).await,
        Err(error) => Err(error),
    };
    // One that answered without touching the device never joined.
    run.setup.clock.abandon(tenant.participants())?;
    Ok(answer?)
}
