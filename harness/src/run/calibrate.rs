//! Calibration: the parameters and native rate of every workload of the plan on this device, found
//! once.

mod observation_cost;
pub mod one;

use std::collections::{BTreeMap, BTreeSet};

use gpubench_record::{
    Calibration, CalibrationBasis, CalibrationBinding, Cell, Condition, FromTenant, Plan,
    RefusalKind, Role, ToTenant, Verification,
};

use super::tenant_set::TenantSet;
use super::{RunError, Setup, peaks};
use crate::device::{Nvml, identity};
use crate::tenant::TenantError;
use one::{LIMIT, with_retries};

/// Verifies and calibrates all victims in the victim's slot and all aggressors in the first
/// neighbour's, each without other open contexts. A victim uses this share of the device it sees.
/// Entries that an earlier run kept for the same target are used again.
pub async fn calibrate(tenants: &mut TenantSet, share: f64) -> Result<Calibration, RunError> {
    let (victims, aggressors) = workloads(&tenants.handles().setup.plan);
    let basis = CalibrationBasis {
        victims: victims.iter().cloned().collect(),
        service_ns: tenants.handles().setup.plan.service_ns,
        share,
        ptx_hash: tenants.handles().setup.ptx_hash.clone(),
    };
    let kept = kept(&tenants.handles().setup, &basis);
    let mut entries = BTreeMap::new();
    let (mut peaks, mut waived) = (BTreeMap::new(), BTreeMap::new());
    let mut observation_cost = None;
    for (slot, names, share) in [(0, victims, share), (1, aggressors, 1.0)] {
        if names.is_empty() {
            continue;
        }
        tenants.open_only(slot).await?;
        // The results of a user's program are not verified.
        if slot != 0 || tenants.handles().setup.plan.user_victim.is_none() {
            waived.extend(verify(tenants, slot, &names).await?);
        }
        let mut found = BTreeMap::new();
        for name in &names {
            if waived.contains_key(name) {
                continue;
            }
            if let Some(entry) = kept.entries.get(name) {
                entries.insert(name.clone(), entry.clone());
                continue;
            }
            match with_retries(tenants, slot, name, share).await {
                Ok(entry) => {
                    found.insert(name.clone(), entry);
                }
                Err(error) => {
                    let reason = waiver(&error).map(str::to_owned).ok_or(error)?;
                    waived.insert(name.clone(), reason);
                }
            }
        }
        let is_program = tenants.handles().setup.plan.user_victim.is_some();
        if slot == 0
            && !is_program
            && !tenants.handles().setup.clock.is_virtual()
            && let Some(victim) = found.keys().next()
        {
            observation_cost = Some(observation_cost::measure(tenants, victim, share).await?);
        }
        if slot != 0 {
            peaks = peaks::measure(tenants, slot, &found).await?;
        }
        entries.extend(found);
    }
    let of_kept = kept.entries.into_keys();
    let of_kept = of_kept.filter(|name| entries.contains_key(name)).collect();
    let peaks_kept = kept.peaks.into_iter();
    peaks.extend(peaks_kept.filter(|(name, _)| entries.contains_key(name)));
    Ok(Calibration {
        peaks,
        waived,
        kept: of_kept,
        observation_cost: observation_cost.or(kept.observation_cost),
        ..Calibration::new(entries, basis, binding(tenants).await?)
    })
}

/// The workloads of victims and of aggressors. An aggressor that runs alone does the work that it
/// does beside a victim.
fn workloads(plan: &Plan) -> (BTreeSet<String>, BTreeSet<String>) {
    let aggressors: BTreeSet<String> = plan
        .cells
        .iter()
        .flat_map(|cell| &cell.tenants)
        .filter(|tenant| tenant.role == Role::Aggressor)
        .filter_map(|tenant| tenant.workload.clone())
        .collect();
    let is_alone =
        |cell: &&Cell| cell.condition == Condition::S && aggressors.contains(&cell.victim);
    let of_cells = plan.cells.iter().filter(|cell| !is_alone(cell)).map(|cell| &cell.victim);
    let of_trials = plan.fault_trials.iter().map(|trial| &trial.victim);
    (of_cells.chain(of_trials).cloned().collect(), aggressors)
}

/// The kept calibration with this target; empty where there is none.
fn kept(setup: &Setup, basis: &CalibrationBasis) -> Calibration {
    let has_target = |one: &&Calibration| {
        let of = one.basis.as_ref();
        of.is_some_and(|of| of.has_target_of(basis))
    };
    let found = setup.kept.iter().find(has_target);
    found.cloned().unwrap_or_default()
}

/// The device that is calibrated.
async fn binding(tenants: &TenantSet) -> Result<CalibrationBinding, RunError> {
    let peaks = tenants.handles().nvml("reading peaks", Nvml::peaks).await?;
    Ok(identity::binding(&tenants.handles().identity(), peaks))
}

/// Verifies kernels; returns the workloads that this device cannot run, with the reason.
async fn verify(
    tenants: &mut TenantSet,
    slot: usize,
    names: &BTreeSet<String>,
) -> Result<BTreeMap<String, String>, RunError> {
    let message = ToTenant::Verify { workloads: names.iter().cloned().collect() };
    match tenants.ask(slot, &message, "verifying its kernels", LIMIT).await? {
        FromTenant::Verified { results } => {
            let (mut waived, mut wrong) = (BTreeMap::new(), Vec::new());
            for (name, found) in results {
                match found {
                    Verification::Correct => {}
                    Verification::Waived { reason } => {
                        waived.insert(name, reason);
                    }
                    Verification::Failed { problem } => wrong.push(format!("{name}: {problem}")),
                }
            }
            if wrong.is_empty() {
                Ok(waived)
            } else {
                Err(RunError::Verification(wrong.join("; ")))
            }
        }
        other => Err(tenants.unexpected(slot, &other)),
    }
}

/// Why the tenant waives the workload at this length, if it does.
fn waiver(error: &RunError) -> Option<&str> {
    match error {
        RunError::Tenant(TenantError::Refused { kind: RefusalKind::Waived, what, .. }) => {
            Some(what)
        }
        _ => None,
    }
}
