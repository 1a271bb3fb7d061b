//! Finds the parameters with which one request takes the target time on this device.
//!
//! Records compare only where victims do the same work, so no parameter may follow the noise of a
//! measurement. Parameters are derived from what the device reports
//! ([`expected`](super::expected)). Measurements only check them, with wide limits: the length of a
//! request within its tolerance, the demand of a victim at most its share. Where a check fails, a
//! search finds the value, which is then rounded to a coarse grid around the derived one.
//!
//! The search: a request costs a fixed part and a part proportional to the workload's knob. Two
//! measurements give both, and the next value follows from them. A victim that could use more than
//! its share of a resource gets fewer blocks, then smaller ones, until it cannot. Its demand is
//! measured with short requests, from the proportional part alone, because the fixed part would
//! make it look smaller.
//!
//! Where one step of the knob is long, as with allocations, some lengths are impossible. A victim
//! is then refused with the nearest possible length; an aggressor uses the nearest.

mod search;
#[cfg(test)]
mod tests;

use gpubench_catalogue::workload::{Knob, Throttle};
use gpubench_kernels::driver::DeviceProps;
use gpubench_record::{Role, WorkloadSpec};
use search::Search;

use super::expected::{Bench, OnDevice};
use super::{Gpu, Load, LoadError};
use crate::clock::Time;

/// An abiding victim demands at most this fraction of its share, in every resource.
pub(super) const DEMAND_OF_SHARE: f64 = 0.9;

/// A derived number of blocks stays if the measured demand is between these fractions of the share.
const DEMAND_KEPT: [f64; 2] = [0.4, 1.0];

/// The part of a request that is no work: a launch, in a round figure.
const FIXED_NS: f64 = 5_000.0;

/// The parameter that limits a victim with pauses: maximum work per second.
const RATE: &str = "rate_per_s";

/// Tolerance of the length of a victim's request.
const TOLERANCE: f64 = 0.1;

/// Tolerance for an aggressor, which needs no exact length.
const TOLERANCE_AGGRESSOR: f64 = 0.25;

/// A deviation below this ends the search.
const CLOSE: f64 = 0.02;

/// The same for the short requests that measure the demand.
const CLOSE_SHORT: f64 = 0.3;

/// Length of a short request: an eighth of a whole one, but long compared with the fixed part.
const SHORT_NS_MIN: u64 = 100_000;

const ATTEMPTS_MAX: u32 = 12;

/// Shapes tried until the demand is within the share.
const SHAPES_MAX: u32 = 24;

/// Requests for one attempt, and for the reported figures.
const REQUESTS: usize = 7;
const REQUESTS_FINAL: usize = 31;

/// Requests where one is a single driver call, which may take a large fraction of a second.
const REQUESTS_FIXED: usize = 5;

#[derive(Debug, Clone, PartialEq)]
pub struct Calibrated {
    pub spec: WorkloadSpec,
    /// Requests per second: closed loop at depth 1 for a victim, without a pause for an aggressor.
    pub rate_per_s: f64,
    /// Median time of one request without a neighbour.
    pub service_ns: u64,
    pub work_per_request: f64,
}

/// Calibrates one workload on the device, which no other tenant may use.
/// Fails when the share is too small, the length cannot be reached, or the driver refuses.
pub fn calibrate(
    workload: &Load,
    gpu: &Gpu,
    time: &dyn Time,
    share: f64,
    service_ns: u64,
) -> Result<Calibrated, LoadError> {
    let mut bench = OnDevice { workload, gpu, time };
    calibrate_with(workload, &mut bench, &gpu.props, share, service_ns)
}

fn calibrate_with(
    workload: &Load,
    bench: &mut dyn Bench,
    props: &DeviceProps,
    share: f64,
    service_ns: u64,
) -> Result<Calibrated, LoadError> {
    if !(share > 0.0 && share <= 1.0) || service_ns == 0 {
        let found = format!("share {share}, service time {service_ns} ns");
        let accepted = "a share above 0 and at most 1, and a time above 0".to_owned();
        let param = "target";
        return Err(LoadError::Param {
            workload: workload.facts.name.to_owned(),
            param,
            found,
            accepted,
        });
    }
    let first = workload.first_guess(props, share)?;
    let (spec, found) = match workload.facts.knob {
        // One driver call of fixed length.
        None => {
            let found = bench.measure(&first, REQUESTS_FIXED)?;
            (first, found)
        }
        Some(knob) => {
            let mut search = Search { workload, knob, bench, service_ns, takes_nearest: false };
            let shape = match workload.facts.throttle {
                Throttle::None => first,
                Throttle::Blocks => search.within_share(first, props, share)?,
                Throttle::Pauses => search.at_a_pace(first, share)?,
            };
            search.at_length(&shape, props)?
        }
    };
    let requests = workload.facts.knob.map_or(REQUESTS_FIXED, |_| REQUESTS_FINAL);
    let rate_per_s = match workload.facts.role {
        Role::Aggressor => bench.peak_rate_per_s(&spec, requests)?,
        Role::Victim | Role::Peer | Role::Idle => found.rate_per_s,
    };
    let (service_ns, work_per_request) = (found.service_ns, found.work_per_request);
    Ok(Calibrated { spec, rate_per_s, service_ns, work_per_request })
}

// Fits the knob of a workload to a target length, from measured points.

/// Smallest distance of two values of the knob for a usable slope.
const APART: f64 = 1.3;

/// Largest factor between two attempts: a first guess may be mostly fixed cost.
const STEP_MAX: f64 = 64.0;

