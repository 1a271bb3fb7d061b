//! Figures of the closed loop: the rate of fixed work, and the time that one request takes.

use gpubench_record::sample::MISSING;
use gpubench_record::{Gate, GateState, Phase, SampleRow, SampleStatus, counted};
use gpubench_stats::series;
use gpubench_stats::series::BATCH_REQUESTS;
use gpubench_stats::summary::{mean, moments};

use super::catalogue::finite;
use super::quantiles::median_ns;
use super::spans::{Span, outstanding};
use super::{CLOSED_REQUESTS, CellObservation, Findings, Tenant, WORTH_HAVING_LN, samples};

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
    let [depth, _] = observation.cell.depths();
    match rate_per_s(&rows, depth as usize) {
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
    let refused = rows.iter().filter(|row| samples::is_refusal(answers, row));
    match refused.count() {
        0 => 0,
        refused => refused + completed(rows).count(),
    }
}

/// Completions per second of a victim's closed loop; `None` where too few completed for a rate.
pub fn closed_rate_per_s(rows: &[SampleRow]) -> Option<f64> {
    rate_per_s(&samples::of_phase(rows, Phase::Closed), 1)
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
///
/// With more outstanding the first requests wait for those of the warm-up, and the last ones end
/// with less behind them: the cycles between the first completion and the last one that left a full
/// queue.
fn rate_per_s(rows: &[SampleRow], depth: usize) -> Option<f64> {
    if depth > 1 {
        let mut done_ns: Vec<u64> = completed(rows).map(|row| row.t_done_ns).collect();
        done_ns.sort_unstable();
        let cycles = done_ns.len().checked_sub(depth).filter(|&n| n >= COMPLETIONS_MIN)?;
        let span_ns = done_ns[cycles].checked_sub(done_ns[0]).filter(|&ns| ns > 0)?;
        return Some(cycles as f64 * 1e9 / span_ns as f64);
    }
    let start_ns = rows.first()?.t_sched_ns;
    let done_ns = completed(rows).map(|row| row.t_done_ns);
    let (count, end_ns) = (done_ns.clone().count(), done_ns.max()?);
    if count < COMPLETIONS_MIN || end_ns <= start_ns {
        return None;
    }
    Some(count as f64 * 1e9 / (end_ns - start_ns) as f64)
}

// Steady state of the closed loop: warm-up by MSER-5, and drift between its halves.
//
// A loop had not settled where MSER-5 cuts beyond the middle (White, Cobb and Spratt, "A
// comparison of five steady-state truncation heuristics", WSC 2000), or where its halves differ by
// more than [`WORTH_HAVING_LN`]. Both also happen by chance: in simulations with
// independent samples the cut lies beyond the middle in 8 % of loops of 60 requests, 6 to 15 % of
// 100 to 200, and 2 % of 425 (normal, exponential, lognormal and two-valued samples alike), and a
// run holds hundreds of cells. So the gates fail only where the parts also differ by more than
// [`NOISE_ERRORS`] standard errors. A difference within its noise is reported and not evaluated.
// The difference of the halves is a figure of the cell, from which scoring bounds what drift did.

/// A difference beyond this many standard errors is more than noise. The errors come from batch
/// means within the two parts, so a step or ramp without noise exceeds any number of them.
const NOISE_ERRORS: f64 = 5.0;

pub(super) fn judge(victim: &Tenant<'_>, found: &mut Findings) {
    let rows = samples::of_phase(victim.rows, Phase::Closed);
    let service_ns = completed(&rows).filter_map(SampleRow::service_ns);
    let service_ns: Vec<f64> = service_ns.map(|ns| ns as f64).collect();
    warm_up(&service_ns, found);
    let batches = service_ns.len() / BATCH_REQUESTS;
    match difference(&service_ns, batches / 2) {
        Some(difference) => {
            found.figures.closed_halves_ln = finite(difference.log_ratio);
            found.figures.closed_halves_error_ln = finite(difference.error);
            judge_difference(Gate::Drift, "the halves", difference, found);
        }
        None => found.not_evaluated(Gate::Drift, too_few(service_ns.len())),
    }
}

fn warm_up(service_ns: &[f64], found: &mut Findings) {
    const GATE: Gate = Gate::WarmUp;
    let cut = match series::warm_up(service_ns) {
        Ok(cut) => cut,
        Err(error) => return found.not_evaluated(GATE, error.to_string()),
    };
    if cut.settled() {
        let (cut, of) = (cut.discard_batches, cut.batches);
        return found.holds(GATE, true, format!("MSER-5 cuts {cut} of {of} batches"));
    }
    let what = format!("MSER-5 cuts {} of {} batches, which", cut.discard_batches, cut.batches);
    match difference(service_ns, cut.discard_batches as usize) {
        Some(difference) => judge_difference(GATE, &what, difference, found),
        None => found.not_evaluated(GATE, too_few(service_ns.len())),
    }
}

/// How two parts of a series differ.
#[derive(Debug, Clone, Copy)]
struct Difference {
    /// `ln(mean before / mean after)`.
    log_ratio: f64,
    error: f64,
}

fn judge_difference(gate: Gate, what: &str, difference: Difference, found: &mut Findings) {
    let Difference { log_ratio, error } = difference;
    // Without noise a difference is any number of errors.
    let errors = log_ratio.abs() / error;
    let limit = WORTH_HAVING_LN;
    let detail = format!("{what} differ by {log_ratio:+.4} (log), accepted is up to {limit:.4}");
    let state = if log_ratio.abs() <= limit {
        GateState::Passed
    } else if errors > NOISE_ERRORS {
        GateState::Failed
    } else {
        let detail = format!("{detail}; {errors:.1} standard errors do not tell it from noise");
        found.not_evaluated(gate, detail);
        return found.numbers(Some(log_ratio), Some(limit), "log ratio");
    };
    found.gate(gate, state, detail);
    found.numbers(Some(log_ratio), Some(limit), "log ratio");
}

/// Compares the first `cut` batches with the rest, with the pooled standard error of a two-sample
/// t test; `None` unless each part has two batches.
fn difference(service_ns: &[f64], cut: usize) -> Option<Difference> {
    let batches = service_ns.chunks_exact(BATCH_REQUESTS).map(|batch| mean(batch).ok());
    let batches: Vec<f64> = batches.collect::<Option<_>>()?;
    let (before, after) = batches.split_at_checked(cut)?;
    let (a, b) = (moments(before).ok()?, moments(after).ok()?);
    let freedom = f64::from(a.n + b.n) - 2.0;
    let squares = f64::from(a.n - 1) * a.sd.powi(2) + f64::from(b.n - 1) * b.sd.powi(2);
    let error = (squares / freedom * (1.0 / f64::from(a.n) + 1.0 / f64::from(b.n))).sqrt();
    let log_ratio = a.mean.ln() - b.mean.ln();
    // The error of a logarithm is the relative error.
    let error = error / f64::midpoint(a.mean, b.mean);
    log_ratio.is_finite().then_some(Difference { log_ratio, error })
}

fn too_few(have: usize) -> String {
    format!("too few requests: have {have}, need at least {}", 4 * BATCH_REQUESTS)
}

#[cfg(test)]
mod tests {
    use gpubench_record::{Condition, Gate, GateState, Phase};
    use gpubench_stats::ScheduleRng;

    use crate::gate::fixture::few_closed;
    use crate::gate::fixture::{MS, World, row};

    /// A server of one request at a time has the same rate at every depth, whatever the warm-up
    /// left in its queue and although the last requests have less behind them.
    #[test]
    fn a_serial_server_has_one_rate_at_every_depth() {
        for depth in [1_u64, 2, 4] {
            let done = |seq: u64| (seq + 1) * MS;
            let issued = |seq: u64| if seq < depth { 0 } else { done(seq - depth) };
            let rows: Vec<_> = (depth..depth + 40)
                .map(|seq| row(seq, Phase::Closed, issued(seq), done(seq)))
                .collect();
            let rate = super::rate_per_s(&rows, depth as usize).expect("a rate");
            assert!((rate - 1000.0).abs() < 1e-9, "depth {depth}: {rate}");
        }
    }

    #[test]
    fn noise_alone_fails_neither_gate() {
        let mut failures = 0;
        for seed in 0..300 {
            let mut world = World::new(Condition::N, MS);
            let mut rng = ScheduleRng::new(seed);
            let mut now_ns = 100 * MS;
            for row in world.victim(Phase::Closed) {
                (row.t_sched_ns, row.t_issue_ns) = (now_ns, now_ns);
                now_ns += (rng.exponential() * 1e6) as u64 + 1;
                row.t_done_ns = now_ns;
            }
            few_closed(&mut world, 100);
            let result = world.judge();
            for gate in [Gate::WarmUp, Gate::Drift] {
                failures += usize::from(result.gate_state(&gate) == Some(GateState::Failed));
            }
        }
        assert!(failures <= 1, "{failures} of 300");
    }

    /// The end of work of `service_ns` that is ready at `ready_ns`, where the tenant has the device
    /// for
    /// 2 ms of every 4.02 ms.
    fn end_under_time_slicing(ready_ns: u64, service_ns: u64) -> u64 {
        const SLICE_NS: u64 = 2 * MS;
        const ROUND_NS: u64 = 2 * SLICE_NS + 20_000;
        let (mut now_ns, mut left_ns) = (ready_ns, service_ns);
        loop {
            let within_ns = now_ns % ROUND_NS;
            let own_ns = SLICE_NS.saturating_sub(within_ns);
            if left_ns <= own_ns {
                return now_ns + left_ns;
            }
            left_ns -= own_ns;
            now_ns += ROUND_NS - within_ns;
        }
    }

    /// On a device without noise, time slices and requests form patterns that shift now and then.
    /// Such a loop has settled, and its rate is the share of the time slice.
    #[test]
    fn a_loop_under_time_slicing_is_steady() {
        for service_ns in [700_000, 999_000, MS, 1_003_000, 1_300_000, 1_900_000] {
            let mut world = World::new(Condition::C, service_ns);
            let mut free_ns = 100 * MS;
            let mut closed = Vec::new();
            while free_ns < 950 * MS {
                let end_ns = end_under_time_slicing(free_ns, service_ns);
                closed.push(row(0, Phase::Closed, free_ns, end_ns));
                free_ns = end_ns;
            }
            world.rows[0].retain(|row| row.phase != Phase::Closed);
            for row in world.victim(Phase::Open) {
                free_ns = end_under_time_slicing(row.t_sched_ns.max(free_ns), service_ns);
                row.t_done_ns = free_ns;
            }
            let warm_up = world.rows[0].iter().position(|row| row.phase == Phase::Open);
            let at = warm_up.expect("there are open rows");
            world.rows[0].splice(at..at, closed);
            (0..).zip(&mut world.rows[0]).for_each(|(seq, row)| row.seq = seq);
            let result = world.judge();
            assert!(result.outcome.is_measured(), "{service_ns}: {:?}", result.outcome);
            let rate = result.figures.closed_rate_per_s.unwrap();
            let expected = 2.0 / 4.02 * 1e9 / service_ns as f64;
            assert!(
                (rate / expected - 1.0).abs() < 0.01,
                "{service_ns}: {rate}, expected {expected}"
            );
        }
    }
}
