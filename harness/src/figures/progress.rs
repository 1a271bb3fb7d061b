//! What each tenant of a contended cell gets done, and how much of the device that uses.
//!
//! The progress of the victim is its rate over its native rate in the same block; that of an
//! aggressor is its rate over its calibrated rate alone.

use gpubench_record::{Calibration, CellResult, Plan};
use gpubench_stats::fairness::{Fairness, fairness};

use super::logs::rate_ratio;

/// The tenants of one contended cell.
pub(crate) struct Progress<'a> {
    pub fairness: Fairness,
    pub least: f64,
    pub most: f64,
    /// The part of the device that all of them used.
    pub utilisation: f64,
    pub cell: &'a CellResult,
}

impl<'a> Progress<'a> {
    /// Of a contended cell and the native cell of its block; `None` where the progress of a tenant
    /// is unknown.
    pub(crate) fn of(
        plan: &Plan,
        calibration: &Calibration,
        contended: &'a CellResult,
        native: &CellResult,
    ) -> Option<Self> {
        let victim = rate_ratio(contended, native)?;
        let mut progress = vec![victim];
        progress.extend(neighbours(calibration, contended)?);
        // Times for the same work, with the time alone as their unit.
        let shared: Vec<f64> = progress.iter().map(|one| 1.0 / one).collect();
        Some(Self {
            fairness: fairness(&shared, &vec![1.0; progress.len()]).ok()?,
            least: progress.iter().copied().fold(f64::INFINITY, f64::min),
            most: progress.iter().copied().fold(0.0, f64::max),
            utilisation: used_by_victim(plan, calibration, contended, victim)
                + used_by_neighbours(calibration, contended, &progress[1..]),
            cell: contended,
        })
    }

    /// GPU time of a tenant in this cell.
    pub(crate) fn gpu_time_ns(&self, tenant: &str) -> Option<f64> {
        self.cell.figures.tenants.get(tenant)?.gpu_time_ns
    }
}

/// The part of the device that the victim used: its work over what the device does of that work, by
/// the peak of the aggressor beside it. A victim uses less than its share, so its share would be
/// too much; it stands where the work of the two has different units, or no peak is known.
fn used_by_victim(
    plan: &Plan,
    calibration: &Calibration,
    contended: &CellResult,
    progress: f64,
) -> f64 {
    let work = || {
        let own = calibration.entries.get(&contended.cell.victim)?;
        let peak = calibration.peaks.get(contended.cell.aggressor.as_ref()?)?;
        let rate = contended.figures.closed_rate_per_s?;
        (own.unit == peak.unit).then_some(rate * own.work_per_request / peak.peak_per_s)
    };
    work().unwrap_or(progress * plan.share)
}

/// The part that the neighbours used: an aggressor alone may use less than the whole device.
fn used_by_neighbours(calibration: &Calibration, contended: &CellResult, progress: &[f64]) -> f64 {
    let alone = |workload: Option<&String>| {
        let peak = calibration.peaks.get(workload?)?;
        Some(peak.alone_per_s / peak.peak_per_s)
    };
    let neighbours = contended.cell.tenants.iter().skip(1).zip(progress);
    neighbours.map(|(one, progress)| progress * alone(one.workload.as_ref()).unwrap_or(1.0)).sum()
}

/// The progress of each neighbour.
fn neighbours(calibration: &Calibration, contended: &CellResult) -> Option<Vec<f64>> {
    let neighbours = contended.cell.tenants.get(1..)?;
    // In format 1.0 a cell had the rate of all aggressors together.
    let only = contended.figures.achieved_dose_ratio;
    if let (1, Some(progress)) = (neighbours.len(), only) {
        return Some(vec![progress]);
    }
    let progress = neighbours.iter().map(|neighbour| {
        let alone = calibration.entries.get(neighbour.workload.as_ref()?)?.native_rate_per_s;
        Some(contended.figures.tenants.get(&neighbour.tenant)?.rate_per_s? / alone)
    });
    progress.collect()
}
