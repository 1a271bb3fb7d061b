//! Finding the parameters with which one request takes the wanted time on the device at hand.
//!
//! A request costs a fixed part and a part proportional to the knob of its workload; two
//! measurements give both, and the next try follows from them. A victim that could take more than
//! its share of a resource is first given fewer blocks, then smaller ones, until it cannot. What it
//! takes is found with short requests, from the part that is proportional, and so without the fixed
//! one, which would make it look more modest than it is.
//!
//! Where one step of the knob is long, as an allocation is, some lengths cannot be had. A victim is
//! then refused with the nearest that it can have; an aggressor takes the nearest.

use gpubench_kernels::driver::DeviceProps;
use gpubench_record::{Role, WorkloadSpec};

use super::measure::{Bench, OnDevice};
use super::{Gpu, Knob, LoadError, Throttle, Workload};
use crate::clock::Time;

/// An abiding victim demands this part of its share, in every resource.
pub(super) const DEMAND_OF_SHARE: f64 = 0.9;

/// The parameter that holds a victim with pauses to its share: most work in a second.
const RATE: &str = "rate_per_s";

/// How far the length of a victim's request may be from the wanted one.
const TOLERANCE: f64 = 0.1;

/// The same for an aggressor, whose length matters less.
const TOLERANCE_AGGRESSOR: f64 = 0.25;

/// Close enough to stop trying.
const CLOSE: f64 = 0.02;

/// The same for the short requests that show the demand.
const CLOSE_SHORT: f64 = 0.3;

/// Length of a short request: an eighth of a whole one, but long against the fixed part.
const SHORT_NS_MIN: u64 = 100_000;

/// Two values of the knob must be this far apart for a slope through them to be trusted.
const APART: f64 = 1.3;

/// Tries for one length.
const ATTEMPTS_MAX: u32 = 12;

/// Shapes tried until the demand is within the share.
const SHAPES_MAX: u32 = 24;

/// The most by which one try differs from the last: a first guess may be mostly fixed cost.
const STEP_MAX: f64 = 64.0;

/// Requests for one try, and for the figures that are reported.
const REQUESTS: usize = 7;
const REQUESTS_FINAL: usize = 31;

/// Requests where one is a single call of the driver, which may take a good part of a second.
const REQUESTS_FIXED: usize = 5;

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
    workload: &Workload,
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
    workload: &Workload,
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
            workload: workload.name.to_owned(),
            param,
            found,
            accepted,
        });
    }
    let first = workload.first_guess(props, share)?;
    let (spec, found) = match workload.knob {
        // One call of the driver, as long as it is.
        None => {
            let found = bench.measure(&first, REQUESTS_FIXED)?;
            (first, found)
        }
        Some(knob) => {
            let mut search = Search {
                workload,
                knob,
                bench,
                service_ns,
                takes_nearest: false,
            };
            let spec = match workload.throttle() {
                Throttle::None => search.tune(first, service_ns, CLOSE)?.spec,
                Throttle::Blocks => search.within_share(first, props, share)?,
                Throttle::Pauses => search.at_a_pace(first, share)?,
            };
            let found = search.bench.measure(&spec, REQUESTS_FINAL)?;
            search.accept(found.service_ns)?;
            (spec, found)
        }
    };
    let requests = workload.knob.map_or(REQUESTS_FIXED, |_| REQUESTS_FINAL);
    let rate_per_s = match workload.role {
        Role::Aggressor => bench.peak_rate_per_s(&spec, requests)?,
        Role::Victim | Role::Peer | Role::Idle => found.rate_per_s,
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
    workload: &'a Workload,
    knob: Knob,
    bench: &'a mut dyn Bench,
    service_ns: u64,
    /// Whether the length is the nearest that there is, and not near.
    takes_nearest: bool,
}

/// One measured value of the knob.
#[derive(Debug, Clone, Copy)]
struct Point {
    value: f64,
    took_ns: f64,
    work: f64,
}

/// Where a search for a length ended.
struct Tuned {
    spec: WorkloadSpec,
    points: Vec<Point>,
}

