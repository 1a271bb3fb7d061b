//! The open loop of a shared victim, predicted from its closed loop, beside what was measured.
//!
//! Where tenants run side by side the victim is one queue whose service time is the contended one.
//! Where they take turns, a request that finds the victim idle waits only for what is left of the
//! neighbour's turn, so the turns themselves are simulated.

use super::Choices;
use super::figures::{Native, Shared, aggressor_native_per_s, median};
use super::link::{Neighbour, Parts};
use crate::percentile::percentiles;
use crate::rng::{FastRng, Stream};
use crate::simulate::event::fifo;
use crate::simulate::event::slicing::{Turn, run_until};
use crate::simulate::event::traffic::Request;
use gpubench_record::condition::SubAxis;
use gpubench_record::run::RunRecord;
use gpubench_stats::{Confidence, Effect};
use serde::Serialize;

/// Requests of the simulated open loop: a p99 of so many is far surer than any measured one.
const REQUESTS: usize = 60_000;
/// Parts of a request that are distinguished; with so many, one more or less makes no difference.
const MOST_PARTS: u32 = 1000;
/// Mechanisms under which tenants take turns.
const TURNS: [&str; 2] = ["time-slicing", "hami"];

/// A predicted figure beside a measured one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Miss {
    /// Predicted.
    pub predicted_ms: Option<f64>,
    /// Measured: the mean over blocks.
    pub measured_ms: Option<f64>,
    /// Lower end of its 95 % t interval; nothing for fewer than two blocks.
    pub measured_lo_ms: Option<f64>,
    /// Upper end.
    pub measured_hi_ms: Option<f64>,
    /// Blocks behind it.
    pub blocks: u32,
    /// By how much the prediction is too high (above zero) or too low.
    pub miss_percent: Option<f64>,
}

/// One victim beside one aggressor under one mechanism.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// The mechanism.
    pub mechanism: String,
    /// Its variant.
    pub variant: String,
    /// The aggressor.
    pub aggressor: String,
    /// Service time beside the aggressor, in the closed loop.
    pub contended_ms: Option<f64>,
    /// How much one busy neighbour stretches a request; only where tenants run side by side.
    pub contention: Option<f64>,
    /// What a change of tenant costs; only where they take turns.
    pub switch_ms: Option<f64>,
    /// Length of the neighbour's turn; only where they take turns.
    pub turn_ms: Option<f64>,
    /// Work that the open loop brings, in seconds of the victim's own server.
    pub load: Option<f64>,
    /// The median.
    pub p50: Miss,
    /// The 99th percentile.
    pub p99: Miss,
    /// What there is to know about the row.
    pub note: Option<String>,
}

/// Predicts one row and puts it beside its measurement.
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
    let has_turns = TURNS.contains(&row.mechanism.as_str());
    let turns = contended_ms.filter(|_| has_turns).map(|contended_ms| {
        turns(
            record,
            row,
            native,
            contended_ms,
            neighbours,
            choices.slice_ms,
        )
    });
    let offered_per_s = median(&row.offered_per_s);
    let load = contended_ms
        .zip(offered_per_s)
        .map(|(ms, per_s)| ms / 1000.0 * per_s);
    let latencies_ms = contended_ms
        .zip(offered_per_s)
        .filter(|_| load.is_some_and(|l| l < 1.0));
    let link = contended_ms.and_then(|ms| on_the_link(record, victim, row, native_ms, ms));
    let latencies_ms = latencies_ms.map(|(contended_ms, offered_per_s)| match (&turns, link) {
        (_, Some(link)) => on_link_ms(link, native_ms, offered_per_s, choices.seed),
        (Some(turns), None) => turns.open_loop_ms(native, offered_per_s, neighbours, choices.seed),
        (None, None) => open_loop_ms(contended_ms, offered_per_s, choices.seed),
    });
    let predicted =
        latencies_ms.and_then(|mut latencies_ms| percentiles(&mut latencies_ms, [50.0, 99.0]));
    let side_by_side = contended_ms.filter(|_| !has_turns);
    Comparison {
        mechanism: row.mechanism.clone(),
        variant: row.variant.clone(),
        aggressor: row.aggressor.clone(),
        contended_ms,
        contention: side_by_side.map(|ms| (ms / native_ms - 1.0) / neighbours),
        switch_ms: turns.as_ref().and_then(|turns| turns.switch_ms),
        turn_ms: turns.as_ref().map(|turns| turns.turn_ms),
        load,
        p50: miss(predicted.map(|[p50_ms, _]| p50_ms), &row.p50_ms),
        p99: miss(predicted.map(|[_, p99_ms]| p99_ms), &row.p99_ms),
        note: note(row, load, link.is_some()),
    }
}

/// The victim's and the neighbour's copies, where the row's resource is the host link, which does
/// not take turns.
fn on_the_link(
    record: &RunRecord,
    victim: &str,
    row: &Shared,
    native_ms: f64,
    contended_ms: f64,
) -> Option<(Parts, Neighbour)> {
    let is_link = record.plan.cells.iter().any(|cell| {
        cell.sub_axis == SubAxis::Pcie && cell.aggressor.as_ref() == Some(&row.aggressor)
    });
    if !is_link {
        return None;
    }
    let entries = &record.calibration.entries;
    let (copies, own) = (entries.get(&row.aggressor)?, entries.get(victim)?);
    let count = own.spec.params.get("parts").copied().unwrap_or(1);
    let parts = Parts::new(
        u32::try_from(count).unwrap_or(MOST_PARTS).min(MOST_PARTS),
        native_ms / 1000.0,
        own.work_per_request,
        copies.work_per_request * copies.native_rate_per_s,
    );
    let copy_s = 1.0 / copies.native_rate_per_s;
    let neighbour = Neighbour::from_closed_loop(parts, contended_ms / 1000.0, copy_s)?;
    Some((parts, neighbour))
}

