//! The open loop: latencies, lateness, and whether the victim kept up with what was offered.
//!
//! Overload by the letter is "fewer than 99 % of the offered requests completed, or a backlog that
//! grows". In a short loop the few requests that are always in flight would be more than 1 %, and
//! a slope is above zero half the time, so both count only beyond [`BACKLOG_MIN`] requests: a
//! queue at half load exceeds ten requests once in two thousand instants.

use gpubench_record::sample::MISSING;
use gpubench_record::{Bursts, Condition, GateState, Phase, SampleRow, SampleStatus};
use gpubench_stats::schedule_ns;

use super::quantiles::{lateness_p99_ns, put, quantile_ns};
use super::spans::{Span, Windows};
use super::{
    CellObservation, Findings, OFFERED_REQUESTS, OPEN_REQUESTS, Tenant, WITHIN_SLO_REQUESTS,
    answers, figure, samples,
};

/// Name of the gate. In a contended cell that overloads it stands as not evaluated, since whether
/// that is a finding depends on N and S of the same block; scoring reads it there.
pub const GATE: &str = "overload";

/// A backlog of so many requests is no chance of arrivals.
const BACKLOG_MIN: f64 = 10.0;
/// Share of the offered requests that may be outstanding at the end.
const BACKLOG_SHARE: f64 = 0.01;
/// How far a logged schedule may lie from the computed one: a rate that went through text may
/// differ in its last digit, and each gap may then round the other way.
const SCHEDULE_TOLERANCE_NS: u64 = 1_000;

pub(super) fn judge(
    observation: &CellObservation<'_>,
    victim: &Tenant<'_>,
    windows: &Windows,
    found: &mut Findings,
) {
    let rows = samples::of_phase(victim.rows, Phase::Open);
    found
        .requests
        .insert(OPEN_REQUESTS.to_owned(), rows.len() as u64);
    let planned_ns = planned_arrivals(observation, windows.open);
    let offered_ns: Vec<u64> = match &planned_ns {
        Some(planned_ns) => planned_ns.clone(),
        None => rows.iter().map(|row| row.t_sched_ns).collect(),
    };
    if let Some(slo_ns) = observation.slo_ns {
        within(slo_ns, offered_ns.len(), &rows, found);
    }
    let backlog = Queue::of(&offered_ns, &ended_ns(victim, &rows), windows.open);
    figures(&backlog, &offered_ns, windows.open, found);
    let why = backlog.overload(victim.result.overloaded);
    overload_gate(observation.cell.condition, why.as_deref(), found);
    schedule_gate(planned_ns.as_deref(), &rows, why.is_some(), found);
    latencies(&rows, why.is_some(), found);
    put(
        found,
        "lateness_idle_p99_ns",
        lateness_p99_ns(rows.iter().filter(|r| r.issuer_idle)),
    );
    put(
        found,
        "lateness_busy_p99_ns",
        lateness_p99_ns(rows.iter().filter(|r| !r.issuer_idle)),
    );
}

/// The arrivals that this block's seed gives, on the cell's clock.
fn planned_arrivals(observation: &CellObservation<'_>, open: Span) -> Option<Vec<u64>> {
    let rate_per_s = observation.offered_per_s?;
    let seed = observation.cell.schedule_seed;
    let bursts = observation.bursts.map(shape);
    let offsets_ns = schedule_ns(rate_per_s, open.length_ns(), seed, bursts).ok()?;
    Some(
        offsets_ns
            .iter()
            .map(|offset_ns| open.start_ns + offset_ns)
            .collect(),
    )
}

/// Bursts as the generator of schedules takes them.
const fn shape(bursts: Bursts) -> gpubench_stats::Bursts {
    gpubench_stats::Bursts {
        requests: bursts.requests,
        peak: bursts.peak,
    }
}

/// How many of the offered requests kept the promise. One that failed, never ended or was never
/// issued did not.
fn within(slo_ns: u64, offered: usize, rows: &[SampleRow], found: &mut Findings) {
    let kept = |row: &&SampleRow| {
        let latency_ns = row.latency_ns().filter(|_| row.status == SampleStatus::Ok);
        latency_ns.is_some_and(|latency_ns| latency_ns <= slo_ns)
    };
    let kept = rows.iter().filter(kept).count();
    for (name, count) in [(OFFERED_REQUESTS, offered), (WITHIN_SLO_REQUESTS, kept)] {
        found.requests.insert(name.to_owned(), count as u64);
    }
}

