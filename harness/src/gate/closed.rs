//! Figures of the closed loop: the rate of fixed work, and the time that one request takes.

use gpubench_record::sample::MISSING;
use gpubench_record::{Gate, Phase, SampleRow, SampleStatus, counted};

use super::findings::finite;
use super::quantiles::median_ns;
use super::spans::{Span, outstanding};
use super::{CLOSED_REQUESTS, CellObservation, Findings, Tenant, answers, samples};

/// Fewest completions that make a rate. The estimate is biased by about `cv^2 / n`, with `cv` the
/// coefficient of variation of a cycle; with fewer completions the bias could move a level.
const COMPLETIONS_MIN: usize = 10;
/// Share of the closed loop in which a starved victim has a request outstanding: all but the time
/// that its own thread takes between two requests.
const STARVED_BUSY_MIN: f64 = 0.99;

pub(super) fn measure(
    observation: &CellObservation<'_>,
    victim: &Tenant<'_>,
    window: Span,
    found: &mut Findings,
) {
    let rows = samples::of_phase(victim.rows, Phase::Closed);
    let done = completed(&rows);
    let have = done.clone().count();
    let requests = counted(have, "request");
    found.count_requests(CLOSED_REQUESTS, have);
    match rate_per_s(&rows) {
        Some(rate) => {
            found.figures.closed_rate_per_s = finite(rate);
            let clock_mhz = observation.host.sm_clock_khz.map(|khz| khz as f64 / 1e3);
            found.figures.sm_clock_mhz = clock_mhz.and_then(finite);
            let detail = format!("{requests} completed in the closed loop");
            found.holds(Gate::ClosedRate, true, detail);
            found.numbers(Some(have as f64), Some(COMPLETIONS_MIN as f64), "requests");
        }
        None if answered(victim, &rows) >= COMPLETIONS_MIN => {
            let detail = format!(
                "{have} of {} requests honoured, the others refused: no rate, and that is the \
                 answer",
                rows.len()
            );
            found.not_evaluated(Gate::ClosedRate, detail);
        }
        None if is_starved(observation, victim, window) => {
            let max_per_s = (have + 1) as f64 / window.length_s();
            found.figures.closed_rate_per_s = finite(max_per_s);
            let detail = format!(
                "starved: {requests} completed in the closed loop, with one outstanding all \
                 the time; the rate is the most that it can have been"
            );
            found.not_evaluated(Gate::ClosedRate, detail);
        }
        None => {
            let detail =
                format!("{requests} completed in the closed loop, a rate needs {COMPLETIONS_MIN}");
            found.holds(Gate::ClosedRate, false, detail);
            found.numbers(Some(have as f64), Some(COMPLETIONS_MIN as f64), "requests");
        }
    }
    let service_ns: Vec<u64> = done.clone().filter_map(SampleRow::service_ns).collect();
    found.figures.closed_service_p50_ns = median_ns(service_ns).and_then(finite);
    let gpu_ns = done.map(|row| row.gpu_ns);
    let gpu_ns: Vec<u64> = gpu_ns.filter(|ns| *ns != MISSING).collect();
    found.figures.gpu_p50_ns = median_ns(gpu_ns).and_then(finite);
}

/// Whether the victim of a contended cell completed few requests because each lasted long: it lived
/// to the end, had no errors, and had work outstanding in nearly all of the closed loop. This is
/// the strongest harm that an aggressor can do, so the cell keeps a rate, as an upper bound.
fn is_starved(observation: &CellObservation<'_>, victim: &Tenant<'_>, window: Span) -> bool {
    if !observation.cell.condition.has_aggressor()
        || victim.death().is_some()
        || window.length_ns() == 0
    {
        return false;
    }
    if victim.rows.iter().any(|row| row.status == SampleStatus::Error) {
        return false;
    }
    let busy_ns: u64 = outstanding(victim.rows)
        .iter()
        .map(|span| {
            let end_ns = span.end_ns.min(window.end_ns);
            end_ns.saturating_sub(span.start_ns.max(window.start_ns))
        })
        .sum();
    busy_ns as f64 >= STARVED_BUSY_MIN * window.length_ns() as f64
}

/// Requests that completed or were refused with an answering code; 0 where none was refused so.
fn answered(victim: &Tenant<'_>, rows: &[SampleRow]) -> usize {
    let answers = victim.answering_codes;
    let refused = rows.iter().filter(|row| answers::is_refusal(answers, row));
    match refused.count() {
        0 => 0,
        refused => refused + completed(rows).count(),
    }
}

/// Completions per second of a victim's closed loop; `None` where too few completed for a rate.
#[must_use]
pub fn closed_rate_per_s(rows: &[SampleRow]) -> Option<f64> {
    rate_per_s(&samples::of_phase(rows, Phase::Closed))
}

/// Requests that completed with the right result.
pub(super) fn completed(rows: &[SampleRow]) -> impl Iterator<Item = &SampleRow> + Clone {
    let is_done = |row: &&SampleRow| row.status == SampleStatus::Ok && row.t_done_ns != MISSING;
    rows.iter().filter(is_done)
}

/// Completions over the time from when the first request could be issued to the last completion.
///
/// At depth 1 each request could be issued when the one before had completed, so the span holds
/// whole cycles only: counting the completions of a fixed window would gain or lose up to one
/// cycle at each end. The last request is the first to complete after the window's end, and by
/// Wald's identity `E[span] = E[cycles] * E[cycle]` for such a stopping rule, so cutting there
/// favours neither long nor short requests.
fn rate_per_s(rows: &[SampleRow]) -> Option<f64> {
    let start_ns = rows.first()?.t_sched_ns;
    let done_ns = completed(rows).map(|row| row.t_done_ns);
    let (count, end_ns) = (done_ns.clone().count(), done_ns.max()?);
    if count < COMPLETIONS_MIN || end_ns <= start_ns {
        return None;
    }
    Some(count as f64 * 1e9 / (end_ns - start_ns) as f64)
}
