//! Calibration: the parameters and native rate of every workload of the plan on this device, found
//! once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use gpubench_catalogue::workload;
use gpubench_host::device::{BlockingCall, Nvml, Rated, Reported, identity};
use gpubench_host::tenant::TenantError;
use gpubench_record::calibration::ObservationCost;
use gpubench_record::user_victim::USER_VICTIM;
use gpubench_record::{
    Calibration, CalibrationBasis, CalibrationBinding, CalibrationEntry, CeilingKind, Cell,
    Condition, FromTenant, PeakEntry, Plan, RefusalKind, Role, ToTenant, Verification,
};

use super::observe::Snapshot;
use super::tenant_set::TenantSet;
use super::{RunError, Setup};

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
    match tenants.ask(slot, &message, "verifying its kernels", CALIBRATION_LIMIT).await? {
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

// The rate of each aggressor without neighbours, compared with the highest rate on its resource.
//
// Where clocks and widths that the device reports give a ceiling, it is the peak. Elsewhere it is
// the rate of a detector workload: the same kernel on the whole device with requests four times as
// long, so that the overhead of a request weighs a quarter. Where several aggressors of a plan
// stress one resource, the fastest detector is the peak for all of them. An aggressor far below
// the peak is too weak to show interference.

/// Length of a detector's requests, in requests of the cells.
const LONGER: u64 = 4;

/// One rate of work on one resource.
#[derive(Debug, Clone, PartialEq)]
struct Rate {
    workload: String,
    resource: &'static str,
    unit: String,
    per_s: f64,
    /// The ceiling of the hardware, where it is known.
    rated: Option<Rated>,
}

/// Measures the detector of every calibrated aggressor in `slot`, the only slot with an open
/// context. An aggressor without a detector has no entry.
pub async fn measure_peaks(
    tenants: &mut TenantSet,
    slot: usize,
    aggressors: &BTreeMap<String, CalibrationEntry>,
) -> Result<BTreeMap<String, PeakEntry>, RunError> {
    let reported = tenants.handles().nvml("reading clocks and widths", Reported::read).await?;
    let identity = tenants.handles().identity();
    // A tenant in a MIG instance has a part of the device, and the ceilings are of the whole.
    let is_whole = tenants.handles().setup.host.facts.mig != Some(true);
    let mut alone = Vec::new();
    let mut detectors = Vec::new();
    for (name, entry) in aggressors {
        let Some(workload) = workload::find(name) else {
            continue;
        };
        // A request that is one driver call cannot be made longer.
        if workload.knob.is_none() {
            continue;
        }
        let ceiling = workload.ceiling.filter(|_| is_whole);
        let rate = |workload_name: String, entry: &CalibrationEntry| Rate {
            workload: workload_name,
            resource: workload.resource,
            unit: entry.unit.clone(),
            per_s: entry.native_rate_per_s * entry.work_per_request,
            rated: ceiling.and_then(|ceiling| reported.rated(ceiling, &identity)),
        };
        alone.push(rate(name.clone(), entry));
        let service_ns = LONGER * tenants.handles().setup.plan.service_ns;
        match attempt(tenants, slot, name, 1.0, service_ns).await {
            Ok(entry) => detectors.push(rate(format!("{name}, {LONGER}x"), &entry)),
            Err(RunError::Tenant(TenantError::Refused { what, .. })) => {
                tenants
                    .handles()
                    .recorder
                    .warning(format!("no peak rate of {}: {what}", workload.resource))?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(compare(&alone, &detectors))
}

/// Most that a rate can be of what the hardware is rated for: clocks are reported in whole MHz. A
/// faster one shows that the reported link or clock is not the one in use (a GH200 reports PCIe and
/// has NVLink-C2C, a GB10 reports generation 1 with one lane).
const RATED_MAX: f64 = 1.05;

/// Each aggressor beside the ceiling of the hardware, or else beside the fastest detector of its
/// resource; without either there is no entry.
fn compare(alone: &[Rate], detectors: &[Rate]) -> BTreeMap<String, PeakEntry> {
    let of = |one: &Rate| {
        let exceeded = one.rated.as_ref().filter(|rated| one.per_s > RATED_MAX * rated.per_s);
        let (ceiling, peak_per_s, source) = match &one.rated {
            Some(rated) if exceeded.is_none() => {
                (CeilingKind::Hardware, rated.per_s, rated.source.clone())
            }
            _ => {
                let best = detectors
                    .iter()
                    .filter(|other| other.resource == one.resource && other.unit == one.unit)
                    .max_by(|a, b| a.per_s.total_cmp(&b.per_s))?;
                let source = match exceeded {
                    None => best.workload.clone(),
                    Some(rated) => format!(
                        "{}; not {} = {:.3e}, which it exceeds",
                        best.workload, rated.source, rated.per_s
                    ),
                };
                (CeilingKind::Detector, best.per_s, source)
            }
        };
        let entry = PeakEntry {
            alone_per_s: one.per_s,
            peak_per_s,
            ceiling,
            source,
            unit: one.unit.clone(),
        };
        Some((one.workload.clone(), entry))
    };
    alone.iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use gpubench_record::CeilingKind;

    use super::{Rate, Rated, compare};

    fn rate(workload: &str, resource: &'static str, unit: &str, per_s: f64) -> Rate {
        Rate { workload: workload.to_owned(), resource, unit: unit.to_owned(), per_s, rated: None }
    }

    #[test]
    fn the_ceiling_of_the_hardware_comes_before_every_detector() {
        let mut weak = rate("copy", "DRAM", "bytes", 150.0);
        weak.rated = Some(Rated { per_s: 320.0, source: "clock x width".to_owned() });
        let detectors = [rate("copy, 4x", "DRAM", "bytes", 151.0)];
        let peaks = compare(&[weak], &detectors);
        let peak = &peaks["copy"];
        assert_eq!((peak.ceiling, peak.peak_per_s), (CeilingKind::Hardware, 320.0));
        assert_eq!(peak.source, "clock x width");
        // A link that is not the one in use.
        let mut fast = rate("copy", "DRAM", "bytes", 150.0);
        fast.rated = Some(Rated { per_s: 100.0, source: "generation 1 x1".to_owned() });
        let peaks = compare(&[fast], &detectors);
        let peak = &peaks["copy"];
        assert_eq!((peak.ceiling, peak.peak_per_s), (CeilingKind::Detector, 151.0));
        assert_eq!(peak.source, "copy, 4x; not generation 1 x1 = 1.000e2, which it exceeds");
    }

    #[test]
    fn the_fastest_detector_of_the_same_resource_is_the_peak() {
        let alone = [
            rate("copy", "DRAM", "bytes", 280.0),
            rate("slow-copy", "DRAM", "bytes", 100.0),
            rate("hog", "SMs", "operations", 8_000.0),
            rate("odd", "DRAM", "pages", 1.0),
        ];
        let detectors = [
            rate("copy, 4x", "DRAM", "bytes", 300.0),
            rate("slow-copy, 4x", "DRAM", "bytes", 110.0),
            rate("hog, 4x", "SMs", "operations", 8_100.0),
        ];
        let peaks = compare(&alone, &detectors);
        let peak = |name: &str| {
            peaks.get(name).map(|peak| (peak.alone_per_s, peak.peak_per_s, peak.source.as_str()))
        };
        assert_eq!(peak("copy"), Some((280.0, 300.0, "copy, 4x")));
        assert_eq!(peak("slow-copy"), Some((100.0, 300.0, "copy, 4x")));
        assert_eq!(peak("hog"), Some((8_000.0, 8_100.0, "hog, 4x")));
        assert_eq!(peak("odd"), None, "no detector in its unit");
    }
}
