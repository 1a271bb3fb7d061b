//! The tail of a block in native medians, and its ends without the lateness of the harness.

use gpubench_record::{CellResult, Estimate, Gate, GateState};

use crate::gate::OPEN_REQUESTS;
use crate::score::systematic::Systematic;

/// Tails of cells with enough requests for a p99.
pub(super) struct Tails {
    requests_min: u64,
}

impl Tails {
    pub(super) const fn new(requests_min: u64) -> Self {
        Self { requests_min }
    }

    /// `[(q99 - q50)_cell - (q99 - q50)_reference] / q50_native`.
    pub(super) fn beyond(
        &self,
        cell: &CellResult,
        reference: &CellResult,
        native: &CellResult,
    ) -> Option<f64> {
        let median_ns = native.figures.open_latency_p50_ns.filter(|ns| *ns > 0.0)?;
        let spread_ns = self.spread_ns(cell)? - self.spread_ns(reference)?;
        Some(spread_ns / median_ns)
    }

    /// The least and the most that the value of a block can be without the lateness of the harness.
    ///
    /// Each quantile lies between its lower figure and the one as measured, so each end takes the
    /// opposite ends of the two that are subtracted. Figures as measured where a cell has no lower
    /// ones: in virtual time, and in older records, whose part is unknown.
    pub(super) fn ends(&self, cell: &CellResult, native: &CellResult, value: f64) -> Ends {
        let known = [cell, native].iter().all(|cell| {
            let virtual_time = cell.gate_state(&Gate::Lateness) == Some(GateState::NotApplicable);
            virtual_time || cell.figures.open_latency_p99_lower_ns.is_some()
        });
        let [(lo, hi), (native_lo, native_hi)] = [cell, native].map(spread_ends_ns);
        let (Some(median_ns), true) = (native.figures.open_latency_p50_ns, known) else {
            return Ends::at(value, known);
        };
        let median_lo_ns = native.figures.open_latency_p50_lower_ns.unwrap_or(median_ns);
        let (least_ns, most_ns) = (lo - native_hi, hi - native_lo);
        let by = |spread_ns: f64| [median_lo_ns, median_ns].map(|median_ns| spread_ns / median_ns);
        Ends {
            lo: by(least_ns).into_iter().fold(value, f64::min),
            hi: by(most_ns).into_iter().fold(value, f64::max),
            known,
        }
    }

    fn spread_ns(&self, cell: &CellResult) -> Option<f64> {
        let requests = *cell.requests.get(OPEN_REQUESTS)?;
        let of = &cell.figures;
        (requests >= self.requests_min)
            .then(|| Some(of.open_latency_p99_ns? - of.open_latency_p50_ns?))?
    }
}

/// The ends of one block.
pub(super) struct Ends {
    lo: f64,
    hi: f64,
    /// Whether the cells have what they follow from.
    known: bool,
}

impl Ends {
    const fn at(value: f64, known: bool) -> Self {
        Self { lo: value, hi: value, known }
    }
}

/// The least and the most of `q99 - q50`.
fn spread_ends_ns(cell: &CellResult) -> (f64, f64) {
    let of = &cell.figures;
    let quantile = |as_is: Option<f64>, lower: Option<f64>| {
        let as_is = as_is.unwrap_or(f64::NAN);
        (lower.unwrap_or(as_is), as_is)
    };
    let (p50_lo, p50) = quantile(of.open_latency_p50_ns, of.open_latency_p50_lower_ns);
    let (p99_lo, p99) = quantile(of.open_latency_p99_ns, of.open_latency_p99_lower_ns);
    (p99_lo - p50, p99 - p50_lo)
}

/// The interval with its systematic part: the means over blocks of what lateness may have changed.
pub(super) fn with_systematic(jitter: Estimate, blocks: &[(f64, Ends)]) -> Estimate {
    let mean = |of: fn(&(f64, Ends)) -> f64| {
        blocks.iter().map(of).sum::<f64>() / blocks.len().max(1) as f64
    };
    let lo = jitter.lo - mean(|(value, ends)| value - ends.lo);
    let hi = jitter.hi + mean(|(value, ends)| ends.hi - value);
    let systematic =
        Systematic { known: blocks.iter().all(|(_, ends)| ends.known), ..Systematic::default() };
    systematic.with_ends(jitter, lo, hi)
}
