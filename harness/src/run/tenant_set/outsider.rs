//! The outsider: a process without the mechanism's variables, which attempts to get a context while
//! the tenants' are open, where the mechanism keeps other processes out.

use gpubench_record::{FromTenant, RefusalKind, ToTenant};

use super::{CONTEXT, TenantSet, ask_auxiliary, note_end, participants_of, stop};
use crate::mechanism::TenantEnv;
use crate::run::{RunError, RunHandles};
use crate::tenant::{Tenant, TenantError};

/// Its name, in the record's events and in proofs.
const NAME: &str = "outsider";
/// Its number among the processes without a slot, behind all that a fault trial has.
const NUMBER: usize = 7;
/// What it is doing.
const DOING: &str = "asking for a context";

impl TenantSet {
    /// Has the outsider ask for a context. If it gets one, it gives it back.
    pub(super) async fn ask_outsider(&mut self) -> Result<(), RunError> {
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
        let asked = ask_auxiliary(&self.handles, &mut tenant, &open, DOING, CONTEXT).await;
        let answer = match asked {
            Ok(FromTenant::Opened { .. }) => give_back(&self.handles, &mut tenant).await,
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
            // Its end is no evidence; the proof then says that there was no attempt.
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

    /// Ends it.
    pub(super) async fn dismiss_outsider(&mut self) -> Result<(), RunError> {
        match self.outsider.take() {
            Some(mut tenant) => stop(&self.handles, &mut tenant).await,
            None => Ok(()),
        }
    }
}

/// Has a process that got a context give it back; that it got one is the answer.
async fn give_back(handles: &RunHandles, tenant: &mut Tenant) -> Result<Option<i32>, TenantError> {
    match ask_auxiliary(handles, tenant, &ToTenant::Close, DOING, CONTEXT).await {
        Ok(FromTenant::Closed) => Ok(None),
        Ok(other) => Err(tenant.unexpected(&other)),
        Err(RunError::Tenant(error)) => Err(error),
        Err(error) => Err(TenantError::Ended {
            tenant: NAME.to_owned(),
            how: error.to_string(),
        }),
    }
}
