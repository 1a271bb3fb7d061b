//! The rate of each aggressor without neighbours, compared with the highest rate on its resource.
//!
//! Where clocks and widths that the device reports give a ceiling, it is the peak. Elsewhere it is
//! the rate of a detector workload: the same kernel on the whole device with requests four times as
//! long, so that the overhead of a request weighs a quarter. Where several aggressors of a plan
//! stress one resource, the fastest detector is the peak for all of them. An aggressor far below
//! the peak is too weak to show interference.

use std::collections::BTreeMap;
use std::time::Duration;

use gpubench_catalogue::workload;
use gpubench_host::device::{Rated, Reported};
use gpubench_host::tenant::TenantError;
use gpubench_record::probe::step::{RunRequests, Step};
use gpubench_record::{CalibrationEntry, CeilingKind, PeakEntry, ToTenant};
use gpubench_stats::Sorted;

use super::RunError;
use super::calibrate::attempt;
use super::sampler::Times;
use super::tenant_set::TenantSet;

/// Length of a detector's requests, in requests of the cells.
const LONGER: u64 = 4;

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
        let Some(workload) = workload::find(name) else { continue };
        // A request that is one driver call cannot be made longer.
        if workload.knob.is_none() {
            continue;
        }
        let ceiling = workload.ceiling.filter(|_| is_whole);
        let per_s = |entry: &CalibrationEntry| entry.native_rate_per_s * entry.work_per_request;
        let mut rated = ceiling.and_then(|ceiling| reported.rated(ceiling, &identity));
        if let (Some(ceiling), Some(highest)) = (ceiling, &rated)
            && ceiling.is_of_sm_clock()
            && per_s(entry) < UNHELD_MIN * highest.per_s
            && let Some(mhz) = clock_under(tenants, slot, entry).await?
        {
            rated = reported.held_at(mhz).rated(ceiling, &identity);
        }
        let rate = |workload_name: String, entry: &CalibrationEntry| Rate {
            workload: workload_name,
            resource: workload.resource,
            unit: entry.unit.clone(),
            per_s: per_s(entry),
            rated: rated.clone(),
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

/// An aggressor that reaches this part of the ceiling at the highest clock leaves no doubt of its
/// strength, so the clock under its load is not read.
const UNHELD_MIN: f64 = 0.80;
/// Length of the load whose clock is read, and of the part that is left out at its start.
const LOADED_NS: u64 = 200_000_000;
const LOADING_NS: u64 = 50_000_000;
const LOADED_LIMIT: Duration = Duration::from_secs(60);

/// The SM clock that the board holds under an aggressor alone, in MHz: a power cap or heat can
/// leave less than half of the highest. The median of the readings; `None` where NVML has none.
async fn clock_under(
    tenants: &mut TenantSet,
    slot: usize,
    entry: &CalibrationEntry,
) -> Result<Option<u32>, RunError> {
    let requests_max = (2 * LOADED_NS).div_ceil(entry.service_ns.max(1));
    let requests = RunRequests {
        spec: entry.spec.clone(),
        watch_ns: LOADED_NS,
        requests_max: u32::try_from(requests_max).unwrap_or(u32::MAX),
    };
    let message = ToTenant::Probe { step: requests.into_step() };
    let times = Times {
        t0_ns: 0,
        length_ns: LOADED_NS,
        period_ns: LOADED_NS,
        closed_ns: [LOADING_NS, LOADED_NS - LOADING_NS],
        idle_ns: [0, 0],
        meters: false,
    };
    let doing = "running while the clock is read";
    match tenants.ask_sampled(slot, &message, doing, LOADED_LIMIT, Some(times)).await {
        Ok((_, sampled)) => {
            let median = Sorted::new(sampled.sm_clocks_mhz).and_then(|all| all.median());
            Ok(median.ok().map(|mhz| mhz as u32))
        }
        Err(RunError::Tenant(TenantError::Refused { what, .. })) => {
            let text = format!("the clock under {} is not known: {what}", entry.spec.name);
            tenants.handles().recorder.warning(text)?;
            Ok(None)
        }
        Err(error) => Err(error),
    }
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
