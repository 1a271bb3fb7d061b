//! What is learnt from tenants beside their samples: what each tells of itself once its context is
//! open, and what becomes of those whom the mechanism turns away.

use std::ffi::OsStr;

use gpubench_record::{FromTenant, RefusalKind, RunEvent, ToTenant};

use super::{CONTEXT, TenantSet, name_of};
use crate::mechanism::{OverLimit, PRIORITY, TenantObservation};
use crate::run::{Run, RunError, observe};
use crate::tenant::{Tenant, TenantError};

impl TenantSet {
    /// Opens the victim's context, and has everybody else ask for one. Whoever gets it gives it
    /// back, so that the victim is alone whatever the answer.
    pub(super) async fn attempt_access(&mut self, run: &mut Run) -> Result<(), RunError> {
        self.open_only(run, 0).await?;
        self.access_attempts.clear();
        for slot in 1..self.slots.len() {
            let answer = match self.set_open(run, slot, true).await {
                Ok(()) => None,
                Err(RunError::Tenant(TenantError::Refused {
                    kind: RefusalKind::Driver { code },
                    ..
                })) => Some(code),
                Err(error) => return Err(error),
            };
            self.set_open(run, slot, false).await?;
            self.access_attempts.push((name_of(slot), answer));
        }
        Ok(())
    }

    /// Who asked in vain for a context beside the victim's, and what the answer was.
    pub fn access_attempts(&self) -> Vec<(String, Option<i32>)> {
        self.access_attempts.clone()
    }

    /// What the tenants told whose contexts are open, the victim first; a program of the user's
    /// tells nothing.
    pub fn observations(&self) -> Vec<TenantObservation> {
        let tells = |tenant: &Tenant| tenant.is_open() && tenant.program().is_none();
        let open = |tenant: &Option<Tenant>| tenant.as_ref().is_some_and(tells);
        let told = self.slots.iter().zip(&self.observations);
        let told = told.zip(&self.config.environments);
        told.filter(|((tenant, _), _)| open(tenant))
            .map(|((tenant, told), given)| TenantObservation {
                stderr_tail: tenant.as_ref().map_or_else(String::new, Tenant::stderr),
                given: given
                    .get(OsStr::new("CUDA_VISIBLE_DEVICES"))
                    .map(|name| name.to_string_lossy().into_owned()),
                priority: observe::variable(told.pid, PRIORITY),
                ..told.clone()
            })
            .collect()
    }

    /// Asks a tenant for what its mechanism wants told, once in its life.
    pub(super) async fn question(&mut self, run: &mut Run, slot: usize) -> Result<(), RunError> {
        if self.observations[slot].mapped.is_none() {
            self.observations[slot].mapped = observe::mapped(self.observations[slot].pid);
        }
        let checks = self.config.checks;
        if checks.sm_placement && self.observations[slot].sm_placement.is_none() {
            let message = ToTenant::FindSms;
            let answer = self
                .ask(run, slot, &message, "counting its SMs", CONTEXT)
                .await;
            match answer {
                Ok(FromTenant::FoundSms { sms }) => {
                    self.observations[slot].sm_placement = Some(sms)
                }
                // What it could not find out is no evidence; the proof rests on the rest.
                Err(RunError::Tenant(error @ TenantError::Refused { .. })) => {
                    let text = error.to_string();
                    run.events.append(&RunEvent::Warning { text })?;
                    self.observations[slot].sm_placement = Some(Vec::new());
                }
                Ok(other) => return Err(self.unexpected(slot, &other)),
                Err(error) => return Err(error),
            }
        }
        if let Some(bytes) = checks.over_limit_bytes
            && self.observations[slot].over_limit.is_none()
        {
            let message = ToTenant::TryAllocate { bytes };
            let doing = "allocating beyond its limit";
            match self.ask(run, slot, &message, doing, CONTEXT).await? {
                FromTenant::Tried { refused_with } => {
                    self.observations[slot].over_limit = Some(OverLimit {
                        bytes,
                        refused_with,
                    });
                }
                other => return Err(self.unexpected(slot, &other)),
            }
        }
        Ok(())
    }
}
