//! The open loop of a shared victim, predicted from its closed loop, beside the measurement.
//!
//! If tenants run side by side, the victim is one queue with the contended service time. Under
//! time-slicing, a request of an idle victim waits for the rest of the neighbour's time slice, so
//! the time slices are simulated.

use gpubench_record::condition::SubAxis;
use gpubench_record::run::RunRecord;
use gpubench_stats::{Confidence, Effect};
use serde::Serialize;

use super::link::{Copies, Neighbour};
use super::{Choices, Native, Shared, aggressor_native_per_s, median};
use crate::parallel::percentiles;
use crate::rng::{FastRng, Stream};
use crate::simulate::event;
use crate::simulate::event::Request;
use crate::simulate::event::slicing::{TimeSlice, run_until};

/// Limit of the copies of a request; above it, one more makes no difference.
const MAX_COPIES: u32 = 1000;
const TIME_SLICED: [&str; 2] = ["time-slicing", "hami"];

/// A predicted figure beside a measured one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Miss {
    pub predicted_ms: Option<f64>,
    /// Measured: the mean over blocks.
    pub measured_ms: Option<f64>,
    /// Lower bound of its 95 % t interval; `None` for fewer than two blocks.
    pub measured_lo_ms: Option<f64>,
    pub measured_hi_ms: Option<f64>,
    pub blocks: u32,
    /// Error of the prediction: above zero if it is too high.
    pub miss_percent: Option<f64>,
}

/// One victim beside one aggressor under one mechanism.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    pub mechanism: String,
    pub variant: String,
    pub aggressor: String,
    /// Service time beside the aggressor, in the closed loop.
    pub contended_ms: Option<f64>,
    /// Factor by which one busy neighbour lengthens a request, if tenants run side by side.
    pub contention: Option<f64>,
    /// Cost of a context switch, under time-slicing.
    pub switch_ms: Option<f64>,
    /// Length of the neighbour's time slice, under time-slicing.
    #[serde(rename = "turn_ms")]
    pub time_slice_ms: Option<f64>,
    /// Load of the open loop on the victim's queue.
    pub load: Option<f64>,
    pub p50: Miss,
    /// The 99th percentile.
    pub p99: Miss,
    pub note: Option<String>,
}

/// Predicts one row and compares it with its measurement.
pub(super) fn compare(
    record: &RunRecord,
    victim: &str,
    native: Native,
    row: &Shared,
    choices: &Choices,
) -> Comparison {
    let native_ms = native.service_ms;
    let contended_ms = median(&row.closed_ms);
    let neighbours = f64::from(record.plan.tenants.saturating_sub(1).max(1));
    let is_sliced = TIME_SLICED.contains(&row.mechanism.as_str());
    let slices = contended_ms.filter(|_| is_sliced).map(|contended_ms| {
        time_slices(record, row, native, contended_ms, neighbours, choices.slice_ms)
    });
    let offered_per_s = median(&row.offered_per_s);
    let load = contended_ms.zip(offered_per_s).map(|(ms, per_s)| ms / 1000.0 * per_s);
    let latencies_ms = contended_ms.zip(offered_per_s).filter(|_| load.is_some_and(|l| l < 1.0));
    let link = contended_ms.and_then(|ms| on_the_link(record, victim, row, native_ms, ms));
    let latencies_ms =
        latencies_ms.and_then(|(contended_ms, offered_per_s)| match (&slices, link) {
            (_, Some(link)) => on_link_ms(link, native_ms, offered_per_s, choices.seed),
            (Some(slices), None) => {
                slices.open_loop_ms(native, offered_per_s, neighbours, choices.seed)
            }
            (None, None) => Some(open_loop_ms(contended_ms, offered_per_s, choices.seed)),
        });
    let predicted =
        latencies_ms.and_then(|mut latencies_ms| percentiles(&mut latencies_ms, [50.0, 99.0]));
    let side_by_side = contended_ms.filter(|_| !is_sliced);
    Comparison {
        mechanism: row.mechanism.clone(),
        variant: row.variant.clone(),
        aggressor: row.aggressor.clone(),
        contended_ms,
        contention: side_by_side.map(|ms| (ms / native_ms - 1.0) / neighbours),
        switch_ms: slices.as_ref().and_then(|slices| slices.switch_ms),
        time_slice_ms: slices.as_ref().map(|slices| slices.neighbour_ms),
        load,
        p50: miss(predicted.map(|[p50_ms, _]| p50_ms), &row.p50_ms),
        p99: miss(predicted.map(|[_, p99_ms]| p99_ms), &row.p99_ms),
        note: note(row, load, link.is_some()),
    }
}

