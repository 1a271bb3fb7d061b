//! Probes: under each mechanism, single questions to its tenants whose answer is no rate. They
//! come after all cells, so that what they do to memory reaches no cell, and only when they are
//! asked for.
//!
//! Each begins with contexts that were just opened, so that a tenant has nothing but its context.
//! What it finds is written down as it is; `score` says what it means.

mod calls;
mod concurrent;
mod enforce;
mod escape;
mod exhaust;
mod latency;
mod limit_bypass;
mod memory;
mod share;
mod sm_placement;
mod time_slice_trace;
mod windows;

use std::time::Duration;

use gpubench_record::{
    Cell, FromTenant, ProbeAsk, ProbeFound, ProbeResult, ProbeTold, RunEvent, ToTenant,
};

use super::host_session::HostSession;
use super::tenant_set::TenantSet;
use super::{Observer, Run, RunError};
use crate::catalogue::REFERENCE;
use memory::ReleasedBy;
use share::FullDeviceBaseline;

/// Longest wait for one step.
const STEP: Duration = Duration::from_secs(300);

/// The victim's place, and that of the neighbour that owns what is looked for.
const VICTIM: usize = 0;
const NEIGHBOUR: usize = 1;

/// What is asked under each mechanism, in this order.
const PROBES: [Probe; 13] = [
    Probe::Capacity,
    Probe::Cap,
    Probe::Exhaust,
    Probe::Residue(ReleasedBy::Freed),
    Probe::Residue(ReleasedBy::Context),
    Probe::Visibility,
    Probe::TimeSliceTrace,
    Probe::SmPlacement,
    Probe::Share,
    Probe::Enforce,
    Probe::Launch,
    Probe::Calls,
    Probe::Escape,
];

#[derive(Debug, Clone, Copy)]
enum Probe {
    Capacity,
    Cap,
    Exhaust,
    Residue(ReleasedBy),
    Visibility,
    TimeSliceTrace,
    SmPlacement,
    Share,
    Enforce,
    Launch,
    Calls,
    Escape,
}

impl Probe {
    /// As `catalogue::probes` has it.
    const fn name(self) -> &'static str {
        match self {
            Self::Capacity => "capacity",
            Self::Cap => "cap",
            Self::Exhaust => "out-of-memory",
            Self::Residue(_) => "residue",
            Self::Visibility => "visibility",
            Self::TimeSliceTrace => "time-slice-trace",
            Self::SmPlacement => "sm-placement",
            Self::Share => "share",
            Self::Enforce => "enforcement",
            Self::Launch => "launch-latency",
            Self::Calls => "driver-calls",
            Self::Escape => "escape",
        }
    }

    /// Whether the user asked for it.
    fn is_wanted(self, run: &Run) -> bool {
        match self {
            Self::Escape => run.setup.escape,
            _ => run.setup.probes,
        }
    }
}

/// Probes every mechanism of the plan that has neighbours. The reference gives the baseline.
pub async fn campaign(
    run: &mut Run,
    session: &mut HostSession,
    observer: &mut dyn Observer,
) -> Result<(), RunError> {
    observer.stage("probing the device alone");
    let baseline = baseline(run, session).await?;
    for planned in run.setup.plan.mechanisms.clone() {
        if planned.properties.is_reference() || planned.properties.admits_one_tenant() {
            continue;
        }
        let cells = &run.setup.plan.cells;
        let own = |cell: &&Cell| cell.variant == planned.variant;
        let Some(cell) = cells.iter().find(own).cloned() else {
            continue;
        };
        observer.stage(&format!("probing {}", planned.variant));
        for probe in PROBES {
            if !probe.is_wanted(run) {
                continue;
            }
            if *run.stop.borrow() {
                return Err(RunError::Interrupted);
            }
            // A mechanism that could not be set up has its row, which says why.
            let Ok(tenants) = session.ready(run, &cell).await? else {
                break;
            };
            let found = one(run, tenants, &baseline, probe).await;
            let found = unless_broken(found, probe.name())?;
            let variant = planned.variant.clone();
            let result = ProbeResult { variant, found };
            run.events.append(&RunEvent::Probed { result })?;
            tenants.close(run).await?;
        }
    }
    Ok(())
}

