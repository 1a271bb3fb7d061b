//! Claims and their figures as text.

use gpubench_record::{Claim, ClaimFigure, Comparison, Ends, Estimate, Quantity};

/// Characters of a reason in the evidence.
const REASON_CHARS: usize = 100;

/// The quantity, its comparison and its threshold.
pub(super) fn test(claim: &Claim) -> String {
    let (Some(quantity), Some(comparison), Some(threshold)) =
        (claim.quantity, claim.comparison, claim.threshold)
    else {
        return String::new();
    };
    let is_time = matches!(quantity, Quantity::TimeSlice | Quantity::TimeToEnforce | Quantity::P99);
    let number = |x: f64| match is_time {
        true => format!("{} ms", x / 1e6),
        false => x.to_string(),
    };
    let band = number(claim.tolerance.unwrap_or(0.0));
    let limit = number(threshold);
    let compared = match comparison {
        Comparison::AtMost => format!("at most {limit}"),
        Comparison::AtLeast => format!("at least {limit}"),
        Comparison::Within => format!("{limit} +- {band}"),
        Comparison::Never => format!("never (share at most {threshold})"),
        Comparison::Always => format!("always (share at least {})", 1.0 - threshold),
        Comparison::Sometimes => format!("sometimes (share above 0; absent up to {threshold})"),
    };
    let select = &claim.select;
    let parts = [
        select.against.as_ref().map(|one| format!("over that of {one}")),
        select.sub_axis.map(|one| format!("on {}", one.as_str())),
        select.tenants.map(|n| format!("with {n} tenants")),
        select.variant.as_ref().map(|one| format!("of {one}...")),
        (!select.faults.is_empty()).then(|| format!("after {}", select.faults.join(", "))),
    ];
    let mut text = quantity.as_str().to_owned();
    for part in parts.into_iter().flatten() {
        text.push(' ');
        text.push_str(&part);
    }
    let of = if claim.any { ", any" } else { "" };
    format!("{text}: {compared}{of}")
}

/// A figure with its subject, or the reason why it is not trusted.
pub(super) fn figure(figure: &ClaimFigure) -> String {
    let what = match (&figure.estimate, &figure.reason) {
        (Some(estimate), _) => estimate_in_words(estimate),
        (None, Some(reason)) => shortened(reason),
        (None, None) => "no figure".to_owned(),
    };
    format!("{}: {what}", figure.of)
}

/// The begin of a long reason; the figure has all of it.
fn shortened(reason: &str) -> String {
    let mut begin: String = reason.chars().take(REASON_CHARS).collect();
    if begin.len() < reason.len() {
        begin.push_str("...");
    }
    begin
}

fn estimate_in_words(estimate: &Estimate) -> String {
    let (scale, unit) = match estimate.unit.as_str() {
        "ns" => (1e-6, "ms"),
        unit => (1.0, unit),
    };
    let [value, lo, hi] = [estimate.value, estimate.lo, estimate.hi].map(|x| x * scale);
    let n = estimate.n;
    match estimate.ends {
        Ends::Interval => format!("{value:.3} [{lo:.3}, {hi:.3}] {unit}, n = {n}"),
        Ends::Range => format!("{value:.3} {unit}, range {lo:.3} to {hi:.3}, n = {n}"),
        Ends::AtLeast => format!("at least {lo:.3} {unit}, n = {n}"),
    }
}
