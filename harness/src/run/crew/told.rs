//! What is learnt from tenants beside their samples: what each tells of itself once its context is
//! open, and what becomes of those whom the mechanism turns away.

use std::ffi::OsStr;

use gpubench_record::{FromTenant, RunEvent, ToTenant};

use super::{CONTEXT, Crew, name_of};
use crate::mechanism::{OverLimit, PRIORITY, TenantSeen};
use crate::run::{Run, RunError, look};
use crate::tenant::{Tenant, TenantError};

impl Crew {
    /// Opens the victim's context, and has everybody else ask for one. Whoever gets it gives it
    /// back, so that the victim is alone whatever the answer.
    pub(super) async fn knock(&mut self, run: &mut Run) -> Result<(), RunError> {
        self.open_only(run, 0).await?;
        self.knocks.clear();
        for place in 1..self.places.len() {
            let answer = match self.set_open(run, place, true).await {
                Ok(()) => None,
                Err(RunError::Tenant(TenantError::Refused {
                    code: Some(code), ..
                })) => Some(code),
                Err(error) => return Err(error),
            };
            self.set_open(run, place, false).await?;
            self.knocks.push((name_of(place), answer));
        }
        Ok(())
    }

    /// Who asked in vain for a context beside the victim's, and what the answer was.
    pub fn knocks(&self) -> Vec<(String, Option<i32>)> {
        self.knocks.clone()
    }

    /// What the tenants told whose contexts are open, the victim first; a program of the user's
    /// tells nothing.
    pub fn told(&self) -> Vec<TenantSeen> {
        let tells = |tenant: &Tenant| tenant.is_open() && tenant.program().is_none();
        let open = |tenant: &Option<Tenant>| tenant.as_ref().is_some_and(tells);
        let told = self.places.iter().zip(&self.told);
        let told = told.zip(&self.terms.environments);
        told.filter(|((tenant, _), _)| open(tenant))
            .map(|((tenant, told), given)| TenantSeen {
                said: tenant.as_ref().map_or_else(String::new, Tenant::said),
                given: given
                    .get(OsStr::new("CUDA_VISIBLE_DEVICES"))
                    .map(|name| name.to_string_lossy().into_owned()),
                priority: look::variable(told.pid, PRIORITY),
                ..told.clone()
            })
            .collect()
    }

    /// Asks a tenant for what its mechanism wants told, once in its life.
    pub(super) async fn question(&mut self, run: &mut Run, place: usize) -> Result<(), RunError> {
        if self.told[place].mapped.is_none() {
            self.told[place].mapped = look::mapped(self.told[place].pid);
        }
        let questions = self.terms.questions;
        if questions.census && self.told[place].census.is_none() {
            let message = ToTenant::Census;
            let answer = self
                .ask(run, place, &message, "counting its SMs", CONTEXT)
                .await;
            match answer {
                Ok(FromTenant::Counted { sms }) => self.told[place].census = Some(sms),
                // What it could not find out is no evidence; the proof rests on the rest.
                Err(RunError::Tenant(error @ TenantError::Refused { .. })) => {
                    let text = error.to_string();
                    run.events.append(&RunEvent::Warning { text })?;
                    self.told[place].census = Some(Vec::new());
                }
                Ok(other) => return Err(self.unexpected(place, &other)),
                Err(error) => return Err(error),
            }
        }
        if let Some(bytes) = questions.over_limit_bytes
            && self.told[place].over_limit.is_none()
        {
            let message = ToTenant::TryAllocate { bytes };
            let doing = "allocating beyond its limit";
            match self.ask(run, place, &message, doing, CONTEXT).await? {
                FromTenant::Tried { refused_with } => {
                    self.told[place].over_limit = Some(OverLimit {
                        bytes,
                        refused_with,
                    });
                }
                other => return Err(self.unexpected(place, &other)),
            }
        }
        Ok(())
    }
}
