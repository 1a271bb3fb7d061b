//! Calibration: what every workload of the plan is on this device, found once: natively, where a
//! tenant can have the whole device.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use gpubench_record::foreign::FOREIGN;
use gpubench_record::wire::WAIVED;
use gpubench_record::{Calibration, CalibrationEntry, FromTenant, Role, RunEvent, ToTenant};

use super::crew::Crew;
use super::{Run, RunError, peaks};
use crate::tenant::TenantError;

/// Longest wait for one workload.
const LIMIT: Duration = Duration::from_secs(300);
/// Tries on the wall clock, where a busy moment of the host can spoil one, and the pause in which
/// it may pass. Virtual time has none.
const TRIES_WALL: u32 = 10;
const PAUSE_WALL: Duration = Duration::from_millis(300);

/// Verifies and calibrates all victims in the victim's place and all aggressors in the first
/// neighbour's, each alone on the device. A victim keeps to this share of what it sees.
pub async fn calibrate(
    run: &mut Run,
    crew: &mut Crew,
    share: f64,
) -> Result<Calibration, RunError> {
    let cells = &run.setup.plan.cells;
    let trials = run.setup.plan.fault_trials.iter().map(|trial| &trial.cell);
    let victims: BTreeSet<String> = cells
        .iter()
        .chain(trials)
        .map(|cell| cell.victim.clone())
        .collect();
    let aggressors: BTreeSet<String> = cells
        .iter()
        .flat_map(|cell| &cell.tenants)
        .filter(|tenant| tenant.role == Role::Aggressor)
        .filter_map(|tenant| tenant.workload.clone())
        .collect();
    let mut entries = BTreeMap::new();
    let (mut peaks, mut waived) = (BTreeMap::new(), BTreeMap::new());
    for (place, names, share) in [(0, victims, share), (1, aggressors, 1.0)] {
        if names.is_empty() {
            continue;
        }
        crew.open_only(run, place).await?;
        // What a program of the user's computes is its own affair.
        if place != 0 || run.setup.plan.foreign.is_none() {
            waived.extend(verify(run, crew, place, &names).await?);
        }
        let mut found = BTreeMap::new();
        for name in &names {
            if waived.contains_key(name) {
                continue;
            }
            match patiently(run, crew, place, name, share).await {
                Ok(entry) => {
                    found.insert(name.clone(), entry);
                }
                Err(error) => {
                    let reason = waiver(&error).map(str::to_owned).ok_or(error)?;
                    waived.insert(name.clone(), reason);
                }
            }
        }
        if place != 0 {
            peaks = peaks::measure(run, crew, place, &found).await?;
        }
        entries.extend(found);
    }
    let mut calibration = Calibration::new(entries);
    calibration.peaks = peaks;
    calibration.waived = waived;
    Ok(calibration)
}

/// Has results checked; what comes back are the workloads that this device cannot run, and why.
async fn verify(
    run: &mut Run,
    crew: &mut Crew,
    place: usize,
    names: &BTreeSet<String>,
) -> Result<BTreeMap<String, String>, RunError> {
    let message = ToTenant::Verify {
        workloads: names.iter().cloned().collect(),
    };
    match crew
        .ask(run, place, &message, "verifying its kernels", LIMIT)
        .await?
    {
        FromTenant::Verified { results } => {
            let (waived, results): (BTreeMap<_, _>, BTreeMap<_, _>) = results
                .into_iter()
                .partition(|(_, result)| result.starts_with(WAIVED));
            let wrong: Vec<String> = results
                .iter()
                .filter(|(_, result)| result.as_str() != "ok")
                .map(|(name, result)| format!("{name}: {result}"))
                .collect();
            let lacking = |result: String| result.trim_start_matches(WAIVED).to_owned();
            if wrong.is_empty() {
                let waived = waived.into_iter();
                Ok(waived
                    .map(|(name, result)| (name, lacking(result)))
                    .collect())
            } else {
                Err(RunError::Verification(wrong.join("; ")))
            }
        }
        other => Err(crew.unexpected(place, &other)),
    }
}

/// Why this workload cannot be had at this length, if that is what the tenant says.
fn waiver(error: &RunError) -> Option<&str> {
    match error {
        RunError::Tenant(TenantError::Refused { what, .. }) => what.strip_prefix(WAIVED),
        _ => None,
    }
}

/// Calibrates one workload; a tenant that cannot is asked again where time is real.
pub(super) async fn patiently(
    run: &mut Run,
    crew: &mut Crew,
    place: usize,
    name: &str,
    share: f64,
) -> Result<CalibrationEntry, RunError> {
    let is_program = name == FOREIGN;
    let tries = if run.setup.clock.is_virtual() || is_program {
        1
    } else {
        TRIES_WALL
    };
    let service_ns = run.setup.plan.service_ns;
    for number in 1..tries {
        match ask_to_calibrate(run, crew, place, name, share, service_ns).await {
            Err(RunError::Tenant(TenantError::Refused { what, .. })) => {
                let text = format!("calibration of {name}, try {number} of {tries}: {what}");
                run.events.append(&RunEvent::Warning { text })?;
                tokio::time::sleep(PAUSE_WALL).await;
            }
            other => return other,
        }
    }
    ask_to_calibrate(run, crew, place, name, share, service_ns).await
}

/// Has a tenant find the parameters of one workload.
pub async fn ask_to_calibrate(
    run: &mut Run,
    crew: &mut Crew,
    place: usize,
    name: &str,
    share: f64,
    service_ns: u64,
) -> Result<CalibrationEntry, RunError> {
    let message = ToTenant::Calibrate {
        workload: name.to_owned(),
        share,
        service_ns,
    };
    match crew.ask(run, place, &message, "calibrating", LIMIT).await? {
        FromTenant::Calibrated {
            spec,
            rate_per_s,
            service_ns,
            work_per_request,
            unit,
        } => Ok(CalibrationEntry {
            spec,
            native_rate_per_s: rate_per_s,
            service_ns,
            work_per_request,
            unit,
        }),
        other => {
            run.events.append(&RunEvent::Warning {
                text: format!("calibration of {name} was answered with {other:?}"),
            })?;
            Err(crew.unexpected(place, &other))
        }
    }
}
