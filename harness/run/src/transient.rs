//! The event of a cell: what the coordinator does to the last neighbour at the instant, and the new
//! process that a restarted neighbour is.

use std::time::Duration;

use gpubench_host::tenant::{Tenant, TenantError};
use gpubench_record::{Cell, Event, EventObserved, FromTenant, ToTenant};

use super::fault_scheduler::{FAULT_SCHEDULER, FaultScheduler, HostAction, ScheduledAction};
use super::observe::Before;
use super::tenant_set::{TenantSet, stop};
use super::{RunError, RunHandles};

/// The new process begins this long after the kill, and asks again after as long.
const RESTART_NS: u64 = 1_000_000;

/// The event of a cell that is about to start.
pub struct Happening {
    event: Option<Event>,
    /// Process of the last neighbour.
    pid: Option<u32>,
    successor: Option<Tenant>,
    pub before: Option<Before>,
}

/// What runs beside the tenants.
pub struct Running {
    event: Option<Event>,
    at_ns: u64,
    t0_ns: u64,
    scheduler: Option<FaultScheduler>,
    successor: Option<tokio::task::JoinHandle<(Tenant, Option<Answer>)>>,
}

type Answer = Result<FromTenant, TenantError>;

impl Happening {
    /// Starts the process of a restarted neighbour, which does not touch the device yet.
    pub async fn prepare(tenants: &TenantSet, cell: &Cell) -> Result<Self, RunError> {
        let event = cell.shape.event;
        let pid = tenants.pid(cell.tenants.len() - 1);
        let successor = match event {
            Some(Event::Restart) => Some(tenants.start_auxiliary("restarted", 0).await?),
            _ => None,
        };
        let before = event.filter(|event| event.kills()).map(|_| Before::of(tenants));
        Ok(Self { event, pid, successor, before })
    }

    /// Its participants of the clock.
    pub fn participants(&self) -> impl Iterator<Item = u32> + use<> {
        let kills = self.event.is_some_and(Event::kills).then_some(FAULT_SCHEDULER);
        let successor = self.successor.as_ref().map(|one| one.participants().issuer);
        kills.into_iter().chain(successor)
    }

    /// Has it happen `at_ns` after the start of the cell, which ends after `length_ns`.
    pub async fn start(
        self,
        handles: &RunHandles,
        [t0_ns, at_ns, length_ns]: [u64; 3],
        limit: Duration,
    ) -> Result<Running, RunError> {
        let clock = &handles.setup.clock;
        let kill =
            |pid| ScheduledAction { at_ns: t0_ns + at_ns, action: HostAction::KillTenant { pid } };
        let scheduler = match self.pid.filter(|_| self.event.is_some_and(Event::kills)) {
            Some(pid) => Some(FaultScheduler::start(clock, kill(pid))?),
            None => None,
        };
        let successor = self.successor.map(|mut tenant| {
            let waits = handles.waits.clone();
            let message = ToTenant::AcquireDevice {
                ordinal: 0,
                participants: tenant.participants(),
                from_ns: t0_ns + at_ns + RESTART_NS,
                every_ns: RESTART_NS,
                limit_ns: length_ns.saturating_sub(at_ns + RESTART_NS),
            };
            tokio::spawn(async move {
                let doing = "starting again";
                let answer = waits.answer(&mut tenant, Some(&message), doing, limit).await;
                (tenant, answer)
            })
        });
        Ok(Running { event: self.event, at_ns, t0_ns, scheduler, successor })
    }
}

impl Running {
    /// Waits for its end; `None` in a cell without an event.
    pub async fn finish(self, handles: &RunHandles) -> Result<Option<EventObserved>, RunError> {
        if self.event.is_none() {
            return Ok(None);
        }
        let mut observed = EventObserved { at_ns: Some(self.at_ns), ..EventObserved::default() };
        if let Some(scheduler) = self.scheduler {
            let acted = tokio::select! {
                acted = scheduler.finish() => acted,
                () = handles.waits.grace_is_over() => Ok(None),
            };
            match acted {
                Ok(at_ns) => observed.at_ns = at_ns.map(|ns| ns.saturating_sub(self.t0_ns)),
                Err(text) => observed.failure = Some(text),
            }
        }
        if let Some(successor) = self.successor {
            let lost = |error| RunError::Bug(format!("waiting for a restarted tenant: {error}"));
            let (mut tenant, answer) = successor.await.map_err(lost)?;
            match answer {
                Some(Ok(FromTenant::DeviceAcquired { accepted_after_ns: Some(ns), .. })) => {
                    observed.restarted_after_ns = Some(ns + RESTART_NS);
                }
                Some(Ok(FromTenant::DeviceAcquired { refused_with, .. })) => {
                    let code = refused_with.unwrap_or_default();
                    let text = "the restarted neighbour got no context within the window";
                    observed.failure = Some(format!("{text} (CUresult {code})"));
                }
                Some(Ok(other)) => observed.failure = Some(tenant.unexpected(&other).to_string()),
                Some(Err(error)) => observed.failure = Some(error.to_string()),
                None => {}
            }
            stop(handles, &mut tenant).await?;
            handles.abandon(tenant.participants()).await?;
            handles.reap().await?;
        }
        Ok(Some(observed))
    }
}
