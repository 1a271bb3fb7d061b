//! Probes: under each mechanism, checks of its tenants that do not produce a throughput. They run
//! after all cells, so that what they do to memory reaches no cell, and only on request.
//!
//! Each begins with contexts that were just opened, so that a tenant has nothing but its context.
//! Findings are written as they are; `score` says what they mean.

mod calls;
mod concurrent;
mod enforce;
mod escape;
mod exhaust;
mod latency;
mod limit_bypass;
mod memory;
mod memory_limit;
mod share;
mod sm_placement;
mod time_slice_trace;
mod windows;

use std::time::Duration;

use gpubench_record::{
    Cell, FromTenant, ProbeAsk, ProbeFound, ProbeResult, ProbeTold, RunEvent, ToTenant,
};

use super::host_session::{HostSession, Under};
use super::ledger::MechanismLedger;
use super::tenant_set::TenantSet;
use super::{Observer, RunError, RunHandles, RunPhase, Setup};
use memory::ReleasedBy;
use share::FullDeviceBaseline;

/// Longest wait for one step.
const STEP: Duration = Duration::from_secs(300);

/// The victim's slot, and that of the neighbour that owns the memory that is looked for.
const VICTIM: usize = 0;
const NEIGHBOUR: usize = 1;

/// The probes of each mechanism, in this order.
const PROBES: &[Probe] = &[
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
    /// Its name in `catalogue::probes`.
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
    const fn is_wanted(self, setup: &Setup) -> bool {
        match self {
            Self::Escape => setup.escape,
            _ => setup.probes,
        }
    }
}

/// Probes every mechanism of the plan that has neighbours. The reference gives the full-device
/// baseline.
pub async fn campaign(
    handles: &RunHandles,
    session: &mut HostSession,
    ledger: &mut MechanismLedger,
    observer: &mut dyn Observer,
) -> Result<(), RunError> {
    let setup = &handles.setup;
    observer.phase(&RunPhase::ProbingDevice);
    let baseline = baseline(handles, session, ledger).await?;
    for planned in &setup.plan.mechanisms {
        if planned.properties.is_reference() || planned.properties.admits_one_tenant() {
            continue;
        }
        let own = |cell: &&Cell| cell.variant == planned.variant;
        let Some(cell) = setup.plan.cells.iter().find(own) else {
            continue;
        };
        observer.phase(&RunPhase::Probing(planned.variant.clone()));
        for &probe in PROBES {
            if !probe.is_wanted(setup) {
                continue;
            }
            if handles.waits.is_stopped() {
                return Err(RunError::Interrupted);
            }
            // A mechanism that could not be set up has its row, which says why.
            let Ok(tenants) = session.ready(&Under::from(cell), ledger).await? else {
                break;
            };
            let found = one(tenants, &baseline, probe).await;
            let found = unless_broken(found, probe.name())?;
            let variant = planned.variant.clone();
            let result = ProbeResult { variant, found };
            handles.recorder.event(&RunEvent::Probed { result })?;
            tenants.close().await?;
        }
    }
    Ok(())
}

/// What the device does without a mechanism, with which shares are compared; or why it is unknown.
async fn baseline(
    handles: &RunHandles,
    session: &mut HostSession,
    ledger: &mut MechanismLedger,
) -> Result<Result<FullDeviceBaseline, String>, RunError> {
    let mut cells = handles.setup.plan.cells.iter();
    let Some(cell) = cells.find(|cell| cell.condition.is_native()) else {
        return Ok(Err("the plan has no cell on the device alone".to_owned()));
    };
    let tenants = match session.ready(&Under::from(cell), ledger).await? {
        Ok(tenants) => tenants,
        Err(reason) => return Ok(Err(reason)),
    };
    let found = share::baseline(tenants).await;
    tenants.close().await?;
    match found {
        Ok((baseline, found)) => {
            let variant = cell.variant.clone();
            let result = ProbeResult { variant, found };
            handles.recorder.event(&RunEvent::Probed { result })?;
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
    tenants: &mut TenantSet,
    baseline: &Result<FullDeviceBaseline, String>,
    probe: Probe,
) -> Result<ProbeFound, RunError> {
    if tenants.handles().setup.plan.tenants < 2 {
        let reason = "the plan has no neighbour: two tenants are needed";
        return Ok(broken(probe.name(), reason.to_owned()));
    }
    tenants.close().await?;
    let with = |reason: &String| {
        Ok(broken(
            probe.name(),
            format!("no full-device baseline: {reason}"),
        ))
    };
    match (probe, baseline) {
        (Probe::Capacity, _) => memory::capacity(tenants).await,
        (Probe::Cap, _) => memory::cap(tenants).await,
        (Probe::Exhaust, _) => exhaust::exhaust(tenants).await,
        (Probe::Residue(released_by), _) => memory::residue(tenants, released_by).await,
        (Probe::Visibility, _) => memory::visibility(tenants).await,
        (Probe::TimeSliceTrace, _) => time_slice_trace::time_slice_trace(tenants).await,
        (Probe::SmPlacement, _) => sm_placement::sm_placement(tenants).await,
        (Probe::Share, Ok(baseline)) => share::share(tenants, baseline).await,
        (Probe::Enforce, Ok(baseline)) => enforce::enforce(tenants, baseline).await,
        (Probe::Launch, Ok(baseline)) => latency::launches(tenants, baseline).await,
        (Probe::Calls, Ok(baseline)) => calls::calls(tenants, baseline).await,
        (Probe::Escape, Ok(baseline)) => escape::escape(tenants, baseline).await,
        (_, Err(reason)) => with(reason),
    }
}

/// Leaves only the victim, in a process that has just been started: no limiter has a history of it.
async fn fresh(tenants: &mut TenantSet) -> Result<(), RunError> {
    tenants.close().await?;
    tenants.renew(VICTIM).await?;
    tenants.ensure().await?;
    tenants.open_only(VICTIM).await
}

async fn step(tenants: &mut TenantSet, slot: usize, ask: ProbeAsk) -> Result<ProbeTold, RunError> {
    let message = ToTenant::Probe { ask };
    match tenants.ask(slot, &message, "probing", STEP).await? {
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
    fn every_probe_of_the_catalogue_runs_in_its_order() {
        let mut asked: Vec<&str> = PROBES.iter().map(|probe| probe.name()).collect();
        asked.dedup();
        let known: Vec<&str> = CATALOGUE.iter().map(|entry| entry.name).collect();
        assert_eq!(asked, known);
    }
}