/// The victim was offered exactly the arrivals that every cell of its block is offered.
fn schedule_gate(
    planned_ns: Option<&[u64]>,
    rows: &[SampleRow],
    overloaded: bool,
    found: &mut Findings,
) {
    const GATE: &str = "schedule";
    let Some(planned_ns) = planned_ns else {
        return found.not_evaluated(GATE, "the rate of the schedule is not known");
    };
    let (have, want) = (rows.len(), planned_ns.len());
    let astray = rows
        .iter()
        .zip(planned_ns)
        .position(|(row, planned)| row.t_sched_ns.abs_diff(*planned) > SCHEDULE_TOLERANCE_NS);
    if let Some(at) = astray {
        let detail =
            format!("request {at} of the open loop was not due when its block's seed says");
        return found.holds(GATE, false, detail);
    }
    let detail = format!("{have} of {want} arrivals of the block's seed were issued");
    // An overloaded victim is cut off; that has a gate of its own.
    found.holds(GATE, have == want || (overloaded && have < want), detail);
}

/// When requests completed, rising; one whose refusal is an answer ended with that.
fn ended_ns(victim: &Tenant<'_>, rows: &[SampleRow]) -> Vec<u64> {
    let answers = victim.answering_codes;
    let ended = |row: &SampleRow| {
        if answers::is_refusal(answers, row) {
            return Some(row.t_ret_ns);
        }
        (row.status == SampleStatus::Ok && row.t_done_ns != MISSING).then_some(row.t_done_ns)
    };
    let mut done_ns: Vec<u64> = rows.iter().filter_map(ended).collect();
    done_ns.sort_unstable();
    done_ns
}

/// Requests due and not complete, over the second half of the open loop.
#[derive(Debug)]
struct Queue {
    offered: f64,
    done_in_time: f64,
    at_end: f64,
    /// Fitted growth per second; `None` with fewer than two instants to fit.
    slope_per_s: Option<f64>,
    half_s: f64,
}

impl Queue {
    fn of(offered_ns: &[u64], done_ns: &[u64], open: Span) -> Self {
        let until = |stamps: &[u64], t_ns: u64| stamps.partition_point(|s| *s <= t_ns) as f64;
        let middle_ns = open.start_ns + open.length_ns() / 2;
        let points: Vec<(f64, f64)> = offered_ns
            .iter()
            .filter(|t_ns| **t_ns >= middle_ns)
            .map(|&t_ns| {
                let backlog = until(offered_ns, t_ns) - until(done_ns, t_ns);
                ((t_ns - middle_ns) as f64 / 1e9, backlog)
            })
            .collect();
        let (offered, done) = (offered_ns.len() as f64, until(done_ns, open.end_ns));
        Self {
            offered,
            done_in_time: done,
            at_end: offered - done,
            slope_per_s: slope(&points),
            half_s: open.length_s() / 2.0,
        }
    }

    /// Why the victim counts as overloaded, if it does.
    fn overload(&self, limit_reached: bool) -> Option<String> {
        let allowed = (BACKLOG_SHARE * self.offered).max(BACKLOG_MIN);
        let growth = self.slope_per_s.unwrap_or(0.0) * self.half_s;
        let what = if limit_reached {
            "the limit of outstanding requests was reached".to_owned()
        } else if self.at_end > allowed || growth > allowed {
            format!(
                "{} of {} requests were outstanding at the end",
                self.at_end, self.offered
            )
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

fn figures(backlog: &Queue, offered_ns: &[u64], open: Span, found: &mut Findings) {
    if offered_ns.is_empty() {
        return;
    }
    found.rate(figure::OFFERED_PER_S, backlog.offered / open.length_s());
    found.rate(
        figure::GOODPUT_PER_S,
        backlog.done_in_time / open.length_s(),
    );
    put(found, figure::BACKLOG_SLOPE_PER_S, backlog.slope_per_s);
}

fn overload_gate(condition: Condition, why: Option<&str>, found: &mut Findings) {
    match why {
        None => found.holds(GATE, true, "the victim kept up with its schedule"),
        Some(why) if condition.has_aggressor() => {
            let detail = format!("{why}; no percentiles; held against N and S by scoring");
            found.gate(GATE, GateState::NotEvaluated, detail);
        }
        Some(why) => found.holds(GATE, false, why),
    }
}

/// Percentiles of latency, and of service for comparison with tools that stamp at issue. Under
/// overload they grow with the length of the run, so there are none.
fn latencies(rows: &[SampleRow], overloaded: bool, found: &mut Findings) {
    if overloaded {
        return;
    }
    let ran: Vec<&SampleRow> = rows
        .iter()
        .filter(|row| row.status != SampleStatus::Error)
        .collect();
    let latency_ns: Vec<u64> = ran.iter().filter_map(|row| row.latency_ns()).collect();
    for (name, p) in [
        (figure::OPEN_LATENCY_P50_NS, 0.5),
        ("open_latency_p90_ns", 0.9),
        (figure::OPEN_LATENCY_P99_NS, 0.99),
        ("open_latency_p999_ns", 0.999),
    ] {
        put(found, name, quantile_ns(&latency_ns, ran.len(), p));
    }
    let service_ns: Vec<u64> = ran.iter().filter_map(|row| row.service_ns()).collect();
    put(
        found,
        "open_service_p50_ns",
        quantile_ns(&service_ns, ran.len(), 0.5),
    );
}
