//! The outsider: a process without the mechanism's variables that requests a context while those of
//! the tenants are open. It runs where the mechanism refuses other processes.

use gpubench_record::{FromTenant, RefusalKind, ToTenant};

use super::{CONTEXT, TenantSet, ask_auxiliary, note_end, participants_of, stop};
use crate::mechanism::TenantEnv;
use crate::run::{RunError, RunHandles};
use crate::tenant::{Tenant, TenantError};

/// Its name, in the record's events and in proofs.
const NAME: &str = "outsider";
/// Its number among the processes without a slot, after those of a fault trial.
const NUMBER: usize = 7;
/// The step, as errors name it.
const DOING: &str = "requesting a context";

impl TenantSet {
    /// Has the outsider request a context and close it again.
    pub(super) async fn attempt_as_outsider(&mut self) -> Result<(), RunError> {
        self.access_attempts.clear();
        let mut tenant = match self.outsider.take() {
            Some(tenant) => tenant,
            None => self.start_outsider().await?,
        };
        let open = ToTenant::Open {
            ordinal: 0,
            spin: false,
            participants: tenant.participants(),
            inside: None,
        };
        let opened = ask_auxiliary(&self.handles, &mut tenant, &open, DOING, CONTEXT).await;
        let answer = match opened {
            Ok(FromTenant::Opened { .. }) => close(&self.handles, &mut tenant).await,
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
                self.attempted_at_ns = Some(self.handles.now_ns().await?);
                self.outsider = Some(tenant);
                Ok(())
            }
            // The end of the outsider is no evidence; the proof then reports no attempt.
            Err(error) => note_end(&self.handles, tenant, &error).await.map(|_| ()),
        }
    }

    async fn start_outsider(&self) -> Result<Tenant, RunError> {
        let participants = participants_of(self.slots.len() + NUMBER);
        let none = TenantEnv::new();
        let tenant = self.handles.setup.spawner.spawn(NAME, participants, &none);
        let tenant = self.handles.waits.unless_stopped(tenant).await??;
        self.handles.started(NAME, tenant.pid())?;
        Ok(tenant)
    }

    /// Ends the outsider.
    pub(super) async fn dismiss_outsider(&mut self) -> Result<(), RunError> {
        match self.outsider.take() {
            Some(mut tenant) => stop(&self.handles, &mut tenant).await,
            None => Ok(()),
        }
    }
}

/// Closes the outsider's context; the answer is that it got one.
async fn close(handles: &RunHandles, tenant: &mut Tenant) -> Result<Option<i32>, TenantError> {
    match ask_auxiliary(handles, tenant, &ToTenant::Close, DOING, CONTEXT).await {
        Ok(FromTenant::Closed) => Ok(None),
        Ok(other) => Err(tenant.unexpected(&other)),
        Err(RunError::Tenant(error)) => Err(error),
        Err(error) => Err(TenantError::Ended { tenant: NAME.to_owned(), how: error.to_string() }),
    }
}
