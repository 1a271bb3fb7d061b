//! The tenants of a run: who they are, which contexts are open, and fresh ones for those that died.

mod stranger;
mod told;

use std::time::Duration;

use gpubench_record::foreign::ForeignVictim;
use gpubench_record::wire::{Inside, Participants};
use gpubench_record::{Condition, FromTenant, RunEvent, TenantResult, ToTenant};

use super::{Run, RunError};
use crate::mechanism::control_groups;
use crate::mechanism::{InForce, Mechanism, Questions, TenantEnv, TenantSeen};
use crate::tenant::{Farewell, SpawnError, Tenant, TenantError};
pub use stranger::ask_guest;

/// Longest wait for a context to open or close.
const CONTEXT: Duration = Duration::from_secs(60);

/// How much longer a program of the user's is waited for than it may take to be ready: the tenant
/// that starts it says itself when that was too long.
const PROGRAM_MORE: Duration = Duration::from_secs(30);

/// Number of the clock participant that samples counters.
pub const SAMPLER: u32 = 0;

/// Number of the clock participant that kills and stops tenants.
pub const HANGMAN: u32 = 1;

/// The victim and its neighbours, in order; a place is empty after a death.
pub struct Crew {
    places: Vec<Option<Tenant>>,
    /// What each of them told since it was started.
    told: Vec<TenantSeen>,
    /// Who asked in vain beside the victim's context, and what the answer was.
    knocks: Vec<(String, Option<i32>)>,
    /// Somebody who is none of them, where the mechanism is to keep everybody else out.
    stranger: Option<Tenant>,
    terms: Terms,
}

/// Under what these tenants are.
pub struct Terms {
    /// The mechanism; none for tenants that have the device as it is.
    pub mechanism: Option<&'static dyn Mechanism>,
    /// What was set up for it.
    pub set_up: InForce,
    /// Variables of the tenant in each place.
    pub environments: Vec<TenantEnv>,
    /// What they shall tell once their context is open.
    pub questions: Questions,
    /// What each has of the one process that they are threads of; empty for a process each.
    pub inside: Vec<Inside>,
    /// Whether the victim alone gets a context and everybody else asks for one in vain.
    pub turns_away: bool,
    /// Whether somebody who is none of them shall ask for a context while theirs are open.
    pub refuses_strangers: bool,
}

/// Name of the tenant in a place, as plans name it.
#[must_use]
pub fn name_of(place: usize) -> String {
    if place == 0 {
        "victim".to_owned()
    } else {
        format!("neighbour-{place}")
    }
}

/// The numbers under which the threads of a place join the clock.
pub fn participants_of(place: usize) -> Participants {
    let first = 2 * u32::try_from(place).unwrap_or(u32::MAX / 4) + 2;
    Participants {
        issuer: first,
        reaper: first + 1,
    }
}

impl Crew {
    /// Nobody yet, for as many places as there are environments.
    pub fn new(terms: Terms) -> Self {
        let count = terms.environments.len();
        Self {
            places: (0..count).map(|_| None).collect(),
            told: vec![TenantSeen::default(); count],
            knocks: Vec::new(),
            stranger: None,
            terms,
        }
    }

    /// Under what they are.
    pub const fn terms(&self) -> &Terms {
        &self.terms
    }

    /// Starts whoever is missing.
    pub async fn ensure(&mut self, run: &mut Run) -> Result<(), RunError> {
        if !self.terms.inside.is_empty() {
            return self.ensure_together(run).await;
        }
        for place in 0..self.places.len() {
            if self.places[place].is_some() {
                continue;
            }
            let name = name_of(place);
            let spawner = run.setup.spawner.clone();
            let extra = &self.terms.environments[place];
            let who = participants_of(place);
            let mut tenant = match foreign(run, place) {
                Some(program) => spawner.spawn_foreign(&name, who, extra, &program).await?,
                None => spawner.spawn(&name, who, extra).await?,
            };
            self.enlist(place, &tenant)?;
            if self.terms.set_up.daemon.is_some() {
                let set_up = self.terms.set_up.clone();
                tenant.on_kill(Farewell::new(move |pid| set_up.before_kill(pid)));
            }
            self.settle(run, place, tenant)?;
        }
        Ok(())
    }

