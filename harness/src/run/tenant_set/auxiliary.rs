//! Processes without a slot: those of a fault trial, and the outsider.

use std::time::Duration;

use gpubench_record::{FromTenant, ToTenant};

use super::{TenantSet, participants_of};
use crate::run::{RunError, RunHandles};
use crate::tenant::Tenant;

impl TenantSet {
    /// Starts a process beside the slots, configured like the last slot. Auxiliary processes that
    /// run at the same time have different numbers.
    pub async fn start_auxiliary(&self, name: &str, number: usize) -> Result<Tenant, RunError> {
        let slot = self.slots.len() + number;
        let environment = self.config.environments.last().cloned();
        let environment = environment.unwrap_or_default();
        let spawner = &self.handles.setup.spawner;
        let tenant = spawner.spawn(name, participants_of(slot), &environment);
        let tenant = self.handles.waits.unless_stopped(tenant).await??;
        self.join_control_group(slot, &tenant)?;
        self.handles.started(name, tenant.pid())?;
        Ok(tenant)
    }
}

/// Sends a message to a process without a slot, and waits for the answer.
pub async fn ask_auxiliary(
    handles: &RunHandles,
    tenant: &mut Tenant,
    message: &ToTenant,
    doing: &'static str,
    limit: Duration,
) -> Result<FromTenant, RunError> {
    handles.expect(vec![tenant.participants().issuer]).await?;
    let answer = handles.waits.answer(tenant, message, doing, limit).await;
    // A process that answered without using the device has not joined the clock.
    handles.abandon(tenant.participants()).await?;
    match answer {
        Some(answer) => Ok(answer?),
        None => Err(RunError::Interrupted),
    }
}
