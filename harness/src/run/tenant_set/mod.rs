//! The tenants of a run: who they are, which contexts are open, and fresh ones for those that died.

mod observations;
mod outsider;

use std::time::Duration;

use gpubench_record::user_victim::UserVictim;
use gpubench_record::wire::{Inside, Participants};
use gpubench_record::{Condition, FromTenant, RunEvent, TenantResult, ToTenant};

use super::{Run, RunError};
use crate::mechanism::control_groups;
use crate::mechanism::{InForce, Mechanism, OpeningChecks, TenantEnv, TenantObservation};
use crate::tenant::{PreKillHook, SpawnError, Tenant, TenantError};
pub use outsider::ask_auxiliary;

/// Longest wait for a context to open or close.
const CONTEXT: Duration = Duration::from_secs(60);

/// How much longer a program of the user's is waited for than it may take to be ready: the tenant
/// that starts it says itself when that was too long.
const PROGRAM_MORE: Duration = Duration::from_secs(30);

/// Number of the clock participant that samples counters.
pub const SAMPLER: u32 = 0;

/// Number of the clock participant that kills and stops tenants.
pub const FAULT_SCHEDULER: u32 = 1;

/// The victim and its neighbours, in order; a place is empty after a death.
pub struct TenantSet {
    slots: Vec<Option<Tenant>>,
    /// What each of them told since it was started.
    observations: Vec<TenantObservation>,
    /// Who asked in vain beside the victim's context, and what the answer was.
    access_attempts: Vec<(String, Option<i32>)>,
    /// Somebody who is none of them, where the mechanism is to keep everybody else out.
    outsider: Option<Tenant>,
    config: TenantConfig,
}

/// Under what these tenants are.
pub struct TenantConfig {
    /// The mechanism; none for tenants that have the device as it is.
    pub mechanism: Option<&'static dyn Mechanism>,
    /// What was set up for it.
    pub set_up: InForce,
    /// Variables of the tenant in each place.
    pub environments: Vec<TenantEnv>,
    /// What they shall tell once their context is open.
    pub checks: OpeningChecks,
    /// What each has of the one process that they are threads of; empty for a process each.
    pub inside: Vec<Inside>,
    /// Whether the victim alone gets a context and everybody else asks for one in vain.
    pub admits_one_tenant: bool,
    /// Whether somebody who is none of them shall ask for a context while theirs are open.
    pub refuses_outsiders: bool,
}

/// Name of the tenant in a place, as plans name it.
#[must_use]
pub fn name_of(slot: usize) -> String {
    if slot == 0 {
        "victim".to_owned()
    } else {
        format!("neighbour-{slot}")
    }
}

/// The numbers under which the threads of a place join the clock.
pub fn participants_of(slot: usize) -> Participants {
    let first = 2 * u32::try_from(slot).unwrap_or(u32::MAX / 4) + 2;
    Participants {
        issuer: first,
        reaper: first + 1,
    }
}

impl TenantSet {
    /// Nobody yet, for as many places as there are environments.
    pub fn new(config: TenantConfig) -> Self {
        let count = config.environments.len();
        Self {
            slots: (0..count).map(|_| None).collect(),
            observations: vec![TenantObservation::default(); count],
            access_attempts: Vec::new(),
            outsider: None,
            config,
        }
    }

    /// Under what they are.
    pub const fn config(&self) -> &TenantConfig {
        &self.config
    }

    /// Starts whoever is missing.
    pub async fn ensure(&mut self, run: &mut Run) -> Result<(), RunError> {
        if !self.config.inside.is_empty() {
            return self.ensure_together(run).await;
        }
        for slot in 0..self.slots.len() {
            if self.slots[slot].is_some() {
                continue;
            }
            let name = name_of(slot);
            let spawner = run.setup.spawner.clone();
            let extra = &self.config.environments[slot];
            let who = participants_of(slot);
            let mut tenant = match user_victim(run, slot) {
                Some(program) => {
                    spawner
                        .spawn_user_victim(&name, who, extra, &program)
                        .await?
                }
                None => spawner.spawn(&name, who, extra).await?,
            };
            self.enlist(slot, &tenant)?;
            if self.config.set_up.daemon.is_some() {
                let set_up = self.config.set_up.clone();
                tenant.set_pre_kill_hook(PreKillHook::new(move |pid| set_up.before_kill(pid)));
            }
            self.settle(run, slot, tenant)?;
        }
        Ok(())
    }

