//! Messages to tenants and their answers.

use std::time::Duration;

use gpubench_record::{FromTenant, TenantResult, ToTenant};

use super::{TenantSet, name_of, note_end};
use crate::run::RunError;
use crate::tenant::{Tenant, TenantError};

impl TenantSet {
    /// Sends a message to a slot and waits for the answer. A tenant that ends leaves its slot
    /// empty.
    pub async fn ask(
        &mut self,
        slot: usize,
        message: &ToTenant,
        doing: &'static str,
        limit: Duration,
    ) -> Result<FromTenant, RunError> {
        let Some(mut tenant) = self.slots[slot].take() else {
            return Err(missing(slot).into());
        };
        let handles = self.handles.clone();
        let participants = tenant.participants();
        handles.expect(vec![participants.issuer]).await?;
        let answer = handles.waits.answer(&mut tenant, message, doing, limit).await;
        let Some(answer) = answer else {
            let error = TenantError::Ended {
                tenant: name_of(slot),
                how: "stopped by the coordinator when the user stopped the run".to_owned(),
            };
            note_end(&handles, tenant, &error).await?;
            return Err(RunError::Interrupted);
        };
        // A tenant that answered without using the device has not joined the clock.
        handles.abandon(participants).await?;
        match answer {
            Ok(answer) => {
                self.slots[slot] = Some(tenant);
                Ok(answer)
            }
            Err(error @ TenantError::Refused { .. }) => {
                self.slots[slot] = Some(tenant);
                Err(error.into())
            }
            Err(error) => {
                note_end(&handles, tenant, &error).await?;
                Err(error.into())
            }
        }
    }

    /// The error for an answer of the wrong kind.
    pub fn unexpected(&self, slot: usize, answer: &FromTenant) -> RunError {
        match &self.slots[slot] {
            Some(tenant) => tenant.unexpected(answer).into(),
            None => missing(slot).into(),
        }
    }

    /// Removes tenants from their slots, to wait for all of them at the same time.
    pub fn take_slots(&mut self, slots: &[usize]) -> Vec<(usize, Tenant)> {
        slots.iter().filter_map(|&slot| Some((slot, self.slots[slot].take()?))).collect()
    }

    /// Puts a tenant back into its slot.
    pub fn put_back(&mut self, slot: usize, tenant: Tenant) {
        self.slots[slot] = Some(tenant);
    }

    /// Writes a tenant's answer to a start and puts the tenant back. Any answer but `Done` ends the
    /// tenant and is returned as an error, because only the state of a new process is known.
    pub async fn record_answer(
        &mut self,
        slot: usize,
        tenant: Tenant,
        answer: Result<FromTenant, TenantError>,
        result: &mut TenantResult,
    ) -> Result<Option<TenantError>, RunError> {
        let error = match answer {
            Ok(FromTenant::Done { rows, unlogged, overloaded, sched, reaper_sched, cpu_gaps }) => {
                result.rows = rows;
                result.unlogged = unlogged;
                result.overloaded = overloaded;
                result.sched = Some(sched);
                result.reaper_sched = reaper_sched;
                result.cpu_gaps = cpu_gaps;
                self.put_back(slot, tenant);
                return Ok(None);
            }
            Ok(other) => tenant.unexpected(&other),
            Err(error) => error,
        };
        result.death = Some(note_end(&self.handles, tenant, &error).await?);
        Ok(Some(error))
    }
}

/// The error for a slot without a tenant.
pub fn missing(slot: usize) -> TenantError {
    TenantError::Ended { tenant: name_of(slot), how: "before the message".to_owned() }
}
