//! The tenants of a run: who they are, which contexts are open, and fresh ones for those that died.

use std::time::Duration;

use gpubench_record::wire::Participants;
use gpubench_record::{Condition, FromTenant, RunEvent, ToTenant};

use super::{Run, RunError, Setup};
use crate::tenant::{Tenant, TenantError};

/// Longest wait for a context to open or close.
const CONTEXT: Duration = Duration::from_secs(60);

/// Number of the clock participant that samples counters.
pub const SAMPLER: u32 = 0;

/// The victim and its neighbours, in order; a place is empty after a death.
pub struct Crew {
    places: Vec<Option<Tenant>>,
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
    pub fn new(setup: &Setup) -> Self {
        let places = (0..setup.plan.tenants.max(1)).map(|_| None).collect();
        Self { places }
    }

    /// Starts whoever is missing.
    pub async fn ensure(&mut self, run: &mut Run) -> Result<(), RunError> {
        for place in 0..self.places.len() {
            if self.places[place].is_some() {
                continue;
            }
            let name = name_of(place);
            let spawner = run.setup.spawner.clone();
            let extra = std::collections::BTreeMap::new();
            let tenant = spawner.spawn(&name, participants_of(place), &extra).await?;
            run.events.append(&RunEvent::TenantStarted {
                tenant: name,
                pid: tenant.pid(),
            })?;
            self.places[place] = Some(tenant);
        }
        Ok(())
    }

    /// Opens and closes contexts as a condition wants them: native cells have the victim's alone.
    pub async fn arrange(&mut self, run: &mut Run, condition: Condition) -> Result<(), RunError> {
        self.ensure(run).await?;
        for place in 0..self.places.len() {
            let wanted = place == 0 || !condition.is_native();
            self.set_open(run, place, wanted).await?;
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
            }
        } else {
            ToTenant::Close
        };
        match self
            .ask(
                run,
                place,
                &message,
                "opening or closing its context",
                CONTEXT,
            )
            .await?
        {
            FromTenant::Opened { facts } if open => {
                crate::device::identity::complete(&mut run.setup.identity, &facts);
                Ok(())
            }
            FromTenant::Closed if !open => Ok(()),
            other => Err(self.unexpected(place, &other)),
        }
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

    /// Process ids of the tenants whose contexts are open.
    pub fn open_pids(&self) -> Vec<u32> {
        self.places
            .iter()
            .flatten()
            .filter(|t| t.is_open())
            .map(Tenant::pid)
            .collect()
    }

    /// Ends every tenant.
    pub async fn dismiss(&mut self, run: &mut Run) -> Result<(), RunError> {
        for place in 0..self.places.len() {
            if let Some(mut tenant) = self.places[place].take() {
                let (name, pid) = (tenant.name().to_owned(), tenant.pid());
                let reason = tenant.stop().await;
                run.events.append(&RunEvent::TenantEnded {
                    tenant: name,
                    pid,
                    reason,
                })?;
            }
        }
        run.setup.clock.bury()
    }
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
