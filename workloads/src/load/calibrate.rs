//! Finding the parameters with which one request takes the wanted time on the device at hand.
//!
//! A request costs a fixed part and a part proportional to the knob of its workload; two
//! measurements give both, and the next try follows from them. A victim that could take more than
//! its share of a resource is first given fewer blocks, then smaller ones, until it cannot.

use gpubench_kernels::driver::DeviceProps;
use gpubench_record::{Role, WorkloadSpec};

use super::measure::{Bench, OnDevice};
use super::{Gpu, LoadError, Workload};
use crate::clock::Time;

/// An abiding victim demands this part of its share, in every resource.
pub(super) const DEMAND_OF_SHARE: f64 = 0.9;

/// How far the length of a victim's request may be from the wanted one.
const TOLERANCE: f64 = 0.1;

/// The same for an aggressor, whose length matters less.
const TOLERANCE_AGGRESSOR: f64 = 0.25;

/// Close enough to stop trying.
const CLOSE: f64 = 0.02;

/// Tries for one length.
const ATTEMPTS_MAX: u32 = 12;

/// Shapes tried until the demand is within the share.
const SHAPES_MAX: u32 = 24;

/// The most by which one try differs from the last: a first guess may be mostly fixed cost.
const STEP_MAX: f64 = 64.0;

/// Requests for one try, and for the figures that are reported.
const REQUESTS: usize = 7;
const REQUESTS_FINAL: usize = 31;

/// What calibration found.
#[derive(Debug, Clone, PartialEq)]
pub struct Calibrated {
    /// The workload with its parameters.
    pub spec: WorkloadSpec,
    /// Requests per second: closed loop at depth 1 for a victim, without a pause for an aggressor.
    pub rate_per_s: f64,
    /// Median time of one request alone.
    pub service_ns: u64,
    /// What one request amounts to, in the unit of the workload.
    pub work_per_request: f64,
}

/// Calibrates one workload on the device, which it must have to itself.
///
/// # Errors
/// When the share is too small, the length cannot be reached, or the driver refuses.
pub fn calibrate(
    workload: &dyn Workload,
    gpu: &Gpu,
    time: &dyn Time,
    share: f64,
    service_ns: u64,
) -> Result<Calibrated, LoadError> {
    let mut bench = OnDevice {
        workload,
        gpu,
        time,
    };
    calibrate_with(workload, &mut bench, &gpu.props, share, service_ns)
}

fn calibrate_with(
    workload: &dyn Workload,
    bench: &mut dyn Bench,
    props: &DeviceProps,
    share: f64,
    service_ns: u64,
) -> Result<Calibrated, LoadError> {
    if !(share > 0.0 && share <= 1.0) || service_ns == 0 {
        let found = format!("share {share}, service time {service_ns} ns");
        let accepted = "a share above 0 and up to 1, and a time above 0".to_owned();
        let param = "target";
        return Err(LoadError::Param {
            workload: workload.name().to_owned(),
            param,
            found,
            accepted,
        });
    }
    let mut search = Search {
        workload,
        bench,
        service_ns,
    };
    let first = workload.first_guess(props, share)?;
    let spec = if workload.is_throttled() {
        search.within_share(first, props, share)?
    } else {
        search.tune(first)?.0
    };
    let found = search.bench.measure(&spec, REQUESTS_FINAL)?;
    search.accept(found.service_ns)?;
    let rate_per_s = match workload.role() {
        Role::Aggressor => search.bench.peak_rate_per_s(&spec, REQUESTS_FINAL)?,
        Role::Victim | Role::Idle => found.rate_per_s,
    };
    let (service_ns, work_per_request) = (found.service_ns, found.work_per_request);
    Ok(Calibrated {
        spec,
        rate_per_s,
        service_ns,
        work_per_request,
    })
}

struct Search<'a> {
    workload: &'a dyn Workload,
    bench: &'a mut dyn Bench,
    service_ns: u64,
}