impl Search<'_> {
    /// Fewer and then smaller blocks until the demand is within the share.
    fn within_share(
        &mut self,
        first: WorkloadSpec,
        props: &DeviceProps,
        share: f64,
    ) -> Result<WorkloadSpec, LoadError> {
        let shape = |spec: &WorkloadSpec, of: &str| spec.params.get(of).copied().unwrap_or(1);
        // At most the threads of a block, which are 32 bits.
        let full = props.full_grid(shape(&first, "threads") as u32).blocks;
        let (tuned, peak) = self.demand(with(&first, "blocks", full.into()))?;
        let limit = DEMAND_OF_SHARE * share;
        // From one shape to the next the knob starts where it was.
        let mut spec = with(&tuned.spec, "blocks", shape(&first, "blocks"));
        let mut part = f64::INFINITY;
        for _ in 0..SHAPES_MAX {
            let (tuned, demand) = self.demand(spec.clone())?;
            part = demand / peak;
            let (blocks, threads) = (shape(&spec, "blocks"), shape(&spec, "threads"));
            if part <= limit {
                let long = self.at_length(tuned)?;
                return Ok(self.tune(long, self.service_ns, CLOSE)?.spec);
            }
            if blocks > 1 {
                // Truncation errs towards fewer.
                let fewer = ((blocks as f64 * limit / part) as u64).clamp(1, blocks - 1);
                let knob = self.knob;
                let value = shape(&tuned.spec, knob.param) as f64 * fewer as f64 / blocks as f64;
                let value = rounded(value, knob.granule, knob.max);
                spec = with(&with(&tuned.spec, knob.param, value), "blocks", fewer);
            } else if threads > u64::from(props.warp_threads) {
                spec = with(&tuned.spec, "threads", threads / 2);
            } else {
                break;
            }
        }
        Err(LoadError::Demand {
            workload: self.workload.name,
            demand: part,
            limit,
        })
    }

    /// At the rate that the share allows of what the resource gives without pauses.
    fn at_a_pace(&mut self, first: WorkloadSpec, share: f64) -> Result<WorkloadSpec, LoadError> {
        let (tuned, peak_per_ns) = self.demand(with(&first, RATE, 0))?;
        // Truncation errs towards slower; the rate of no resource comes near the bounds of 64 bits.
        let rate_per_s = (peak_per_ns * 1e9 * DEMAND_OF_SHARE * share) as u64;
        let paced = with(&tuned.spec, RATE, rate_per_s.max(1));
        Ok(self.tune(paced, self.service_ns, CLOSE)?.spec)
    }

    /// Work per nanosecond of a shape, fixed costs apart.
    fn demand(&mut self, spec: WorkloadSpec) -> Result<(Tuned, f64), LoadError> {
        let short_ns = (self.service_ns / 8).max(SHORT_NS_MIN).min(self.service_ns);
        let mut tuned = self.tune(spec, short_ns, CLOSE_SHORT)?;
        if slope(&tuned.points).is_none() {
            let knob = self.knob;
            let value = tuned
                .spec
                .params
                .get(knob.param)
                .copied()
                .unwrap_or(knob.granule);
            let other = rounded(value as f64 * 2.0, knob.granule, knob.max);
            let point = self.point(&with(&tuned.spec, knob.param, other))?;
            tuned.points.push(point);
        }
        let (_, work_per_ns) = slope(&tuned.points).ok_or_else(|| self.missed(0))?;
        Ok((tuned, work_per_ns))
    }

    /// The shape of a short request at the length of a whole one, as far as its slope tells.
    fn at_length(&self, tuned: Tuned) -> Result<WorkloadSpec, LoadError> {
        let knob = self.knob;
        let (ns_per_value, _) = slope(&tuned.points).ok_or_else(|| self.missed(0))?;
        let last = tuned.points.last().ok_or_else(|| self.missed(0))?;
        let value = last.value + (self.service_ns as f64 - last.took_ns) / ns_per_value;
        Ok(with(
            &tuned.spec,
            knob.param,
            rounded(value, knob.granule, knob.max),
        ))
    }

    fn point(&mut self, spec: &WorkloadSpec) -> Result<Point, LoadError> {
        let knob = self.knob;
        let found = self.bench.measure(spec, REQUESTS)?;
        let value = spec.params.get(knob.param).copied().unwrap_or(knob.granule) as f64;
        let took_ns = found.service_ns.max(1) as f64;
        Ok(Point {
            value,
            took_ns,
            work: found.work_per_request,
        })
    }

    /// Turns the knob until the length is right.
    fn tune(
        &mut self,
        first: WorkloadSpec,
        wanted_ns: u64,
        close: f64,
    ) -> Result<Tuned, LoadError> {
        let allowed = close.max(self.tolerance());
        let mut spec = first;
        let mut best: Option<(f64, WorkloadSpec, f64)> = None;
        let mut points = Vec::new();
        let mut ends_between_steps = false;
        for _ in 0..ATTEMPTS_MAX {
            let point = self.point(&spec)?;
            points.push(point);
            let miss = miss(point.took_ns, wanted_ns);
            if best.as_ref().is_none_or(|best| miss < best.0) {
                best = Some((miss, spec.clone(), point.took_ns));
            }
            if miss <= close {
                break;
            }
            let Some(next) = next_step(&points, wanted_ns, self.knob) else {
                ends_between_steps = true;
                break;
            };
            spec = with(&spec, self.knob.param, next);
        }
        let Some((miss, spec, took_ns)) = best else {
            return Err(self.missed(0));
        };
        if miss <= allowed {
            return Ok(Tuned { spec, points });
        }
        if !ends_between_steps {
            // The cast saturates; the figure is for a message.
            return Err(self.missed(took_ns as u64));
        }
        // A short request need only be short, and an aggressor needs no length.
        let is_whole = wanted_ns == self.service_ns;
        if is_whole && self.workload.role != Role::Aggressor {
            return Err(self.between_steps(&spec, took_ns)?);
        }
        self.takes_nearest |= is_whole;
        Ok(Tuned { spec, points })
    }

    /// What to say where no value of the knob is nearer than this one, which is not near enough.
    fn between_steps(
        &mut self,
        nearest: &WorkloadSpec,
        nearest_ns: f64,
    ) -> Result<LoadError, LoadError> {
        let knob = self.knob;
        let least = self.point(&with(nearest, knob.param, knob.granule))?;
        // The casts saturate; the figures are for a message.
        Ok(LoadError::NoSuchLength {
            workload: self.workload.name,
            wanted_ns: self.service_ns,
            tolerance_pct: (TOLERANCE * 100.0).round() as u32,
            nearest_ns: nearest_ns as u64,
            least_ns: least.took_ns as u64,
            least: format!("{} = {}", knob.param, knob.granule),
        })
    }

    fn tolerance(&self) -> f64 {
        match self.workload.role {
            Role::Aggressor => TOLERANCE_AGGRESSOR,
            Role::Victim | Role::Peer | Role::Idle => TOLERANCE,
        }
    }

    fn accept(&self, found_ns: u64) -> Result<(), LoadError> {
        let good = miss(found_ns as f64, self.service_ns) <= self.tolerance();
        if good || self.takes_nearest {
            Ok(())
        } else {
            Err(self.missed(found_ns))
        }
    }

    fn missed(&self, found_ns: u64) -> LoadError {
        let (workload, wanted_ns) = (self.workload.name, self.service_ns);
        LoadError::Length {
            workload,
            attempts: ATTEMPTS_MAX,
            found_ns,
            wanted_ns,
        }
    }
}