    /// Puts a process into the control group of a place, if there is one, before it opens the
    /// device. What it starts later is in there too, and nothing in its environment gets it out.
    fn enlist(&self, slot: usize, tenant: &Tenant) -> Result<(), RunError> {
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

    /// Starts everybody anew in one process if anybody is missing: who shares a process shares its
    /// end.
    async fn ensure_together(&mut self, run: &mut Run) -> Result<(), RunError> {
        if self.slots.iter().all(Option::is_some) {
            return Ok(());
        }
        self.dismiss(run).await?;
        let who: Vec<_> = (0..self.slots.len())
            .map(|slot| (name_of(slot), participants_of(slot)))
            .collect();
        let spawner = run.setup.spawner.clone();
        let started = spawner.spawn_together(&who, &self.config.environments[0]);
        for (slot, tenant) in started.await?.into_iter().enumerate() {
            self.settle(run, slot, tenant)?;
        }
        Ok(())
    }

    /// Writes down that a tenant was started, and gives it its place.
    fn settle(&mut self, run: &mut Run, slot: usize, tenant: Tenant) -> Result<(), RunError> {
        self.observations[slot] = TenantObservation {
            slot,
            pid: tenant.pid(),
            ..TenantObservation::default()
        };
        run.started(tenant.name(), tenant.pid())?;
        self.slots[slot] = Some(tenant);
        Ok(())
    }

    /// Ends the tenant of a place, so that the next is a fresh process.
    pub async fn renew(&mut self, run: &mut Run, slot: usize) -> Result<(), RunError> {
        let Some(mut tenant) = self.slots[slot].take() else {
            return Ok(());
        };
        stop(run, &mut tenant).await?;
        run.setup.clock.reap()
    }

    /// Starts a fresh tenant in a place with other variables than its terms; `renew` undoes that.
    pub async fn replace(
        &mut self,
        run: &mut Run,
        slot: usize,
        variables: &TenantEnv,
    ) -> Result<(), RunError> {
        self.renew(run, slot).await?;
        let spawner = run.setup.spawner.clone();
        let who = participants_of(slot);
        let tenant = spawner.spawn(&name_of(slot), who, variables).await?;
        self.enlist(slot, &tenant)?;
        self.settle(run, slot, tenant)
    }

    /// Starts one more process than there are slots, configured like the last of them. Auxiliary
    /// processes that live at the same time have different numbers.
    pub async fn start_auxiliary(
        &self,
        run: &mut Run,
        name: &str,
        number: usize,
    ) -> Result<Tenant, RunError> {
        let slot = self.slots.len() + number;
        let config = self.config.environments.last().cloned().unwrap_or_default();
        let spawner = run.setup.spawner.clone();
        let tenant = spawner.spawn(name, participants_of(slot), &config).await?;
        self.enlist(slot, &tenant)?;
        run.started(name, tenant.pid())?;
        Ok(tenant)
    }

    /// Opens and closes contexts as a condition wants them: native cells have the victim's alone.
    pub async fn arrange(&mut self, run: &mut Run, condition: Condition) -> Result<(), RunError> {
        self.ensure(run).await?;
        if self.config.admits_one_tenant {
            return self.attempt_access(run).await;
        }
        for slot in 0..self.slots.len() {
            let wanted = slot == 0 || !condition.is_native();
            self.set_open(run, slot, wanted).await?;
        }
        if self.config.refuses_outsiders && !condition.is_native() {
            self.ask_outsider(run).await?;
        }
        Ok(())
    }

    /// Opens exactly one place's context.
    pub async fn open_only(&mut self, run: &mut Run, slot: usize) -> Result<(), RunError> {
        for other in 0..self.slots.len() {
            if other != slot {
                self.set_open(run, other, false).await?;
            }
        }
        self.set_open(run, slot, true).await
    }

    async fn set_open(&mut self, run: &mut Run, slot: usize, open: bool) -> Result<(), RunError> {
        let Some(tenant) = &self.slots[slot] else {
            return Ok(());
        };
        if tenant.is_open() == open {
            return Ok(());
        }
        let participants = tenant.participants();
        // The victim's completions are what is measured, so it spins for them; neighbours block,
        // or they would burn the victim's processor.
        let spin = slot == 0;
        let message = if open {
            ToTenant::Open {
                ordinal: 0,
                spin,
                participants,
                inside: self.config.inside.get(slot).copied(),
            }
        } else {
            ToTenant::Close
        };
        let doing = "opening or closing its context";
        let program = user_victim(run, slot);
        let is_program = program.is_some();
        let limit = program.map_or(CONTEXT, |program| {
            Duration::from_nanos(program.ready_ns) + PROGRAM_MORE
        });
        let answer = match self.ask(run, slot, &message, doing, limit).await {
            // What cannot be closed cannot be used again, and its process holds it open.
            Err(RunError::Tenant(error @ TenantError::Refused { .. })) if !open => {
                if let Some(tenant) = self.slots[slot].take() {
                    note_end(run, tenant, &error).await?;
                }
                return Ok(());
            }
            // One that has died meanwhile has closed it too.
            Err(RunError::Tenant(TenantError::Ended { .. })) if !open => return Ok(()),
            answer => answer?,
        };
        match answer {
            FromTenant::Opened { facts } if open => {
                if is_program {
                    // It tells nothing of the device, and is asked nothing.
                    return Ok(());
                }
                // Under a mechanism a tenant may see a part of the device.
                if self.config.mechanism.is_none() {
                    crate::device::identity::complete(&mut run.setup.identity, &facts);
                }
                self.observations[slot].facts = facts;
                self.question(run, slot).await
            }
            FromTenant::Closed if !open => Ok(()),
            other => Err(self.unexpected(slot, &other)),
        }
    }

    /// Closes every context.
    pub async fn close(&mut self, run: &mut Run) -> Result<(), RunError> {
        for slot in 0..self.slots.len() {
            self.set_open(run, slot, false).await?;
        }
        Ok(())
    }

    /// Sends a message to a place and waits for the answer. A tenant that ends is noted and its
    /// place is empty from then on.
    pub async fn ask(
        &mut self,
        run: &mut Run,
        slot: usize,
        message: &ToTenant,
        doing: &'static str,
        limit: Duration,
    ) -> Result<FromTenant, RunError> {
        let Some(mut tenant) = self.slots[slot].take() else {
            let ended = TenantError::Ended {
                tenant: name_of(slot),
                how: "before it was asked".to_owned(),
            };
            return Err(ended.into());
        };
        let participants = tenant.participants();
        run.setup.clock.expect(participants.issuer)?;
        let mut stop = run.stop.clone();
        let answer = match tenant.send(message).await {
            Ok(()) => tokio::select! {
                answer = tenant.receive(doing, limit) => answer,
                true = stopped(&mut stop) => {
                    let error = TenantError::Ended {
                        tenant: name_of(slot),
                        how: "stopped by the coordinator when the user wanted an end".to_owned(),
                    };
                    tenant.kill().await;
                    note_end(run, tenant, &error).await?;
                    return Err(RunError::Interrupted);
                }
            },
            Err(error) => Err(error),
        };
        // One that answered without touching the device never joined.
        run.setup.clock.abandon(participants)?;
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
                note_end(run, tenant, &error).await?;
                Err(error.into())
            }
        }
    }

    pub fn unexpected(&self, slot: usize, answer: &FromTenant) -> RunError {
        match &self.slots[slot] {
            Some(tenant) => tenant.unexpected(answer).into(),
            None => RunError::Clock(format!("{} is gone", name_of(slot))),
        }
    }

    /// Takes the tenants of a cell out, to wait for all of them at the same time.
    pub fn take_slots(&mut self, slots: &[usize]) -> Vec<(usize, Tenant)> {
        slots
            .iter()
            .filter_map(|&slot| Some((slot, self.slots[slot].take()?)))
            .collect()
    }

    /// Puts a tenant back in its place.
    pub fn put_back(&mut self, slot: usize, tenant: Tenant) {
        self.slots[slot] = Some(tenant);
    }

    /// Writes a tenant's answer to a start down and puts it back; why it is no answer, if it is
    /// none. Then the tenant has ended: even one that refuses and lives did not do what was asked,
    /// and a fresh process is the only one whose state is known.
    pub async fn record_answer(
        &mut self,
        run: &mut Run,
        slot: usize,
        tenant: Tenant,
        answer: Result<FromTenant, TenantError>,
        result: &mut TenantResult,
    ) -> Result<Option<TenantError>, RunError> {
        let error = match answer {
            Ok(FromTenant::Done {
                rows,
                unlogged,
                overloaded,
                sched,
            }) => {
                result.rows = rows;
                result.unlogged = unlogged;
                result.overloaded = overloaded;
                result.sched = Some(sched);
                self.put_back(slot, tenant);
                return Ok(None);
            }
            Ok(other) => tenant.unexpected(&other),
            Err(error) => error,
        };
        result.death = Some(note_end(run, tenant, &error).await?);
        Ok(Some(error))
    }

    /// Process ids of the tenants whose contexts are open; of a program of the user's those of its
    /// processes that are `listed`, or its own if none is.
    pub fn open_pids(&self, listed: &[u32]) -> Vec<u32> {
        let open = self.slots.iter().flatten().filter(|t| t.is_open());
        let pids = |tenant: &Tenant| match tenant.program() {
            None => vec![tenant.pid()],
            Some(program) => {
                let mut pids = tenant.program_pids();
                pids.retain(|pid| listed.contains(pid));
                if pids.is_empty() {
                    pids.push(program);
                }
                pids
            }
        };
        open.flat_map(pids).collect()
    }

    /// The processes of the program of the user's that is the victim, while it runs.
    pub fn program(&self) -> Option<Vec<u32>> {
        let tenant = self.slots.first()?.as_ref()?;
        tenant.program().map(|_| tenant.program_pids())
    }

    /// Ends every tenant.
    pub async fn dismiss(&mut self, run: &mut Run) -> Result<(), RunError> {
        self.dismiss_outsider(run).await?;
        for slot in 0..self.slots.len() {
            if let Some(mut tenant) = self.slots[slot].take() {
                stop(run, &mut tenant).await?;
            }
        }
        run.setup.clock.reap()
    }
}

/// Stops a tenant and writes down how it ended.
pub(super) async fn stop(run: &mut Run, tenant: &mut Tenant) -> Result<(), RunError> {
    let (name, pid) = (tenant.name().to_owned(), tenant.pid());
    let reason = tenant.stop().await;
    run.events.append(&RunEvent::TenantEnded {
        tenant: name,
        pid,
        reason,
    })?;
    Ok(())
}

/// The program of the user's that is to be started in a place.
fn user_victim(run: &Run, slot: usize) -> Option<UserVictim> {
    run.setup.plan.foreign.clone().filter(|_| slot == 0)
}

/// Writes down the end of a tenant and takes back what it held.
pub async fn note_end(
    run: &mut Run,
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
    run.events.append(&RunEvent::TenantEnded {
        tenant: tenant.name().to_owned(),
        pid: tenant.pid(),
        reason: how.clone(),
    })?;
    run.setup.clock.abandon(tenant.participants())?;
    run.setup.clock.reap()?;
    Ok(how)
}

/// Waits until the user wants an end; false if nobody can want one any more.
async fn stopped(stop: &mut tokio::sync::watch::Receiver<bool>) -> bool {
    stop.wait_for(|wanted| *wanted).await.is_ok()
}
