//! The open loop: latencies, lateness, and whether the victim kept up with the offered requests.
//!
//! A victim is overloaded where fewer than 99 % of the offered requests completed, or where the
//! backlog grows. In a short loop the few requests that are always in flight exceed 1 %, and a
//! fitted slope is above zero half the time, so both count only beyond [`BACKLOG_MIN`] requests: an
//! M/M/1 queue at half load exceeds ten requests at one instant in two thousand (`0.5^11`).

use gpubench_record::sample::MISSING;
use gpubench_record::{Cell, Gate, GateState, Phase, SampleRow, SampleStatus};

use super::catalogue::finite;
use super::quantiles::{DurationsNs, lateness_p99_ns};
use super::spans::{Span, Windows};
use super::{
    CellObservation, Findings, OFFERED_REQUESTS, OPEN_REQUESTS, Tenant, WITHIN_SLO_REQUESTS,
    lateness, samples,
};

/// A backlog of up to this many requests can be chance.
const BACKLOG_MIN: f64 = 10.0;
/// Share of the offered requests that may be outstanding at the end.
const BACKLOG_SHARE: f64 = 0.01;

pub(super) fn judge(
    observation: &CellObservation<'_>,
    victim: &Tenant<'_>,
    windows: &Windows,
    found: &mut Findings,
) {
    let rows = samples::of_phase(victim.rows, Phase::Open);
    found.count_requests(OPEN_REQUESTS, rows.len());
    let planned_ns = lateness::planned_arrivals(observation, windows.open);
    let offered_ns: Vec<u64> = match &planned_ns {
        Some(planned_ns) => planned_ns.clone(),
        None => rows.iter().map(|row| row.t_sched_ns).collect(),
    };
    if let Some(slo_ns) = observation.slo_ns {
        count_within_slo(slo_ns, offered_ns.len(), &rows, found);
    }
    let queue = Queue::of(&offered_ns, &ended_ns(victim, &rows), windows.open);
    throughput(&queue, windows.open, found);
    let why = queue.overload(victim.result.overloaded);
    overload_gate(observation.cell, why.as_deref(), found);
    found.numbers(Some(queue.at_end), Some(queue.allowed()), "requests");
    lateness::judge_schedule(planned_ns.as_deref(), &rows, why.is_some(), found);
    if why.is_none() {
        latencies(&rows, found);
    }
    let lateness = |idle: bool| lateness_p99_ns(rows.iter().filter(|row| row.issuer_idle == idle));
    found.figures.lateness_idle_p99_ns = lateness(true).and_then(finite);
    found.figures.lateness_busy_p99_ns = lateness(false).and_then(finite);
}

/// Counts the offered requests that kept the promised latency. A request that failed, never ended
/// or was never issued did not keep it.
fn count_within_slo(slo_ns: u64, offered: usize, rows: &[SampleRow], found: &mut Findings) {
    let kept = |row: &&SampleRow| {
        let latency_ns = row.latency_ns().filter(|_| row.status == SampleStatus::Ok);
        latency_ns.is_some_and(|latency_ns| latency_ns <= slo_ns)
    };
    found.count_requests(OFFERED_REQUESTS, offered);
    found.count_requests(WITHIN_SLO_REQUESTS, rows.iter().filter(kept).count());
}

/// When requests ended, rising. A request that is refused with an answering code ended when the
/// driver call returned.
fn ended_ns(victim: &Tenant<'_>, rows: &[SampleRow]) -> Vec<u64> {
    let answers = victim.answering_codes;
    let ended = |row: &SampleRow| {
        if samples::is_refusal(answers, row) {
            return Some(row.t_ret_ns);
        }
        (row.status == SampleStatus::Ok && row.t_done_ns != MISSING).then_some(row.t_done_ns)
    };
    let mut done_ns: Vec<u64> = rows.iter().filter_map(ended).collect();
    done_ns.sort_unstable();
    done_ns
}

/// Counts rising stamps up to instants that rise, too.
struct Until<'a> {
    stamps_ns: &'a [u64],
    count: usize,
}

impl<'a> Until<'a> {
    const fn new(stamps_ns: &'a [u64]) -> Self {
        Self { stamps_ns, count: 0 }
    }

    /// How many are at or before `t_ns`.
    fn count(&mut self, t_ns: u64) -> f64 {
        let later = self.stamps_ns[self.count..].iter();
        self.count += later.take_while(|stamp_ns| **stamp_ns <= t_ns).count();
        self.count as f64
    }
}

/// The victim's queue: requests that are due and not complete.
#[derive(Debug)]
struct Queue {
    offered: f64,
    done_in_time: f64,
    at_end: f64,
    /// Growth per second over the second half of the open loop, by least squares; `None` with fewer
    /// than two instants to fit.
    slope_per_s: Option<f64>,
    half_s: f64,
    /// Requests that became due in that half.
    offered_in_half: f64,
}