/// What the device does alone, which shares are held against; or why nobody could find it out.
async fn baseline(
    run: &mut Run,
    session: &mut HostSession,
) -> Result<Result<FullDeviceBaseline, String>, RunError> {
    let mut cells = run.setup.plan.cells.iter();
    let Some(cell) = cells.find(|cell| cell.variant == REFERENCE).cloned() else {
        return Ok(Err("the plan has no cell on the device alone".to_owned()));
    };
    let tenants = match session.ready(run, &cell).await? {
        Ok(tenants) => tenants,
        Err(reason) => return Ok(Err(reason)),
    };
    let found = share::baseline(run, tenants).await;
    tenants.close(run).await?;
    match found {
        Ok((baseline, found)) => {
            let variant = REFERENCE.to_owned();
            let result = ProbeResult { variant, found };
            run.events.append(&RunEvent::Probed { result })?;
            Ok(Ok(baseline))
        }
        Err(RunError::Tenant(error)) => Ok(Err(error.to_string())),
        Err(other) => Err(other),
    }
}

/// What a tenant could not do is a finding; everything else ends the run.
fn unless_broken(found: Result<ProbeFound, RunError>, probe: &str) -> Result<ProbeFound, RunError> {
    match found {
        Err(RunError::Tenant(error)) => Ok(broken(probe, error.to_string())),
        other => other,
    }
}

fn broken(probe: &str, reason: String) -> ProbeFound {
    ProbeFound::Broken {
        sub_axis: probe.to_owned(),
        reason,
    }
}

async fn one(
    run: &mut Run,
    tenants: &mut TenantSet,
    baseline: &Result<FullDeviceBaseline, String>,
    probe: Probe,
) -> Result<ProbeFound, RunError> {
    if run.setup.plan.tenants < 2 {
        let reason = "the plan has no neighbour: two tenants are needed";
        return Ok(broken(probe.name(), reason.to_owned()));
    }
    tenants.close(run).await?;
    let with = |reason: &String| Ok(broken(probe.name(), format!("no baseline: {reason}")));
    match (probe, baseline) {
        (Probe::Capacity, _) => memory::capacity(run, tenants).await,
        (Probe::Cap, _) => memory::cap(run, tenants).await,
        (Probe::Exhaust, _) => exhaust::exhaust(run, tenants).await,
        (Probe::Residue(released_by), _) => memory::residue(run, tenants, released_by).await,
        (Probe::Visibility, _) => memory::visibility(run, tenants).await,
        (Probe::TimeSliceTrace, _) => time_slice_trace::time_slice_trace(run, tenants).await,
        (Probe::SmPlacement, _) => sm_placement::sm_placement(run, tenants).await,
        (Probe::Share, Ok(baseline)) => share::share(run, tenants, baseline).await,
        (Probe::Enforce, Ok(baseline)) => enforce::enforce(run, tenants, baseline).await,
        (Probe::Launch, Ok(baseline)) => latency::launches(run, tenants, baseline).await,
        (Probe::Calls, Ok(baseline)) => calls::calls(run, tenants, baseline).await,
        (Probe::Escape, Ok(baseline)) => escape::escape(run, tenants, baseline).await,
        (_, Err(reason)) => with(reason),
    }
}

/// Has only the victim, in a process that has just been started: no limiter remembers anything of
/// it.
async fn fresh(run: &mut Run, tenants: &mut TenantSet) -> Result<(), RunError> {
    tenants.close(run).await?;
    tenants.renew(run, VICTIM).await?;
    tenants.ensure(run).await?;
    tenants.open_only(run, VICTIM).await
}

async fn step(
    run: &mut Run,
    tenants: &mut TenantSet,
    slot: usize,
    ask: ProbeAsk,
) -> Result<ProbeTold, RunError> {
    let message = ToTenant::Probe { ask };
    match tenants.ask(run, slot, &message, "probing", STEP).await? {
        FromTenant::Probed { told } => Ok(told),
        other => Err(tenants.unexpected(slot, &other)),
    }
}

fn unexpected(tenants: &TenantSet, slot: usize, told: ProbeTold) -> RunError {
    tenants.unexpected(slot, &FromTenant::Probed { told })
}

#[cfg(test)]
mod tests {
    use super::PROBES;
    use crate::catalogue::probes::CATALOGUE;

    #[test]
    fn every_probe_of_the_catalogue_is_asked_in_its_order() {
        let mut asked: Vec<&str> = PROBES.iter().map(|probe| probe.name()).collect();
        asked.dedup();
        let known: Vec<&str> = CATALOGUE.iter().map(|entry| entry.name).collect();
        assert_eq!(asked, known);
    }
}
