//! Calibration: the parameters and native rate of every workload of the plan on this device, found
//! once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use gpubench_host::device::{BlockingCall, Driver, identity};
use gpubench_host::tenant::TenantError;
use gpubench_record::calibration::ObservationCost;
use gpubench_record::user_victim::USER_VICTIM;
use gpubench_record::{
    Calibration, CalibrationBasis, CalibrationBinding, CalibrationEntry, Cell, Condition,
    FromTenant, Plan, RefusalKind, Role, ToTenant, Verification,
};

use super::observe::Snapshot;
use super::peaks::measure_peaks;
use super::tenant_set::TenantSet;
use super::{RunError, RunPhase, Setup};

/// Verifies and calibrates all victims in the victim's slot and all aggressors in the first
/// neighbour's, each without other open contexts, and digests their outputs. A victim uses this
/// share of the device it sees. Entries that an earlier run kept for the same target are used
/// again.
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
    let mut outputs = BTreeMap::new();
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
        for (done, name) in names.iter().enumerate() {
            if waived.contains_key(name) {
                continue;
            }
            if let Some(entry) = kept.entries.get(name) {
                entries.insert(name.clone(), entry.clone());
                continue;
            }
            let (of, count) = (name.clone(), names.len());
            let phase = RunPhase::CalibratingWorkload { name: of, done, count };
            tenants.handles().waits.show(phase);
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
            observation_cost = Some(measure_observation_cost(tenants, victim, share).await?);
        }
        if slot != 0 {
            peaks = measure_peaks(tenants, slot, &found).await?;
        }
        entries.extend(found);
        if slot != 0 || !is_program {
            for name in &names {
                if let Some(entry) = entries.get(name) {
                    let output = tenants.output_of(slot, Some(&entry.spec)).await?;
                    outputs.insert(name.clone(), output);
                }
            }
        }
    }
    let of_kept = kept.entries.into_keys();
    let of_kept = of_kept.filter(|name| entries.contains_key(name)).collect();
    let peaks_kept = kept.peaks.into_iter();
    peaks.extend(peaks_kept.filter(|(name, _)| entries.contains_key(name)));
    Ok(Calibration {
        peaks,
        waived,
        outputs,
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
    let victims: BTreeSet<String> = of_cells.chain(of_trials).cloned().collect();
    // A neighbour that does what the victim does has its calibration.
    let aggressors = aggressors.difference(&victims).cloned().collect();
    (victims, aggressors)
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

async fn binding(tenants: &TenantSet) -> Result<CalibrationBinding, RunError> {
    let peaks = tenants.handles().nvml("reading peaks", Driver::peaks).await?;
    Ok(identity::binding(&tenants.handles().identity(), peaks))
}

/// With which the driver refuses to load a module, whatever it computes (cuda.h): invalid image, no
/// binary for the GPU, invalid PTX, no compiler of PTX, newer PTX, compilation disabled.
const UNLOADABLE: [i32; 6] = [200, 209, 218, 221, 222, 223];

/// Verifies kernels; returns the workloads that this device cannot run, with the reason.
async fn verify(
    tenants: &mut TenantSet,
    slot: usize,
    names: &BTreeSet<String>,
) -> Result<BTreeMap<String, String>, RunError> {
    let message = ToTenant::Verify { workloads: names.iter().cloned().collect() };
    match tenants.ask(slot, &message, "verifying its kernels", CALIBRATION_LIMIT).await? {
        FromTenant::Verified { results } => {
            let (mut waived, mut wrong, mut codes) = (BTreeMap::new(), Vec::new(), BTreeSet::new());
            for (name, found) in results {
                match found {
                    Verification::Correct => {}
                    Verification::Waived { reason } => {
                        waived.insert(name, reason);
                    }
                    Verification::Failed { problem, code } => {
                        wrong.push(format!("{name}: {problem}"));
                        codes.insert(code.filter(|code| UNLOADABLE.contains(code)));
                    }
                }
            }
            if wrong.is_empty() {
                Ok(waived)
            } else if !codes.contains(&None) {
                Err(RunError::Unloadable(wrong.join("; ")))
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

// The calibration of one workload: its parameters, found by the tenant that will run it.

/// Longest wait for one workload.
pub const CALIBRATION_LIMIT: Duration = Duration::from_secs(300);
/// Attempts on the wall clock, where load on the host can spoil one, and the pause between them.
/// Virtual time has one attempt.
const ATTEMPTS_WALL: u32 = 10;
const PAUSE_WALL: Duration = Duration::from_millis(300);

/// Calibrates one workload to the service time of the plan; on the wall clock a refused attempt is
/// repeated.
pub async fn with_retries(
    tenants: &mut TenantSet,
    slot: usize,
    name: &str,
    share: f64,
) -> Result<CalibrationEntry, RunError> {
    let service_ns = tenants.handles().setup.plan.service_ns;
    with_retries_to(tenants, slot, name, share, service_ns).await
}

/// The same to this service time.
pub async fn with_retries_to(
    tenants: &mut TenantSet,
    slot: usize,
    name: &str,
    share: f64,
    service_ns: u64,
) -> Result<CalibrationEntry, RunError> {
    let is_program = name == USER_VICTIM;
    let attempts =
        if tenants.handles().setup.clock.is_virtual() || is_program { 1 } else { ATTEMPTS_WALL };
    for number in 1..attempts {
        match attempt(tenants, slot, name, share, service_ns).await {
            Err(RunError::Tenant(TenantError::Refused { what, .. })) => {
                tenants.handles().recorder.warning(format!(
                    "calibration of {name}, attempt {number} of {attempts}: {what}"
                ))?;
                tokio::time::sleep(PAUSE_WALL).await;
            }
            other => return other,
        }
    }
    attempt(tenants, slot, name, share, service_ns).await
}

/// Has a tenant find the parameters of one workload.
pub async fn attempt(
    tenants: &mut TenantSet,
    slot: usize,
    name: &str,
    share: f64,
    service_ns: u64,
) -> Result<CalibrationEntry, RunError> {
    let message = ToTenant::Calibrate { workload: name.to_owned(), share, service_ns };
    match tenants.ask(slot, &message, "calibrating", CALIBRATION_LIMIT).await? {
        FromTenant::Calibrated { spec, rate_per_s, service_ns, work_per_request, unit } => {
            Ok(CalibrationEntry {
                spec,
                native_rate_per_s: rate_per_s,
                service_ns,
                work_per_request,
                unit,
            })
        }
        other => {
            tenants
                .handles()
                .recorder
                .warning(format!("calibration of {name} was answered with {other:?}"))?;
            Err(tenants.unexpected(slot, &other))
        }
    }
}

// What the observation of a cell costs the victim, measured in pairs with and without.

/// Pairs of measurements; the order within a pair alternates.
const PAIRS: usize = 4;
/// Longest wait for the last observation.
const OBSERVATION_LIMIT: Duration = Duration::from_secs(60);

/// Measures it on the only tenant with an open context, which calibrates this victim again and
/// again.
pub async fn measure_observation_cost(
    tenants: &mut TenantSet,
    victim: &str,
    share: f64,
) -> Result<ObservationCost, RunError> {
    let mut cost = ObservationCost {
        victim: victim.to_owned(),
        ratios: Vec::new(),
        observations: 0,
        mean_ns: 0,
    };
    let mut total_ns = 0;
    for pair in 0..PAIRS {
        let mut rates = [0.0; 2];
        for half in 0..2 {
            let is_observed = (pair + half) % 2 == 1;
            let observer = is_observed.then(|| Observer::start(tenants)).transpose()?;
            let entry = with_retries(tenants, 0, victim, share).await;
            if let Some(observer) = observer {
                let (count, elapsed_ns) = observer.stop().await?;
                cost.observations += count;
                total_ns += elapsed_ns;
            }
            let entry = entry?;
            rates[usize::from(is_observed)] = entry.native_rate_per_s * entry.work_per_request;
        }
        cost.ratios.push(rates[1] / rates[0]);
    }
    cost.mean_ns = total_ns / cost.observations.max(1);
    Ok(cost)
}

/// Takes snapshots back to back.
struct Observer {
    thread: BlockingCall<(u64, u64)>,
    stop: Arc<AtomicBool>,
}

impl Observer {
    fn start(tenants: &TenantSet) -> Result<Self, RunError> {
        let setup = &tenants.handles().setup;
        let (clock, nvml) = (setup.clock.clone(), Arc::clone(&setup.nvml));
        let scope = tenants.snapshot_scope();
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        let thread = BlockingCall::start("observing the device", move || {
            let (began_ns, mut count) = (clock.now_ns(), 0);
            while !flag.load(Ordering::Relaxed) {
                let _ = Snapshot::take(&clock, &nvml, &scope);
                count += 1;
            }
            (count, clock.now_ns() - began_ns)
        })?;
        Ok(Self { thread, stop })
    }

    async fn stop(mut self) -> Result<(u64, u64), RunError> {
        self.stop.store(true, Ordering::Relaxed);
        Ok(self.thread.within(OBSERVATION_LIMIT).await?)
    }
}