/// How far one time is from the wanted one, relative to that.
fn miss(found_ns: f64, wanted_ns: u64) -> f64 {
    (found_ns / wanted_ns as f64 - 1.0).abs()
}

/// Nanoseconds for each step of the knob and work for each nanosecond, through the last measurement
/// and the latest before it that is far enough away.
fn slope(points: &[Point]) -> Option<(f64, f64)> {
    let (last, before) = points.split_last()?;
    let far = |point: &&Point| point.value.max(last.value) >= APART * point.value.min(last.value);
    let other = before.iter().rev().find(far)?;
    let (value, took_ns) = (last.value - other.value, last.took_ns - other.took_ns);
    let rising = took_ns / value > 0.0;
    rising.then(|| (took_ns / value, (last.work - other.work) / took_ns))
}

/// The value to try next: on the line through two measurements, or proportional to the only one.
fn next_value(points: &[Point], wanted_ns: u64) -> f64 {
    let Some(last) = points.last() else {
        return 1.0;
    };
    let wanted = match slope(points) {
        Some((slope, _)) => last.value + (wanted_ns as f64 - last.took_ns) / slope,
        None => last.value * wanted_ns as f64 / last.took_ns,
    };
    wanted.clamp(last.value / STEP_MAX, last.value * STEP_MAX)
}

/// The value to try next, a multiple of the granule; none where the last one is as near as any by
/// what is known, and the one beside it towards the wanted length was tried.
fn next_step(points: &[Point], wanted_ns: u64, knob: Knob) -> Option<u64> {
    let last = points.last()?;
    let value = |value: f64| rounded(value, knob.granule, knob.max);
    let next = value(next_value(points, wanted_ns));
    if next as f64 != last.value {
        return Some(next);
    }
    let step = knob.granule as f64;
    let towards = if last.took_ns < wanted_ns as f64 {
        step
    } else {
        -step
    };
    let beside = value(last.value + towards);
    let tried = |point: &Point| point.value == beside as f64;
    (!points.iter().any(tried)).then_some(beside)
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