    /// Puts a process into the control group of a place, if there is one, before it opens the
    /// device. What it starts later is in there too, and nothing in its environment gets it out.
    fn enlist(&self, place: usize, tenant: &Tenant) -> Result<(), RunError> {
        let groups = &self.terms.set_up.groups;
        let group = groups.get(place).or(groups.last());
        let Some(group) = group.filter(|_| self.terms.mechanism.is_some()) else {
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
        if self.places.iter().all(Option::is_some) {
            return Ok(());
        }
        self.dismiss(run).await?;
        let who: Vec<_> = (0..self.places.len())
            .map(|place| (name_of(place), participants_of(place)))
            .collect();
        let spawner = run.setup.spawner.clone();
        let started = spawner.spawn_together(&who, &self.terms.environments[0]);
        for (place, tenant) in started.await?.into_iter().enumerate() {
            self.settle(run, place, tenant)?;
        }
        Ok(())
    }

    /// Writes down that a tenant was started, and gives it its place.
    fn settle(&mut self, run: &mut Run, place: usize, tenant: Tenant) -> Result<(), RunError> {
        self.told[place] = TenantSeen {
            place,
            pid: tenant.pid(),
            ..TenantSeen::default()
        };
        run.started(tenant.name(), tenant.pid())?;
        self.places[place] = Some(tenant);
        Ok(())
    }

    /// Ends the tenant of a place, so that the next is a fresh process.
    pub async fn renew(&mut self, run: &mut Run, place: usize) -> Result<(), RunError> {
        let Some(mut tenant) = self.places[place].take() else {
            return Ok(());
        };
        stop(run, &mut tenant).await?;
        run.setup.clock.bury()
    }

    /// Starts a fresh tenant in a place with other variables than its terms; `renew` undoes that.
    pub async fn replace(
        &mut self,
        run: &mut Run,
        place: usize,
        variables: &TenantEnv,
    ) -> Result<(), RunError> {
        self.renew(run, place).await?;
        let spawner = run.setup.spawner.clone();
        let who = participants_of(place);
        let tenant = spawner.spawn(&name_of(place), who, variables).await?;
        self.enlist(place, &tenant)?;
        self.settle(run, place, tenant)
    }

    /// Starts one more process than there are places, on the terms of the last of them. Guests that
    /// are there together have different numbers.
    pub async fn guest(
        &self,
        run: &mut Run,
        name: &str,
        number: usize,
    ) -> Result<Tenant, RunError> {
        let place = self.places.len() + number;
        let terms = self.terms.environments.last().cloned().unwrap_or_default();
        let spawner = run.setup.spawner.clone();
        let tenant = spawner.spawn(name, participants_of(place), &terms).await?;
        self.enlist(place, &tenant)?;
        run.started(name, tenant.pid())?;
        Ok(tenant)
    }

    /// Opens and closes contexts as a condition wants them: native cells have the victim's alone.
    pub async fn arrange(&mut self, run: &mut Run, condition: Condition) -> Result<(), RunError> {
        self.ensure(run).await?;
        if self.terms.turns_away {
            return self.knock(run).await;
        }
        for place in 0..self.places.len() {
            let wanted = place == 0 || !condition.is_native();
            self.set_open(run, place, wanted).await?;
        }
        if self.terms.refuses_strangers && !condition.is_native() {
            self.ask_stranger(run).await?;
        }
        Ok(())
    }

    /// Opens exactly one place's context.
    pub async fn open_only(&mut self, run: &mut Run, place: usize) -> Result<(), RunError> {
        for other in 0..self.places.len() {
            if other != place {
                self.set_open(run, other, false).await?;
            }
        }
        self.set_open(run, place, true).await
    }

    async fn set_open(&mut self, run: &mut Run, place: usize, open: bool) -> Result<(), RunError> {
        let Some(tenant) = &self.places[place] else {
            return Ok(());
        };
        if tenant.is_open() == open {
            return Ok(());
        }
        let participants = tenant.participants();
        // The victim's completions are what is measured, so it spins for them; neighbours block,
        // or they would burn the victim's processor.
        let spin = place == 0;
        let message = if open {
            ToTenant::Open {
                ordinal: 0,
                spin,
                participants,
                inside: self.terms.inside.get(place).copied(),
            }
        } else {
            ToTenant::Close
        };
        let doing = "opening or closing its context";
        let program = foreign(run, place);
        let is_program = program.is_some();
        let limit = program.map_or(CONTEXT, |program| {
            Duration::from_nanos(program.ready_ns) + PROGRAM_MORE
        });
        let answer = match self.ask(run, place, &message, doing, limit).await {
            // What cannot be closed cannot be used again, and its process holds it open.
            Err(RunError::Tenant(error @ TenantError::Refused { .. })) if !open => {
                if let Some(tenant) = self.places[place].take() {
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
                if self.terms.mechanism.is_none() {
                    crate::device::identity::complete(&mut run.setup.identity, &facts);
                }
                self.told[place].facts = facts;
                self.question(run, place).await
            }
            FromTenant::Closed if !open => Ok(()),
            other => Err(self.unexpected(place, &other)),
        }
    }

    /// Closes every context.
    pub async fn close(&mut self, run: &mut Run) -> Result<(), RunError> {
        for place in 0..self.places.len() {
            self.set_open(run, place, false).await?;
        }
        Ok(())
    }

    /// Sends a message to a place and waits for the answer. A tenant that ends is noted and its
    /// place is empty from then on.
    pub async fn ask(
        &mut self,
        run: &mut Run,
        place: usize,
        message: &ToTenant,
        doing: &'static str,
        limit: Duration,
    ) -> Result<FromTenant, RunError> {
        let Some(mut tenant) = self.places[place].take() else {
            let ended = TenantError::Ended {
                tenant: name_of(place),
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
                        tenant: name_of(place),
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
                self.places[place] = Some(tenant);
                Ok(answer)
            }
            Err(error @ TenantError::Refused { .. }) => {
                self.places[place] = Some(tenant);
                Err(error.into())
            }
            Err(error) => {
                note_end(run, tenant, &error).await?;
                Err(error.into())
            }
        }
    }

    pub fn unexpected(&self, place: usize, answer: &FromTenant) -> RunError {
        match &self.places[place] {
            Some(tenant) => tenant.unexpected(answer).into(),
            None => RunError::Clock(format!("{} is gone", name_of(place))),
        }
    }

    /// Takes the tenants of a cell out, to wait for all of them at the same time.
    pub fn take(&mut self, places: &[usize]) -> Vec<(usize, Tenant)> {
        places
            .iter()
            .filter_map(|&place| Some((place, self.places[place].take()?)))
            .collect()
    }

    /// Puts a tenant back in its place.
    pub fn put_back(&mut self, place: usize, tenant: Tenant) {
        self.places[place] = Some(tenant);
    }

    /// Writes a tenant's answer to a start down and puts it back; why it is no answer, if it is
    /// none. Then the tenant has ended: even one that refuses and lives did not do what was asked,
    /// and a fresh process is the only one whose state is known.
    pub async fn take_down(
        &mut self,
        run: &mut Run,
        place: usize,
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
                self.put_back(place, tenant);
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
        let open = self.places.iter().flatten().filter(|t| t.is_open());
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
        let tenant = self.places.first()?.as_ref()?;
        tenant.program().map(|_| tenant.program_pids())
    }

    /// Ends every tenant.
    pub async fn dismiss(&mut self, run: &mut Run) -> Result<(), RunError> {
        self.dismiss_stranger(run).await?;
        for place in 0..self.places.len() {
            if let Some(mut tenant) = self.places[place].take() {
                stop(run, &mut tenant).await?;
            }
        }
        run.setup.clock.bury()
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
fn foreign(run: &Run, place: usize) -> Option<ForeignVictim> {
    run.setup.plan.foreign.clone().filter(|_| place == 0)
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
    run.setup.clock.bury()?;
    Ok(how)
}

/// Waits until the user wants an end; false if nobody can want one any more.
async fn stopped(stop: &mut tokio::sync::watch::Receiver<bool>) -> bool {
    stop.wait_for(|wanted| *wanted).await.is_ok()
}
