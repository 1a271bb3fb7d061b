//! Measures requests until their length is right and a victim keeps to its share.

use gpubench_catalogue::workload::Knob;
use gpubench_kernels::driver::DeviceProps;
use gpubench_record::{Role, WorkloadSpec};

use super::{
    ATTEMPTS_MAX, CLOSE, CLOSE_SHORT, DEMAND_KEPT, DEMAND_OF_SHARE, FIXED_NS, RATE, REQUESTS,
    REQUESTS_FINAL, SHAPES_MAX, SHORT_NS_MIN, TOLERANCE, TOLERANCE_AGGRESSOR,
};
use super::{Point, miss, next_step, rounded, slope, with};
use crate::load::calibrate;
use crate::load::expected::{Bench, Measured};
use crate::load::{Load, LoadError};

pub(super) struct Search<'a> {
    pub(super) workload: &'a Load,
    pub(super) knob: Knob,
    pub(super) bench: &'a mut dyn Bench,
    pub(super) service_ns: u64,
    /// Whether the length is the nearest possible one, outside the tolerance.
    pub(super) takes_nearest: bool,
}

/// The end of a search for a length.
pub(super) struct Tuned {
    pub(super) spec: WorkloadSpec,
    points: Vec<Point>,
}

impl Search<'_> {
    /// Sets the length of a request of this shape: the derived value of the knob where its length
    /// is right, else the one that a search finds, on the grid.
    pub(super) fn at_length(
        &mut self,
        shape: &WorkloadSpec,
        props: &DeviceProps,
    ) -> Result<(WorkloadSpec, Measured), LoadError> {
        let knob = self.knob;
        let derived = self.derived(shape, props)?;
        let mut from = shape.clone();
        if let Some(value) = derived {
            from = with(shape, knob.param, value);
            let found = self.bench.measure(&from, REQUESTS_FINAL)?;
            if miss(found.service_ns as f64, self.service_ns) <= self.tolerance() {
                return Ok((from, found));
            }
        }
        let tuned = self.tune(from, self.service_ns, CLOSE)?.spec;
        let value = tuned.params.get(knob.param).copied().unwrap_or(knob.granule);
        let value = calibrate::nearest(value, derived.unwrap_or(knob.granule), knob);
        let spec = with(&tuned, knob.param, value);
        let found = self.bench.measure(&spec, REQUESTS_FINAL)?;
        self.accept(found.service_ns)?;
        Ok((spec, found))
    }

    /// The value of the knob that follows from the figures of the device and the rate of a victim
    /// with pauses. The work of a short request shows how the work follows the knob.
    fn derived(
        &mut self,
        shape: &WorkloadSpec,
        props: &DeviceProps,
    ) -> Result<Option<u64>, LoadError> {
        let paced = shape.params.get(RATE).map(|rate| *rate as f64);
        let paced = paced.filter(|rate| *rate > 0.0);
        let Some(per_s) = paced.or_else(|| self.workload.expected_per_s(props, shape)) else {
            return Ok(None);
        };
        let short = self.point(shape)?;
        let work_per_value = short.work / short.value;
        let work = per_s * (self.service_ns as f64 - FIXED_NS).max(0.0) / 1e9;
        let Knob { granule, max, .. } = self.knob;
        Ok((work_per_value > 0.0).then(|| rounded(work / work_per_value, granule, max)))
    }

    /// Sets the number of blocks: the derived one where the measured demand suits the share, else
    /// fewer and then smaller blocks until the demand is within the share.
    pub(super) fn within_share(
        &mut self,
        first: WorkloadSpec,
        props: &DeviceProps,
        share: f64,
    ) -> Result<WorkloadSpec, LoadError> {
        let shape = |spec: &WorkloadSpec, of: &str| spec.params.get(of).copied().unwrap_or(1);
        // At most the threads of a block, which fit 32 bits.
        let full = props.full_grid(shape(&first, "threads") as u32).blocks;
        let (tuned, peak) = self.demand(with(&first, "blocks", full.into()))?;
        let limit = DEMAND_OF_SHARE * share;
        let most = shape(&first, "blocks");
        // Truncation gives fewer blocks.
        let derived = (limit * self.workload.saturating_sms(props)) as u64;
        let derived = with(&tuned.spec, "blocks", derived.clamp(1, most));
        let (kept, demand) = self.demand(derived)?;
        if (DEMAND_KEPT[0] * share..=DEMAND_KEPT[1] * share).contains(&(demand / peak)) {
            return Ok(kept.spec);
        }
        // The knob starts at its value for the shape before.
        let mut spec = with(&tuned.spec, "blocks", most);
        let mut used = f64::INFINITY;
        for _ in 0..SHAPES_MAX {
            let (tuned, demand) = self.demand(spec.clone())?;
            used = demand / peak;
            let (blocks, threads) = (shape(&spec, "blocks"), shape(&spec, "threads"));
            if used <= limit {
                return Ok(tuned.spec);
            }
            if blocks > 1 {
                let fewer = calibrate::at_most(blocks as f64 * limit / used, most).min(blocks - 1);
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
        Err(LoadError::Demand { workload: self.workload.facts.name, demand: used, limit })
    }

    /// Limits the rate to the share of the resource's rate without pauses.
    pub(super) fn at_a_pace(
        &mut self,
        first: WorkloadSpec,
        share: f64,
    ) -> Result<WorkloadSpec, LoadError> {
        let (tuned, peak_per_ns) = self.demand(with(&first, RATE, 0))?;
        // No rate comes near the limit of 64 bits.
        let rate_per_s = (calibrate::link_per_s(peak_per_ns * 1e9) * share) as u64;
        Ok(with(&tuned.spec, RATE, rate_per_s.max(1)))
    }

    /// Work per nanosecond of a shape, without the fixed cost.
    fn demand(&mut self, spec: WorkloadSpec) -> Result<(Tuned, f64), LoadError> {
        let short_ns = (self.service_ns / 8).max(SHORT_NS_MIN).min(self.service_ns);
        let mut tuned = self.tune(spec, short_ns, CLOSE_SHORT)?;
        if slope(&tuned.points).is_none() {
            let knob = self.knob;
            let value = tuned.spec.params.get(knob.param).copied().unwrap_or(knob.granule);
            let other = rounded(value as f64 * 2.0, knob.granule, knob.max);
            let point = self.point(&with(&tuned.spec, knob.param, other))?;
            tuned.points.push(point);
        }
        let (_, work_per_ns) = slope(&tuned.points).ok_or_else(|| self.missed(0))?;
        Ok((tuned, work_per_ns))
    }

    fn point(&mut self, spec: &WorkloadSpec) -> Result<Point, LoadError> {
        let knob = self.knob;
        let found = self.bench.measure(spec, REQUESTS)?;
        let value = spec.params.get(knob.param).copied().unwrap_or(knob.granule) as f64;
        let elapsed_ns = found.service_ns.max(1) as f64;
        Ok(Point { value, elapsed_ns, work: found.work_per_request })
    }

    /// Adjusts the knob until the length is right.
    pub(super) fn tune(
        &mut self,
        first: WorkloadSpec,
        target_ns: u64,
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
            let miss = miss(point.elapsed_ns, target_ns);
            if best.as_ref().is_none_or(|best| miss < best.0) {
                best = Some((miss, spec.clone(), point.elapsed_ns));
            }
            if miss <= close {
                break;
            }
            let Some(next) = next_step(&points, target_ns, self.knob) else {
                ends_between_steps = true;
                break;
            };
            spec = with(&spec, self.knob.param, next);
        }
        let Some((miss, spec, elapsed_ns)) = best else { return Err(self.missed(0)) };
        if miss <= allowed {
            return Ok(Tuned { spec, points });
        }
        if !ends_between_steps {
            // The cast saturates; the figure is for a message.
            return Err(self.missed(elapsed_ns as u64));
        }
        // A short request need only be short, and an aggressor needs no exact length.
        let is_whole = target_ns == self.service_ns;
        if is_whole && self.workload.facts.role != Role::Aggressor {
            return Err(self.between_steps(&spec, elapsed_ns)?);
        }
        self.takes_nearest |= is_whole;
        Ok(Tuned { spec, points })
    }

    /// The error where the nearest value of the knob is not near enough.
    fn between_steps(
        &mut self,
        nearest: &WorkloadSpec,
        nearest_ns: f64,
    ) -> Result<LoadError, LoadError> {
        let knob = self.knob;
        let smallest = self.point(&with(nearest, knob.param, knob.granule))?;
        // The casts saturate; the figures are for a message.
        Ok(LoadError::NoSuchLength {
            workload: self.workload.facts.name,
            target_ns: self.service_ns,
            tolerance_pct: (TOLERANCE * 100.0).round() as u32,
            nearest_ns: nearest_ns as u64,
            smallest_ns: smallest.elapsed_ns as u64,
            smallest: format!("{} = {}", knob.param, knob.granule),
        })
    }

    fn tolerance(&self) -> f64 {
        match self.workload.facts.role {
            Role::Aggressor => TOLERANCE_AGGRESSOR,
            Role::Victim | Role::Peer | Role::Idle => TOLERANCE,
        }
    }

    pub(super) fn accept(&self, found_ns: u64) -> Result<(), LoadError> {
        let good = miss(found_ns as f64, self.service_ns) <= self.tolerance();
        if good || self.takes_nearest { Ok(()) } else { Err(self.missed(found_ns)) }
    }

    fn missed(&self, found_ns: u64) -> LoadError {
        let (workload, target_ns) = (self.workload.facts.name, self.service_ns);
        LoadError::Length { workload, attempts: ATTEMPTS_MAX, found_ns, target_ns }
    }
}
