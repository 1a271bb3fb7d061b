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

use gpubench_kernels::driver::DeviceProps;
use gpubench_record::{Role, WorkloadSpec};

use super::measure::{Bench, OnDevice};
use super::{Gpu, LoadError, Throttle, Workload};
use crate::clock::Time;
use search::Search;

mod fit;
mod grid;
mod search;

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

/// Attempts for one length.
const ATTEMPTS_MAX: u32 = 12;

/// Shapes tried until the demand is within the share.
const SHAPES_MAX: u32 = 24;

/// Requests for one attempt, and for the reported figures.
const REQUESTS: usize = 7;
const REQUESTS_FINAL: usize = 31;

/// Requests where one is a single driver call, which may take a large fraction of a second.
const REQUESTS_FIXED: usize = 5;

/// The result of a calibration.
#[derive(Debug, Clone, PartialEq)]
pub struct Calibrated {
    /// The workload with its parameters.
    pub spec: WorkloadSpec,
    /// Requests per second: closed loop at depth 1 for a victim, without a pause for an aggressor.
    pub rate_per_s: f64,
    /// Median time of one request without a neighbour.
    pub service_ns: u64,
    /// The work of one request, in the unit of the workload.
    pub work_per_request: f64,
}

/// Calibrates one workload on the device, which no other tenant may use.
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
    let mut bench = OnDevice { workload, gpu, time };
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
        let accepted = "a share above 0 and at most 1, and a time above 0".to_owned();
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
        // One driver call of fixed length.
        None => {
            let found = bench.measure(&first, REQUESTS_FIXED)?;
            (first, found)
        }
        Some(knob) => {
            let mut search = Search { workload, knob, bench, service_ns, takes_nearest: false };
            let shape = match workload.throttle() {
                Throttle::None => first,
                Throttle::Blocks => search.within_share(first, props, share)?,
                Throttle::Pauses => search.at_a_pace(first, share)?,
            };
            search.at_length(&shape, props)?
        }
    };
    let requests = workload.knob.map_or(REQUESTS_FIXED, |_| REQUESTS_FINAL);
    let rate_per_s = match workload.role {
        Role::Aggressor => bench.peak_rate_per_s(&spec, requests)?,
        Role::Victim | Role::Peer | Role::Idle => found.rate_per_s,
    };
    let (service_ns, work_per_request) = (found.service_ns, found.work_per_request);
    Ok(Calibrated { spec, rate_per_s, service_ns, work_per_request })
}

#[cfg(test)]
mod tests;
