//! Estimates in the form of the record, and as text.

use gpubench_record::{Ends, Estimate};

/// An estimate in the form of the record.
pub(crate) fn printed(estimate: gpubench_stats::Estimate, unit: &str) -> Estimate {
    let gpubench_stats::Estimate { value, lo, hi, n } = estimate;
    Estimate { value, lo, hi, ends: Ends::Interval, parts: None, n, unit: unit.to_owned() }
}

/// The estimate as text: value, interval, unit and number of blocks.
pub(crate) fn in_words(estimate: &Estimate) -> String {
    let Estimate { value, lo, hi, n, unit, .. } = estimate;
    format!("{value:.3} [{lo:.3}, {hi:.3}] {unit}, n = {n}")
}