impl Search<'_> {
    /// Fewer and then smaller blocks until the demand is within the share.
    fn within_share(
        &mut self,
        first: WorkloadSpec,
        props: &DeviceProps,
        share: f64,
    ) -> Result<WorkloadSpec, LoadError> {
        let threads = first.params.get("threads").copied().unwrap_or(1);
        // At most the threads of a block, which are 32 bits.
        let full = props.full_grid(threads as u32).blocks;
        let peak = self.tune(with(&first, "blocks", full.into()))?.1;
        let limit = DEMAND_OF_SHARE * share;
        let mut spec = first;
        let mut demand = f64::INFINITY;
        for _ in 0..SHAPES_MAX {
            let (tuned, rate) = self.tune(spec.clone())?;
            demand = rate / peak;
            if demand <= limit {
                return Ok(tuned);
            }
            let blocks = spec.params.get("blocks").copied().unwrap_or(1);
            let threads = spec.params.get("threads").copied().unwrap_or(1);
            if blocks > 1 {
                // Truncation errs towards fewer.
                let fewer = (blocks as f64 * limit / demand) as u64;
                spec = with(&tuned, "blocks", fewer.clamp(1, blocks - 1));
            } else if threads > u64::from(props.warp_threads) {
                spec = with(&tuned, "threads", threads / 2);
            } else {
                break;
            }
        }
        Err(LoadError::Demand {
            workload: self.workload.name(),
            demand,
            limit,
        })
    }

    /// Turns the knob until the length is right; also the work per nanosecond at that length.
    fn tune(&mut self, first: WorkloadSpec) -> Result<(WorkloadSpec, f64), LoadError> {
        let knob = self.workload.knob();
        let mut spec = first;
        let mut best: Option<(f64, WorkloadSpec, f64, u64)> = None;
        let mut last: Option<(f64, f64)> = None;
        for _ in 0..ATTEMPTS_MAX {
            let found = self.bench.measure(&spec, REQUESTS)?;
            let took_ns = found.service_ns.max(1) as f64;
            let miss = miss(found.service_ns, self.service_ns);
            if best.as_ref().is_none_or(|best| miss < best.0) {
                let rate = found.work_per_request / took_ns;
                best = Some((miss, spec.clone(), rate, found.service_ns));
            }
            if miss <= CLOSE {
                break;
            }
            let value = spec.params.get(knob.param).copied().unwrap_or(knob.granule) as f64;
            let next = next_value(value, took_ns, last, self.service_ns as f64);
            last = Some((value, took_ns));
            let next = rounded(next, knob.granule, knob.max);
            if next as f64 == value {
                break;
            }
            spec = with(&spec, knob.param, next);
        }
        let Some((_, spec, rate, found_ns)) = best else {
            return Err(self.missed(0));
        };
        self.accept(found_ns)?;
        Ok((spec, rate))
    }

    fn accept(&self, found_ns: u64) -> Result<(), LoadError> {
        let tolerance = match self.workload.role() {
            Role::Aggressor => TOLERANCE_AGGRESSOR,
            Role::Victim | Role::Idle => TOLERANCE,
        };
        let good = miss(found_ns, self.service_ns) <= tolerance;
        if good {
            Ok(())
        } else {
            Err(self.missed(found_ns))
        }
    }

    fn missed(&self, found_ns: u64) -> LoadError {
        let (workload, wanted_ns) = (self.workload.name(), self.service_ns);
        LoadError::Length {
            workload,
            attempts: ATTEMPTS_MAX,
            found_ns,
            wanted_ns,
        }
    }
}

/// How far one time is from another, relative to the wanted one.
fn miss(found_ns: u64, wanted_ns: u64) -> f64 {
    (found_ns as f64 / wanted_ns as f64 - 1.0).abs()
}

/// The value to try next: on the line through the last two measurements, or proportional to the
/// only one.
fn next_value(value: f64, took_ns: f64, last: Option<(f64, f64)>, wanted_ns: f64) -> f64 {
    let slope = last
        .map(|(last_value, last_ns)| (took_ns - last_ns) / (value - last_value))
        .filter(|slope| slope.is_finite() && *slope > 0.0);
    let wanted = match slope {
        Some(slope) => value + (wanted_ns - took_ns) / slope,
        None => value * wanted_ns / took_ns,
    };
    wanted.clamp(value / STEP_MAX, value * STEP_MAX)
}

/// The nearest multiple of the granule within the bounds.
fn rounded(value: f64, granule: u64, max: u64) -> u64 {
    // Values are far below 2^53 where it matters, and the cast saturates above.
    let granules = (value / granule as f64).round() as u64;
    granules
        .max(1)
        .saturating_mul(granule)
        .min(max / granule * granule)
}

fn with(spec: &WorkloadSpec, param: &str, value: u64) -> WorkloadSpec {
    let mut spec = spec.clone();
    spec.params.insert(param.to_owned(), value);
    spec
}

#[cfg(test)]
mod tests;