/// The copies of the victim and the neighbour, if the resource is the host link, which has no time
/// slices.
fn on_the_link(
    record: &RunRecord,
    victim: &str,
    row: &Shared,
    native_ms: f64,
    contended_ms: f64,
) -> Option<(Copies, Neighbour)> {
    let is_link = record.plan.cells.iter().any(|cell| {
        cell.sub_axis == SubAxis::Pcie && cell.aggressor.as_ref() == Some(&row.aggressor)
    });
    if !is_link {
        return None;
    }
    let entries = &record.calibration.entries;
    let (aggressor, own) = (entries.get(&row.aggressor)?, entries.get(victim)?);
    let count = own.spec.params.get("parts").copied().unwrap_or(1);
    let copies = Copies::new(
        u32::try_from(count).unwrap_or(MAX_COPIES).min(MAX_COPIES),
        native_ms / 1000.0,
        own.work_per_request,
        aggressor.work_per_request * aggressor.native_rate_per_s,
    );
    let copy_s = 1.0 / aggressor.native_rate_per_s;
    if !can_simulate(contended_ms / 1000.0, copy_s) {
        return None;
    }
    let neighbour = Neighbour::from_closed_loop(copies, contended_ms / 1000.0, copy_s)?;
    Some((copies, neighbour))
}

fn note(row: &Shared, load: Option<f64>, is_link: bool) -> Option<String> {
    let missing = row.without_latency;
    match load {
        None => Some("the record lacks the closed loop or the offered rate".to_owned()),
        Some(load) if load >= 1.0 => {
            Some(format!("overloaded at a load of {load:.2}: latency grows without limit"))
        }
        Some(_) if is_link => Some("copies queue for the link, first come first served".to_owned()),
        Some(_) if missing > 0 => Some(format!("{missing} blocks have no open-loop latency")),
        Some(_) => None,
    }
}

struct TimeSlices {
    /// Length of one neighbour's time slice.
    neighbour_ms: f64,
    /// Cost of a context switch, if the record has the figures for it.
    switch_ms: Option<f64>,
}

/// Time slices from the closed loop.
///
/// A request of the victim takes its own GPU time and, before each of its slices, a slice of each
/// neighbour and the context switches. Host time of a request overlaps the neighbours' slices, so
/// the whole cycle counts. The share of time without work of any tenant is the cost of switches.
fn time_slices(
    record: &RunRecord,
    row: &Shared,
    native: Native,
    contended_ms: f64,
    neighbours: f64,
    slice_ms: f64,
) -> TimeSlices {
    let per_s = median(&row.rate_per_s);
    let cycle_ms = per_s.map_or(contended_ms, |per_s| contended_ms.max(1000.0 / per_s));
    let own_slices = (native.gpu_ms / slice_ms).ceil().max(1.0);
    let others_ms = (cycle_ms - native.gpu_ms).max(0.0) / own_slices;
    let changes = neighbours + 1.0;
    let victim_share = native.gpu_ms / cycle_ms;
    let aggressor_share = median(&row.aggressor_rate_per_s)
        .zip(aggressor_native_per_s(record, &row.aggressor))
        .map(|(shared, native)| shared / native);
    let switch_ms = aggressor_share.filter(|_| per_s.is_some()).map(|aggressor| {
        let lost = (1.0 - victim_share - aggressor).max(0.0);
        (lost * cycle_ms / own_slices / changes).min(others_ms / changes)
    });
    let neighbour_ms = (others_ms - changes * switch_ms.unwrap_or(0.0)).max(0.0) / neighbours;
    TimeSlices { neighbour_ms, switch_ms }
}

