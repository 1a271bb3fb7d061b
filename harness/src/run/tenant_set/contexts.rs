//! Opening and closing the contexts of tenants.

use std::time::Duration;

use gpubench_record::{Condition, FromTenant, ToTenant};

use super::{CONTEXT, TenantSet, note_end};
use crate::run::RunError;
use crate::tenant::TenantError;

/// Wait for a user's program beyond the time in which it must be ready: the tenant that starts it
/// reports itself that the program is late.
const PROGRAM_MORE: Duration = Duration::from_secs(30);

impl TenantSet {
    /// Opens and closes contexts as a condition needs them: native cells have only the victim's.
    pub async fn arrange(&mut self, condition: Condition) -> Result<(), RunError> {
        self.ensure().await?;
        if self.config.admits_one_tenant {
            return self.attempt_access().await;
        }
        for slot in 0..self.slots.len() {
            let wanted = slot == 0 || !condition.is_native();
            self.set_open(slot, wanted).await?;
        }
        if self.config.refuses_outsiders && !condition.is_native() {
            self.attempt_as_outsider().await?;
        }
        Ok(())
    }

    /// Opens exactly one slot's context.
    pub async fn open_only(&mut self, slot: usize) -> Result<(), RunError> {
        for other in 0..self.slots.len() {
            if other != slot {
                self.set_open(other, false).await?;
            }
        }
        self.set_open(slot, true).await
    }

    /// Closes every context.
    pub async fn close(&mut self) -> Result<(), RunError> {
        for slot in 0..self.slots.len() {
            self.set_open(slot, false).await?;
        }
        Ok(())
    }

    /// Opens or closes a slot's context.
    pub(super) async fn set_open(&mut self, slot: usize, open: bool) -> Result<(), RunError> {
        let Some(tenant) = &self.slots[slot] else {
            return Ok(());
        };
        if tenant.is_open() == open {
            return Ok(());
        }
        let message = if open {
            ToTenant::Open {
                ordinal: 0,
                // The victim spins for its completions, which are measured. Neighbours block,
                // because they would use the victim's core.
                spin: slot == 0,
                participants: tenant.participants(),
                inside: self.config.inside.get(slot).copied(),
            }
        } else {
            ToTenant::Close
        };
        let doing = "opening or closing its context";
        let ready_ns = self.user_victim(slot).map(|program| program.ready_ns);
        let limit = ready_ns.map_or(CONTEXT, |ns| Duration::from_nanos(ns) + PROGRAM_MORE);
        let answer = match self.ask(slot, &message, doing, limit).await {
            // The end of its process closes a context that cannot be closed otherwise.
            Err(RunError::Tenant(error @ TenantError::Refused { .. })) if !open => {
                if let Some(tenant) = self.slots[slot].take() {
                    note_end(&self.handles, tenant, &error).await?;
                }
                return Ok(());
            }
            // A dead tenant has no context.
            Err(RunError::Tenant(TenantError::Ended { .. })) if !open => return Ok(()),
            answer => answer?,
        };
        match answer {
            FromTenant::Opened { facts } if open => {
                if ready_ns.is_some() {
                    // A user's program reports nothing about the device.
                    return Ok(());
                }
                // Under a mechanism a tenant may see a part of the device.
                if self.config.mechanism.is_none() {
                    self.handles.complete_identity(&facts);
                }
                self.observations[slot].facts = facts;
                self.observations[slot].opened_at_ns = Some(self.handles.now_ns().await?);
                self.check(slot).await
            }
            FromTenant::Closed if !open => Ok(()),
            other => Err(self.unexpected(slot, &other)),
        }
    }
}