fn note(row: &Shared, load: Option<f64>, is_link: bool) -> Option<String> {
    let missing = row.without_latency;
    match load {
        None => Some("the record lacks the closed loop or the offered rate".to_owned()),
        Some(load) if load >= 1.0 => Some(format!(
            "overloaded at a load of {load:.2}: latency grows without end"
        )),
        Some(_) if is_link => Some("copies queue for the link, first come first served".to_owned()),
        Some(_) if missing > 0 => Some(format!("{missing} blocks have no open-loop latency")),
        Some(_) => None,
    }
}

/// The turns of a victim and its busy neighbours.
struct TimeSlices {
    /// Length of one neighbour's turn.
    turn_ms: f64,
    /// Price of a change, where the record can tell it.
    switch_ms: Option<f64>,
}

/// In the closed loop a request of the victim takes its own time on the GPU and, before each of its
/// turns, a turn of every neighbour and the changes. What the host does around a request happens in
/// the neighbours' turns, so the whole cycle counts and not the service time alone. The share of
/// time that is in nobody's work is the changes'. How many turns a request needs follows from the
/// slice.
fn turns(
    record: &RunRecord,
    row: &Shared,
    native: Native,
    contended_ms: f64,
    neighbours: f64,
    slice_ms: f64,
) -> TimeSlices {
    let per_s = median(&row.rate_per_s);
    let cycle_ms = per_s.map_or(contended_ms, |per_s| contended_ms.max(1000.0 / per_s));
    let own_turns = (native.gpu_ms / slice_ms).ceil().max(1.0);
    let others_ms = (cycle_ms - native.gpu_ms).max(0.0) / own_turns;
    let changes = neighbours + 1.0;
    let victim_share = native.gpu_ms / cycle_ms;
    let aggressor_share = median(&row.aggressor_rate_per_s)
        .zip(aggressor_native_per_s(record, &row.aggressor))
        .map(|(shared, native)| shared / native);
    let switch_ms = aggressor_share
        .filter(|_| per_s.is_some())
        .map(|aggressor| {
            let lost = (1.0 - victim_share - aggressor).max(0.0);
            (lost * cycle_ms / own_turns / changes).min(others_ms / changes)
        });
    let turn_ms = (others_ms - changes * switch_ms.unwrap_or(0.0)).max(0.0) / neighbours;
    TimeSlices { turn_ms, switch_ms }
}

impl TimeSlices {
    fn open_loop_ms(
        &self,
        native: Native,
        offered_per_s: f64,
        neighbours: f64,
        seed: u64,
    ) -> Vec<f64> {
        if self.turn_ms <= 0.0 {
            return open_loop_ms(native.service_ms, offered_per_s, seed);
        }
        let mut requests = poisson(native.gpu_ms, offered_per_s, seed);
        let last_s = requests.last().map_or(0.0, |request| request.arrival_s);
        // A neighbour that is always busy: one request, longer than everything together.
        let endless = |tenant: usize| Request {
            arrival_s: 0.0,
            work_s: 100.0 * (last_s + native.gpu_ms * REQUESTS as f64),
            tenant,
        };
        let neighbours = neighbours as usize;
        requests.splice(0..0, (1..=neighbours).map(endless));
        let turn = Turn::new(self.turn_ms, self.switch_ms.unwrap_or(0.0));
        let until = |request: &Request| request.tenant == 0;
        let ends_s = run_until(&requests, neighbours + 1, turn, until);
        let host_ms = native.service_ms - native.gpu_ms;
        let mut found_ms = latencies_ms(&requests[neighbours..], &ends_s[neighbours..]);
        found_ms
            .iter_mut()
            .for_each(|latency_ms| *latency_ms += host_ms);
        found_ms
    }
}

/// A queue shared with a neighbour whose copies never end.
fn on_link_ms(
    (parts, neighbour): (Parts, Neighbour),
    native_ms: f64,
    offered_per_s: f64,
    seed: u64,
) -> Vec<f64> {
    let requests = poisson(native_ms, offered_per_s, seed);
    let arrivals_s: Vec<f64> = requests.iter().map(|r| r.arrival_s).collect();
    latencies_ms(&requests, &neighbour.ends_s(parts, &arrivals_s))
}

/// One queue with a fixed service time.
fn open_loop_ms(service_ms: f64, offered_per_s: f64, seed: u64) -> Vec<f64> {
    let requests = poisson(service_ms, offered_per_s, seed);
    let ends_s = fifo::one_queue(&requests, 0.0);
    latencies_ms(&requests, &ends_s)
}

fn poisson(service_ms: f64, offered_per_s: f64, seed: u64) -> Vec<Request> {
    let mut stream = FastRng::new(seed);
    let mut arrival_s = 0.0;
    let request = |_| {
        arrival_s += stream.standard_exponential() / offered_per_s;
        Request {
            arrival_s,
            work_s: service_ms / 1000.0,
            tenant: 0,
        }
    };
    (0..REQUESTS).map(request).collect()
}

fn latencies_ms(requests: &[Request], ends_s: &[f64]) -> Vec<f64> {
    let pairs = requests.iter().zip(ends_s);
    pairs
        .map(|(request, end_s)| (end_s - request.arrival_s) * 1000.0)
        .collect()
}

fn miss(predicted_ms: Option<f64>, measured_ms: &[f64]) -> Miss {
    let mean_ms = crate::percentile::mean(measured_ms);
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