impl Queue {
    fn of(offered_ns: &[u64], done_ns: &[u64], open: Span) -> Self {
        let middle_ns = open.start_ns + open.length_ns() / 2;
        let (mut due, mut done) = (Until::new(offered_ns), Until::new(done_ns));
        let points: Vec<(f64, f64)> = offered_ns
            .iter()
            .filter(|t_ns| **t_ns >= middle_ns)
            .map(|&t_ns| {
                let backlog = due.count(t_ns) - done.count(t_ns);
                ((t_ns - middle_ns) as f64 / 1e9, backlog)
            })
            .collect();
        let offered = offered_ns.len() as f64;
        let done = Until::new(done_ns).count(open.end_ns);
        Self {
            offered,
            done_in_time: done,
            at_end: offered - done,
            slope_per_s: slope(&points),
            half_s: open.length_s() / 2.0,
            offered_in_half: points.len() as f64,
        }
    }

    /// The backlog that may remain.
    fn allowed(&self) -> f64 {
        (BACKLOG_SHARE * self.offered).max(BACKLOG_MIN)
    }

    /// Why the victim counts as overloaded; `None` where it does not.
    fn overload(&self, limit_reached: bool) -> Option<String> {
        let allowed = self.allowed();
        // Too few points for a slope: the backlog at the end decides alone.
        // A line through a few arrivals close together may be steep by chance, but a backlog grows
        // by no more than what was offered.
        let fitted = self.slope_per_s.unwrap_or(0.0) * self.half_s;
        let growth = fitted.min(self.offered_in_half);
        let what = if limit_reached {
            "the limit of outstanding requests was reached".to_owned()
        } else if self.at_end > allowed || growth > allowed {
            format!("{} of {} requests were outstanding at the end", self.at_end, self.offered)
        } else {
            return None;
        };
        let slope = self.slope_per_s.map_or(String::new(), |slope| {
            format!(", the backlog grew by {slope:.1} requests per s")
        });
        Some(format!("{what}{slope}"))
    }
}

/// Slope of the least-squares line.
fn slope(points: &[(f64, f64)]) -> Option<f64> {
    let n = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / n;
    let (mean_x, mean_y) = (mean(|p| p.0), mean(|p| p.1));
    let xx: f64 = points.iter().map(|p| (p.0 - mean_x).powi(2)).sum();
    let xy: f64 = points.iter().map(|p| (p.0 - mean_x) * (p.1 - mean_y)).sum();
    (xx > 0.0).then(|| xy / xx)
}

/// Rates of requests that were offered and that completed in time, and the growth of the backlog.
fn throughput(queue: &Queue, open: Span, found: &mut Findings) {
    if queue.offered == 0.0 {
        return;
    }
    found.figures.offered_per_s = finite(queue.offered / open.length_s());
    found.figures.goodput_per_s = finite(queue.done_in_time / open.length_s());
    found.figures.backlog_slope_per_s = queue.slope_per_s.and_then(finite);
}

/// Overload fails a native or solo cell. In a contended cell it is not evaluated here: whether it
/// is the neighbour's doing depends on N and S of the same block, and `score` decides that. At a
/// load of its own a cell is there to show whether it is overloaded.
fn overload_gate(cell: &Cell, why: Option<&str>, found: &mut Findings) {
    match why {
        None => found.holds(Gate::Overload, true, "the victim kept up with its schedule"),
        Some(why) if cell.shape.load_pct.is_some() => {
            found.gate(Gate::Overload, GateState::NotEvaluated, format!("{why}; no percentiles"));
        }
        Some(why) if cell.condition.has_aggressor() => {
            let detail = format!("{why}; no percentiles; held against N and S by scoring");
            found.gate(Gate::Overload, GateState::NotEvaluated, detail);
        }
        Some(why) => found.holds(Gate::Overload, false, why),
    }
}

/// Percentiles of latency, and the median service time for comparison with tools that stamp at
/// issue. Not under overload, where they grow with the length of the run.
fn latencies(rows: &[SampleRow], found: &mut Findings) {
    let ran: Vec<&SampleRow> =
        rows.iter().filter(|row| row.status != SampleStatus::Error).collect();
    let latency_ns = ran.iter().filter_map(|row| row.latency_ns()).collect();
    let latency_ns = DurationsNs::new(latency_ns, ran.len());
    let figures = &mut found.figures;
    for (figure, p) in [
        (&mut figures.open_latency_p50_ns, 0.5),
        (&mut figures.open_latency_p90_ns, 0.9),
        (&mut figures.open_latency_p99_ns, 0.99),
        (&mut figures.open_latency_p999_ns, 0.999),
    ] {
        *figure = latency_ns.quantile(p).and_then(finite);
    }
    let service_ns = ran.iter().filter_map(|row| row.service_ns()).collect();
    let median_ns = DurationsNs::new(service_ns, ran.len()).quantile(0.5);
    found.figures.open_service_p50_ns = median_ns.and_then(finite);
}

#[cfg(test)]
mod tests {
    use super::{Queue, Span};

    #[test]
    fn few_arrivals_close_together_are_no_overload_and_many_that_wait_are() {
        let open = Span { start_ns: 0, end_ns: 20_000_000 };
        let all_done = [13_000_000, 14_000_000, 15_000_000];
        let close = Queue::of(&[11_000_000, 11_100_000, 11_150_000], &all_done, open);
        assert!(close.slope_per_s.is_some_and(|slope| slope > 10_000.0));
        assert_eq!(close.overload(false), None);
        let waiting: Vec<u64> = (0..40).map(|i| i * 500_000).collect();
        assert!(Queue::of(&waiting, &[], open).overload(false).is_some());
    }
}
