//! Fits the knob of a workload to a target length, from measured points.

use gpubench_record::WorkloadSpec;

use crate::load::Knob;

/// Smallest distance of two values of the knob for a usable slope.
const APART: f64 = 1.3;

/// Largest factor between two attempts: a first guess may be mostly fixed cost.
const STEP_MAX: f64 = 64.0;

/// One measured value of the knob.
#[derive(Debug, Clone, Copy)]
pub(super) struct Point {
    pub(super) value: f64,
    pub(super) elapsed_ns: f64,
    pub(super) work: f64,
}

/// Relative deviation of a time from the target.
pub(super) fn miss(found_ns: f64, target_ns: u64) -> f64 {
    (found_ns / target_ns as f64 - 1.0).abs()
}

/// Nanoseconds per step of the knob and work per nanosecond, through the last point and the latest
/// earlier one that is far enough away.
pub(super) fn slope(points: &[Point]) -> Option<(f64, f64)> {
    let (last, before) = points.split_last()?;
    let far = |point: &&Point| point.value.max(last.value) >= APART * point.value.min(last.value);
    let other = before.iter().rev().find(far)?;
    let (value, elapsed_ns) = (last.value - other.value, last.elapsed_ns - other.elapsed_ns);
    let rising = elapsed_ns / value > 0.0;
    rising.then(|| (elapsed_ns / value, (last.work - other.work) / elapsed_ns))
}

/// The next value: on the line through two points, or proportional to the only point.
fn next_value(points: &[Point], target_ns: u64) -> f64 {
    let Some(last) = points.last() else {
        return 1.0;
    };
    let target = match slope(points) {
        Some((slope, _)) => last.value + (target_ns as f64 - last.elapsed_ns) / slope,
        None => last.value * target_ns as f64 / last.elapsed_ns,
    };
    target.clamp(last.value / STEP_MAX, last.value * STEP_MAX)
}

/// The next value, a multiple of the granule; `None` where no other value can be nearer to the
/// target and the neighbouring value was tried.
pub(super) fn next_step(points: &[Point], target_ns: u64, knob: Knob) -> Option<u64> {
    let last = points.last()?;
    let value = |value: f64| rounded(value, knob.granule, knob.max);
    let next = value(next_value(points, target_ns));
    if next as f64 != last.value {
        return Some(next);
    }
    let step = knob.granule as f64;
    let towards = if last.elapsed_ns < target_ns as f64 { step } else { -step };
    let beside = value(last.value + towards);
    let tried = |point: &Point| point.value == beside as f64;
    (!points.iter().any(tried)).then_some(beside)
}

/// The nearest multiple of the granule within the limits.
pub(super) fn rounded(value: f64, granule: u64, max: u64) -> u64 {
    // Values are far below 2^53 where it matters, and the cast saturates above.
    let granules = (value / granule as f64).round() as u64;
    granules.max(1).saturating_mul(granule).min(max / granule * granule)
}

/// The same workload with another value of one parameter.
pub(super) fn with(spec: &WorkloadSpec, param: &str, value: u64) -> WorkloadSpec {
    let mut spec = spec.clone();
    spec.params.insert(param.to_owned(), value);
    spec
}
