//! Steady state of the closed loop: warm-up by MSER-5, and drift between its halves.
//!
//! A loop had not settled where MSER-5 cuts beyond the middle (White, Cobb and Spratt, "A
//! comparison of five steady-state truncation heuristics", WSC 2000), or where its halves differ by
//! more than [`WORTH_HAVING_LN`]. Both also happen by chance: in simulations with
//! independent samples the cut lies beyond the middle in 8 % of loops of 60 requests, 6 to 15 % of
//! 100 to 200, and 2 % of 425 (normal, exponential, lognormal and two-valued samples alike), and a
//! run holds hundreds of cells. So the gates fail only where the parts also differ by more than
//! [`NOISE_ERRORS`] standard errors. A difference within its noise is reported and not evaluated.
//! The difference of the halves is a figure of the cell, from which scoring bounds what drift did.

#[cfg(test)]
mod tests;

use gpubench_record::{Gate, GateState, Phase, SampleRow};
use gpubench_stats::moments::{mean, moments};
use gpubench_stats::mser5::{self, BATCH_REQUESTS};

use super::closed::completed;
use super::findings::finite;
use super::{Findings, Tenant, WORTH_HAVING_LN, samples};

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
    let cut = match mser5::warm_up(service_ns) {
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
    /// Its standard error.
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