impl TimeSlices {
    fn open_loop_ms(
        &self,
        native: Native,
        offered_per_s: f64,
        neighbours: f64,
        seed: u64,
    ) -> Option<Vec<f64>> {
        if self.neighbour_ms <= 0.0 {
            return Some(open_loop_ms(native.service_ms, offered_per_s, seed));
        }
        let gap_ms = (1000.0 / offered_per_s).max(native.gpu_ms);
        if !can_simulate(gap_ms, self.neighbour_ms) {
            return None;
        }
        let mut requests = poisson(native.gpu_ms, offered_per_s, seed);
        let last_s = requests.last().map_or(0.0, |request| request.arrival_s);
        // A neighbour that is always busy: one request, longer than the whole run.
        let endless = |tenant: usize| Request {
            arrival_s: 0.0,
            work_s: 100.0 * (last_s + native.gpu_ms * REQUESTS as f64),
            tenant,
        };
        let neighbours = neighbours as usize;
        requests.splice(0..0, (1..=neighbours).map(endless));
        let time_slice = TimeSlice::new(self.neighbour_ms, self.switch_ms.unwrap_or(0.0));
        let until = |request: &Request| request.tenant == 0;
        let ends_s = run_until(&requests, neighbours + 1, time_slice, until);
        let host_ms = native.service_ms - native.gpu_ms;
        let mut found_ms = latencies_ms(&requests[neighbours..], &ends_s[neighbours..]);
        found_ms.iter_mut().for_each(|latency_ms| *latency_ms += host_ms);
        Some(found_ms)
    }
}

/// A queue shared with a neighbour that always has copies outstanding.
fn on_link_ms(
    (copies, neighbour): (Copies, Neighbour),
    native_ms: f64,
    offered_per_s: f64,
    seed: u64,
) -> Option<Vec<f64>> {
    if !can_simulate(1.0 / offered_per_s, neighbour.copy_s) {
        return None;
    }
    let requests = poisson(native_ms, offered_per_s, seed);
    let arrivals_s: Vec<f64> = requests.iter().map(|r| r.arrival_s).collect();
    let ends_s = neighbour.ends_s(copies, &arrivals_s);
    Some(latencies_ms(&requests, &ends_s))
}

fn miss(predicted_ms: Option<f64>, measured_ms: &[f64]) -> Miss {
    let mean_ms = crate::parallel::mean(measured_ms);
    // One block has a figure and no interval.
    let interval = Confidence::from_alpha(0.05)
        .and_then(|confidence| Effect::of_mean(measured_ms)?.interval(confidence))
        .ok();
    let pair = predicted_ms.zip(mean_ms);
    Miss {
        predicted_ms,
        measured_ms: mean_ms,
        measured_lo_ms: interval.map(|found| found.lo),
        measured_hi_ms: interval.map(|found| found.hi),
        blocks: measured_ms.len() as u32,
        miss_percent: pair.map(|(predicted, measured)| 100.0 * (predicted / measured - 1.0)),
    }
}

// The requests of a simulated open loop.

/// Requests of the simulated open loop, many more than in a measurement.
pub(super) const REQUESTS: usize = 60_000;
/// Steps of one simulated loop: those of every measured record are far below it.
const STEPS_MAX: f64 = 2e8;

/// Whether the time between two requests has so few steps that the loop ends. The figures are those
/// of a record, which another person may have written.
pub(super) fn can_simulate(gap: f64, step: f64) -> bool {
    gap.is_finite() && step > 0.0 && gap / step * REQUESTS as f64 <= STEPS_MAX
}

/// One queue with a fixed service time.
pub(super) fn open_loop_ms(service_ms: f64, offered_per_s: f64, seed: u64) -> Vec<f64> {
    let requests = poisson(service_ms, offered_per_s, seed);
    let ends_s = event::one_queue(&requests, 0.0);
    latencies_ms(&requests, &ends_s)
}

/// Requests of one tenant at random instants.
pub(super) fn poisson(service_ms: f64, offered_per_s: f64, seed: u64) -> Vec<Request> {
    let mut stream = FastRng::new(seed);
    let mut arrival_s = 0.0;
    let request = |_| {
        arrival_s += stream.standard_exponential() / offered_per_s;
        Request { arrival_s, work_s: service_ms / 1000.0, tenant: 0 }
    };
    (0..REQUESTS).map(request).collect()
}

pub(super) fn latencies_ms(requests: &[Request], ends_s: &[f64]) -> Vec<f64> {
    let pairs = requests.iter().zip(ends_s);
    pairs.map(|(request, end_s)| (end_s - request.arrival_s) * 1000.0).collect()
}