/// One measured value of the knob.
#[derive(Debug, Clone, Copy)]
struct Point {
    value: f64,
    elapsed_ns: f64,
    work: f64,
}

/// Relative deviation of a time from the target.
fn miss(found_ns: f64, target_ns: u64) -> f64 {
    (found_ns / target_ns as f64 - 1.0).abs()
}

/// Nanoseconds per step of the knob and work per nanosecond, through the last point and the latest
/// earlier one that is far enough away.
fn slope(points: &[Point]) -> Option<(f64, f64)> {
    let (last, before) = points.split_last()?;
    let far = |point: &&Point| point.value.max(last.value) >= APART * point.value.min(last.value);
    let other = before.iter().rev().find(far)?;
    let (value, elapsed_ns) = (last.value - other.value, last.elapsed_ns - other.elapsed_ns);
    let rising = elapsed_ns / value > 0.0;
    rising.then(|| (elapsed_ns / value, (last.work - other.work) / elapsed_ns))
}

/// The next value: on the line through two points, or proportional to the only point.
fn next_value(points: &[Point], target_ns: u64) -> f64 {
    let Some(last) = points.last() else { return 1.0 };
    let target = match slope(points) {
        Some((slope, _)) => last.value + (target_ns as f64 - last.elapsed_ns) / slope,
        None => last.value * target_ns as f64 / last.elapsed_ns,
    };
    target.clamp(last.value / STEP_MAX, last.value * STEP_MAX)
}

/// The next value, a multiple of the granule; `None` where no other value can be nearer to the
/// target and the neighbouring value was tried.
fn next_step(points: &[Point], target_ns: u64, knob: Knob) -> Option<u64> {
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
fn rounded(value: f64, granule: u64, max: u64) -> u64 {
    // Values are far below 2^53 where it matters, and the cast saturates above.
    let granules = (value / granule as f64).round() as u64;
    granules.max(1).saturating_mul(granule).min(max / granule * granule)
}

fn with(spec: &WorkloadSpec, param: &str, value: u64) -> WorkloadSpec {
    let mut spec = spec.clone();
    spec.params.insert(param.to_owned(), value);
    spec
}

// Coarse grids for values that no figure of the device gives: two measurements of one device that
// differ by noise nearly always give the same value.

/// Ratio of neighbouring values: half a step is well within the tolerance of a length.
const STEP: f64 = 1.104;

/// Smaller values, in granules, are apart as far as the steps of the grid.
const GRANULES_MIN: u64 = 10;

/// A host link with 16 lanes of the third generation carries 12.8e9 bytes/s, and each generation
/// twice as much as the one before. Half a doubling is far from every full-width link.
const LINK_PER_S: f64 = 12.8e9;
const LINKS_PER_DOUBLING: f64 = 2.0;

/// The part of the rounded rate that keeps a victim within 0.95 of its share of the measured one.
const LINK_USED: f64 = 0.8;

/// The value of the grid around `centre` that is nearest to a measured value.
fn nearest(value: u64, centre: u64, knob: Knob) -> u64 {
    if value < GRANULES_MIN * knob.granule {
        return value;
    }
    let centre = centre.max(1) as f64;
    let steps = (value as f64 / centre).ln() / STEP.ln();
    rounded(centre * STEP.powf(steps.round()), knob.granule, knob.max)
}

/// The largest number of blocks on the grid below `most` that is at most the wanted one, and at
/// least 1.
fn at_most(wanted: f64, most: u64) -> u64 {
    let steps = (most as f64 / wanted.max(1.0)).ln() / STEP.ln();
    // Truncation gives fewer blocks.
    ((most as f64 * STEP.powf(-steps.ceil())) as u64).max(1)
}

/// Bytes per second over the host link that a victim with the whole link as its share uses.
fn link_per_s(measured_per_s: f64) -> f64 {
    let doublings = (measured_per_s / LINK_PER_S).log2();
    let rounded = (doublings * LINKS_PER_DOUBLING).round() / LINKS_PER_DOUBLING;
    LINK_USED * LINK_PER_S * rounded.exp2()
}

#[cfg(test)]
mod grid_tests {
    use super::*;

    const KNOB: Knob = Knob { param: "iterations", granule: 1, max: 1 << 40 };

    #[test]
    fn noise_does_not_change_a_value_near_a_point_of_the_grid() {
        for centre in [1_000, 12_269] {
            for k in -9..9 {
                let point = (f64::from(centre) * STEP.powi(k)).round();
                for noise in [0.96, 0.98, 1.0, 1.02, 1.04] {
                    let value = (point * noise).round() as u64;
                    assert_eq!(nearest(value, centre as u64, KNOB), point as u64);
                }
            }
        }
        // Whole steps are apart as far.
        assert_eq!(nearest(7, 1_000, KNOB), 7);
    }

    #[test]
    fn blocks_are_at_most_as_many_as_wanted() {
        for most in [1, 7, 56] {
            for wanted in 1..=most {
                let blocks = at_most(wanted as f64, most);
                assert!(blocks <= wanted && blocks as f64 > wanted as f64 / STEP - 1.0);
            }
        }
    }

    #[test]
    fn links_of_one_generation_have_one_rate_within_the_share() {
        for (generation, rates) in [(0, [11.5e9, 12.0e9, 13.2e9]), (2, [46e9, 50.8e9, 56e9])] {
            let used = LINK_USED * LINK_PER_S * f64::from(generation).exp2();
            for measured in rates {
                assert_eq!(link_per_s(measured), used);
                assert!((0.65..=0.95).contains(&(used / measured)));
            }
        }
    }
}
