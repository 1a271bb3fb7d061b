//! Starting and ending the processes of tenants.

use gpubench_record::user_victim::UserVictim;

use super::{TenantSet, name_of, participants_of};
use crate::mechanism::control_groups;
use crate::mechanism::{TenantEnv, TenantObservation};
use crate::run::{RunError, RunHandles};
use crate::tenant::{PreKillHook, SpawnError, Tenant, TenantError};

impl TenantSet {
    /// Starts the tenants that are missing.
    pub async fn ensure(&mut self) -> Result<(), RunError> {
        if !self.config.inside.is_empty() {
            return self.ensure_in_one_process().await;
        }
        for slot in 0..self.slots.len() {
            if self.slots[slot].is_some() {
                continue;
            }
            let mut tenant = self.start(slot).await?;
            self.join_control_group(slot, &tenant)?;
            if self.config.set_up.daemon.is_some() {
                let set_up = self.config.set_up.clone();
                tenant.set_pre_kill_hook(PreKillHook::new(move |pid| set_up.before_kill(pid)));
            }
            self.fill(slot, tenant)?;
        }
        Ok(())
    }

    async fn start(&self, slot: usize) -> Result<Tenant, RunError> {
        let name = name_of(slot);
        let spawner = &self.handles.setup.spawner;
        let extra = &self.config.environments[slot];
        let participants = participants_of(slot);
        let waits = &self.handles.waits;
        Ok(match self.user_victim(slot) {
            Some(program) => {
                let tenant = spawner.spawn_user_victim(&name, participants, extra, program);
                waits.unless_stopped(tenant).await??
            }
            None => {
                let tenant = spawner.spawn(&name, participants, extra);
                waits.unless_stopped(tenant).await??
            }
        })
    }

    /// Moves a process into the control group of a slot, if there is one, before it opens the
    /// device. Its children inherit the group, and its environment cannot change that.
    pub(super) fn join_control_group(&self, slot: usize, tenant: &Tenant) -> Result<(), RunError> {
        let groups = &self.config.set_up.groups;
        let group = groups.get(slot).or(groups.last());
        let Some(group) = group.filter(|_| self.config.mechanism.is_some()) else {
            return Ok(());
        };
        control_groups::join(group, tenant.pid()).map_err(|source| {
            let tenant = tenant.name().to_owned();
            RunError::Spawn(SpawnError::Start { tenant, source })
        })
    }

    /// Starts all tenants in a new process if one is missing: tenants of one process end together.
    async fn ensure_in_one_process(&mut self) -> Result<(), RunError> {
        if self.slots.iter().all(Option::is_some) {
            return Ok(());
        }
        self.dismiss().await?;
        let members: Vec<_> =
            (0..self.slots.len()).map(|slot| (name_of(slot), participants_of(slot))).collect();
        let spawner = &self.handles.setup.spawner;
        let started = spawner.spawn_together(&members, &self.config.environments[0]);
        let started = self.handles.waits.unless_stopped(started).await??;
        for (slot, tenant) in started.into_iter().enumerate() {
            self.fill(slot, tenant)?;
        }
        Ok(())
    }

    /// Writes that a tenant was started, and puts it into its slot.
    fn fill(&mut self, slot: usize, tenant: Tenant) -> Result<(), RunError> {
        self.observations[slot] =
            TenantObservation { slot, pid: tenant.pid(), ..TenantObservation::default() };
        self.handles.started(tenant.name(), tenant.pid())?;
        self.slots[slot] = Some(tenant);
        Ok(())
    }

    /// Ends the tenant of a slot, so that the next one is a new process.
    pub async fn renew(&mut self, slot: usize) -> Result<(), RunError> {
        let Some(mut tenant) = self.slots[slot].take() else {
            return Ok(());
        };
        stop(&self.handles, &mut tenant).await?;
        self.handles.reap().await
    }

    /// Starts a new tenant in a slot with other variables than in its configuration; `renew` undoes
    /// that.
    pub async fn replace(&mut self, slot: usize, variables: &TenantEnv) -> Result<(), RunError> {
        self.renew(slot).await?;
        let spawner = &self.handles.setup.spawner;
        let name = name_of(slot);
        let tenant = spawner.spawn(&name, participants_of(slot), variables);
        let tenant = self.handles.waits.unless_stopped(tenant).await??;
        self.join_control_group(slot, &tenant)?;
        self.fill(slot, tenant)
    }

    /// Ends every tenant.
    pub async fn dismiss(&mut self) -> Result<(), RunError> {
        self.dismiss_outsider().await?;
        for slot in 0..self.slots.len() {
            if let Some(mut tenant) = self.slots[slot].take() {
                stop(&self.handles, &mut tenant).await?;
            }
        }
        self.handles.reap().await
    }

    /// The user's program that runs in a slot.
    pub(super) fn user_victim(&self, slot: usize) -> Option<&UserVictim> {
        self.handles.setup.plan.user_victim.as_ref().filter(|_| slot == 0)
    }
}

/// Stops a tenant and writes how it ended.
pub async fn stop(handles: &RunHandles, tenant: &mut Tenant) -> Result<(), RunError> {
    let reason = tenant.stop().await;
    let (name, pid) = (tenant.name(), tenant.pid());
    Ok(handles.recorder.tenant_ended(name, pid, reason)?)
}

/// Writes the end of a tenant and frees what it held. Returns how it ended.
pub async fn note_end(
    handles: &RunHandles,
    mut tenant: Tenant,
    error: &TenantError,
) -> Result<String, RunError> {
    let how = match error {
        TenantError::Ended { how, .. } => how.clone(),
        other => {
            tenant.kill().await;
            other.to_string()
        }
    };
    let (name, pid) = (tenant.name(), tenant.pid());
    handles.recorder.tenant_ended(name, pid, how.clone())?;
    handles.abandon(tenant.participants()).await?;
    handles.reap().await?;
    Ok(how)
}
