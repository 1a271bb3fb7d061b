//! Runs the planned probes after all cells, so that their use of memory affects no cell.

use gpubench_record::{Cell, ProbeFound, ProbeResult, RunEvent};

use super::baseline::{self, FullDeviceBaseline};
use super::{CATALOGUE, Probe, Run};
use crate::run::host_session::{HostSession, MechanismKey};
use crate::run::ledger::MechanismLedger;
use crate::run::tenant_set::TenantSet;
use crate::run::{Observer, RunError, RunHandles, RunPhase};

/// The full-device baseline, or why there is none.
type Baseline = Result<FullDeviceBaseline, String>;

/// Runs each probe under every mechanism of the plan that it applies to.
pub async fn campaign(
    handles: &RunHandles,
    session: &mut HostSession,
    ledger: &mut MechanismLedger,
    observer: &mut dyn Observer,
) -> Result<(), RunError> {
    let setup = &handles.setup;
    let all: Vec<&Probe> = CATALOGUE.iter().filter(|probe| probe.is_planned(&setup.plan)).collect();
    let baseline = if all.iter().any(|probe| probe.needs_baseline() && is_left(probe, handles)) {
        observer.phase(&RunPhase::ProbingDevice);
        full_device_baseline(handles, session, ledger).await?
    } else {
        Err("no probe needs it".to_owned())
    };
    for planned in &setup.plan.mechanisms {
        let applies = |probe: &&&Probe| (probe.applies_to)(&planned.properties);
        let probes: Vec<&Probe> = all.iter().filter(applies).copied().collect();
        let own = |cell: &&Cell| cell.variant == planned.variant;
        let Some(cell) = setup.plan.cells.iter().find(own) else {
            continue;
        };
        if probes.is_empty() {
            continue;
        }
        observer.phase(&RunPhase::Probing(planned.variant.clone()));
        let probes = probes.into_iter();
        let runs = probes.flat_map(|probe| {
            let done = setup.findings(&planned.variant, probe.name);
            probe.runs.iter().skip(done).map(move |run| (probe, run))
        });
        for (probe, run) in runs {
            if handles.waits.is_stopped() {
                return Err(RunError::Interrupted);
            }
            // A mechanism that could not be set up has its row, which says why.
            let Ok(tenants) = session.ready(&MechanismKey::from(cell), ledger).await? else {
                break;
            };
            let began_ns = handles.now_ns().await?;
            let found = match one(tenants, &baseline, run).await {
                // A failure of a tenant is a finding; every other error ends the run.
                Err(RunError::Tenant(error)) => Err(error.to_string()),
                found => found?,
            };
            let found = found.unwrap_or_else(|reason| ProbeFound::Broken {
                name: probe.name.to_owned(),
                reason,
            });
            tenants.close().await?;
            let took_ns = handles.now_ns().await?.saturating_sub(began_ns);
            write(handles, &planned.variant, Some(took_ns), found)?;
        }
    }
    Ok(())
}

/// Whether a run of a probe is left under a mechanism that it applies to.
fn is_left(probe: &Probe, handles: &RunHandles) -> bool {
    let setup = &handles.setup;
    setup.plan.mechanisms.iter().any(|planned| {
        (probe.applies_to)(&planned.properties)
            && setup.findings(&planned.variant, probe.name) < probe.runs.len()
    })
}

/// Does one run of a probe; returns why it cannot run where that is known before.
async fn one(
    tenants: &mut TenantSet,
    baseline: &Baseline,
    run: &Run,
) -> Result<Result<ProbeFound, String>, RunError> {
    if tenants.handles().setup.plan.tenants < 2 {
        let reason = "the plan has no neighbour: two tenants are needed";
        return Ok(Err(reason.to_owned()));
    }
    tenants.close().await?;
    match (run, baseline) {
        (Run::Tenants(run), _) => run(tenants).await.map(Ok),
        (Run::AgainstBaseline(run), Ok(baseline)) => run(tenants, baseline).await.map(Ok),
        (Run::AgainstBaseline(_), Err(reason)) => {
            Ok(Err(format!("no full-device baseline: {reason}")))
        }
    }
}

/// Measures the full-device baseline under the reference.
async fn full_device_baseline(
    handles: &RunHandles,
    session: &mut HostSession,
    ledger: &mut MechanismLedger,
) -> Result<Baseline, RunError> {
    let mut cells = handles.setup.plan.cells.iter();
    let Some(cell) = cells.find(|cell| cell.condition.is_native()) else {
        return Ok(Err("the plan has no native cell".to_owned()));
    };
    let tenants = match session.ready(&MechanismKey::from(cell), ledger).await? {
        Ok(tenants) => tenants,
        Err(reason) => return Ok(Err(reason)),
    };
    let found = baseline::measure(tenants).await;
    tenants.close().await?;
    match found {
        Ok((baseline, found)) => {
            write(handles, &cell.variant, None, found)?;
            Ok(Ok(baseline))
        }
        Err(RunError::Tenant(error)) => Ok(Err(error.to_string())),
        Err(other) => Err(other),
    }
}

fn write(
    handles: &RunHandles,
    variant: &str,
    took_ns: Option<u64>,
    found: ProbeFound,
) -> Result<(), RunError> {
    let result = ProbeResult { variant: variant.to_owned(), took_ns, found };
    Ok(handles.recorder.event(&RunEvent::Probed { result })?)
}
