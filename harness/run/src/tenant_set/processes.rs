//! Starting and ending the processes of tenants.

use std::time::Duration;

use gpubench_host::mechanism::{TenantEnv, TenantObservation, control_groups};
use gpubench_host::tenant::{PreKillHook, SpawnError, Tenant, TenantError};
use gpubench_record::user_victim::UserVictim;
use gpubench_record::{FromTenant, RefusalKind, TimePart, ToTenant};

use super::{CONTEXT, TenantSet, name_of, participants_of};
use crate::{RunError, RunHandles};

impl TenantSet {
    pub async fn ensure(&mut self) -> Result<(), RunError> {
        if self.slots.iter().all(Option::is_some) {
            return Ok(());
        }
        let before = self.handles.spend_step(TimePart::Tenants).await;
        let started = self.start_missing().await;
        self.handles.spend(before).await;
        started
    }

    async fn start_missing(&mut self) -> Result<(), RunError> {
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
        let Some(group) = group.filter(|_| self.config.mechanism.is_some()) else { return Ok(()) };
        control_groups::join(group, tenant.pid()).map_err(|source| {
            let tenant = tenant.name().to_owned();
            RunError::Spawn(SpawnError::Start { tenant, source })
        })
    }

    /// Starts all tenants in a new process if one is missing: tenants of one process end together.
    async fn ensure_in_one_process(&mut self) -> Result<(), RunError> {
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

    fn fill(&mut self, slot: usize, tenant: Tenant) -> Result<(), RunError> {
        self.observations[slot] =
            TenantObservation { slot, pid: tenant.pid(), ..TenantObservation::default() };
        self.handles.started(tenant.name(), tenant.pid())?;
        self.slots[slot] = Some(tenant);
        Ok(())
    }

    /// Ends the tenant of a slot, so that the next one is a new process.
    pub async fn renew(&mut self, slot: usize) -> Result<(), RunError> {
        let Some(mut tenant) = self.slots[slot].take() else { return Ok(()) };
        stop(&self.handles, &mut tenant).await?;
        self.handles.reap().await
    }

    /// Starts a new tenant in a slot with other variables than in its configuration; `renew` undoes
    /// that.
    pub async fn replace(&mut self, slot: usize, variables: &TenantEnv) -> Result<(), RunError> {
        self.replace_as(slot, slot, variables).await
    }

    /// The same in the control group of another slot.
    pub async fn replace_as(
        &mut self,
        slot: usize,
        group_of: usize,
        variables: &TenantEnv,
    ) -> Result<(), RunError> {
        self.renew(slot).await?;
        let spawner = &self.handles.setup.spawner;
        let name = name_of(slot);
        let tenant = spawner.spawn(&name, participants_of(slot), variables);
        let tenant = self.handles.waits.unless_stopped(tenant).await??;
        self.join_control_group(group_of, &tenant)?;
        self.fill(slot, tenant)
    }

    pub async fn dismiss(&mut self) -> Result<(), RunError> {
        let before = self.handles.spend_step(TimePart::Tenants).await;
        self.dismiss_outsider().await?;
        for slot in 0..self.slots.len() {
            if let Some(mut tenant) = self.slots[slot].take() {
                stop(&self.handles, &mut tenant).await?;
            }
        }
        self.handles.spend(before).await;
        self.handles.reap().await
    }

    pub(super) fn user_victim(&self, slot: usize) -> Option<&UserVictim> {
        self.handles.setup.plan.user_victim.as_ref().filter(|_| slot == 0)
    }
}

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
    if tenant.has_panicked() {
        return Err(RunError::Bug(format!("{name} (process {pid}) panicked")));
    }
    handles.abandon(tenant.participants()).await?;
    handles.reap().await?;
    Ok(how)
}

// Processes without a slot: those of a fault trial, and the outsider.

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
    let answer = handles.waits.answer(tenant, Some(message), doing, limit).await;
    // A process that answered without using the device has not joined the clock.
    handles.abandon(tenant.participants()).await?;
    match answer {
        Some(answer) => Ok(answer?),
        None => Err(RunError::Interrupted),
    }
}

// The outsider: a process without the mechanism's variables that requests a context while those of
// the tenants are open. It runs where the mechanism refuses other processes.

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
