//! Compares the claims of a ledger with a scored record: a pure function of both.
//!
//! A claim names a quantity of a closed list, which resolves to figures of the record. Each figure
//! has a verdict from the ends of its interval, never from its value. A claim is about each of its
//! figures: one that contradicts it refutes it, and it is supported where all agree. With the scope
//! `any` it is the other way round, and with `worst` the worst for the tenant decides. A figure
//! that the record does not trust decides nothing. A claim about other tenants than those of the
//! record is untested, whatever its figures are.

#[cfg(test)]
mod contradictions;
mod figures;
pub mod page;
mod rows;
#[cfg(test)]
mod tests;

use figures::Found;
use gpubench_record::claim::{Scope, ToleranceOf, Worse};
use gpubench_record::{
    Claim, ClaimFigure, ClaimRow, Comparison, Ends, Estimate, Quantity, RunRecord, Verdict,
};

/// Figures that the evidence names.
const NAMED_MAX: usize = 3;

pub fn evaluate(ledger: &[Claim], run: &RunRecord) -> Vec<ClaimRow> {
    ledger.iter().map(|claim| row(claim, run)).collect()
}

fn row(claim: &Claim, run: &RunRecord) -> ClaimRow {
    let (verdict, evidence, figures) = match figures::of(claim, run) {
        Err(reason) => (Verdict::Untested, reason, Vec::new()),
        Ok(found) => {
            let mut figures: Vec<ClaimFigure> =
                found.into_iter().map(|one| figure(claim, one)).collect();
            let verdict = match (claim.scope, claim.quantity.and_then(Quantity::worse)) {
                (Scope::Worst, Some(worse)) => of_worst(claim, worse, &mut figures),
                (scope, _) => together(figures.iter().map(|one| one.verdict), scope),
            };
            (verdict, evidence(verdict, &figures), figures)
        }
    };
    let needs = if verdict == Verdict::Untested { claim.needs().collect() } else { Vec::new() };
    ClaimRow {
        id: claim.id.clone(),
        verdict,
        evidence,
        mechanisms: claim.mechanisms.clone(),
        axis: Some(claim.axis),
        statement: claim.statement.clone(),
        source: claim.source.clone(),
        published_for: claim.published_for.clone(),
        needs,
        test: test_in_words(claim),
        figures,
    }
}

fn figure(claim: &Claim, found: Found) -> ClaimFigure {
    let of = format!("{} {}", found.variant, found.key);
    match found.estimate {
        Ok(estimate) => ClaimFigure {
            of,
            verdict: verdict_of(claim, [estimate.lo, estimate.hi]),
            estimate: Some(estimate),
            reason: None,
        },
        Err(reason) => {
            ClaimFigure { of, verdict: Verdict::Inconclusive, estimate: None, reason: Some(reason) }
        }
    }
}

/// The figures that have the verdict of the claim; all of them where none has.
fn evidence(verdict: Verdict, figures: &[ClaimFigure]) -> String {
    let mut deciding: Vec<&ClaimFigure> =
        figures.iter().filter(|one| one.verdict == verdict).collect();
    if deciding.is_empty() {
        deciding = figures.iter().collect();
    }
    let named = deciding.iter().take(NAMED_MAX).map(|one| figure_in_words(one));
    let mut text = named.collect::<Vec<_>>().join("; ");
    if deciding.len() > NAMED_MAX {
        text.push_str(&format!("; and {} more", deciding.len() - NAMED_MAX));
    }
    text
}

// Verdicts from the ends of an interval.

/// The verdict of one interval. A claim without a comparison decides nothing.
fn verdict_of(claim: &Claim, [lo, hi]: [f64; 2]) -> Verdict {
    let (Some(comparison), Some(threshold)) = (claim.comparison, claim.threshold) else {
        return Verdict::Inconclusive;
    };
    let tolerance = claim.tolerance.unwrap_or(0.0);
    let (agrees, contradicts) = match comparison {
        Comparison::AtMost => (hi <= threshold, lo > threshold),
        Comparison::AtLeast => (lo >= threshold, hi < threshold),
        Comparison::Within => {
            let (from, to) = (threshold - tolerance, threshold + tolerance);
            (lo >= from && hi <= to, hi < from || lo > to)
        }
        // An event that happened once happens, however small its share is.
        Comparison::Never => (lo <= 0.0 && hi <= threshold, lo > 0.0),
        Comparison::Always => (hi >= 1.0 && lo >= 1.0 - threshold, hi < 1.0),
        Comparison::Sometimes => (lo > 0.0, lo <= 0.0 && hi <= threshold),
    };
    match (agrees, contradicts) {
        (true, _) => Verdict::Supported,
        (_, true) => Verdict::Refuted,
        _ => Verdict::Inconclusive,
    }
}

/// The verdict of the worst figure, which comes first afterwards. Which one is the worst does not
/// matter: its interval is that of the minimum, or the maximum, of all, and a figure that is not
/// trusted may be anything.
fn of_worst(claim: &Claim, worse: Worse, figures: &mut [ClaimFigure]) -> Verdict {
    let ends = |one: &ClaimFigure| match &one.estimate {
        Some(estimate) => [estimate.lo, estimate.hi],
        None => [f64::NEG_INFINITY, f64::INFINITY],
    };
    let (none, pick): (f64, fn(f64, f64) -> f64) = match worse {
        Worse::Lower => (f64::INFINITY, f64::min),
        Worse::Higher => (f64::NEG_INFINITY, f64::max),
    };
    let all = figures.iter().map(ends);
    let ends_of_worst =
        all.fold([none; 2], |all, one| [pick(all[0], one[0]), pick(all[1], one[1])]);
    figures.sort_by(|a, b| match worse {
        Worse::Lower => ends(a)[1].total_cmp(&ends(b)[1]),
        Worse::Higher => ends(b)[0].total_cmp(&ends(a)[0]),
    });
    verdict_of(claim, ends_of_worst)
}

fn together(verdicts: impl Iterator<Item = Verdict>, scope: Scope) -> Verdict {
    let (one_decides, all_decide) = match scope {
        Scope::Any => (Verdict::Supported, Verdict::Refuted),
        Scope::All | Scope::Worst => (Verdict::Refuted, Verdict::Supported),
    };
    let verdicts: Vec<Verdict> = verdicts.collect();
    if verdicts.contains(&one_decides) {
        one_decides
    } else if !verdicts.is_empty() && verdicts.iter().all(|one| *one == all_decide) {
        all_decide
    } else {
        Verdict::Inconclusive
    }
}

/// The verdict of several records. Records without the figures count for nothing; records that
/// contradict each other leave the claim inconclusive.
fn of_records(verdicts: impl Iterator<Item = Verdict>) -> Verdict {
    let verdicts: Vec<Verdict> = verdicts.collect();
    let (supported, refuted) =
        (verdicts.contains(&Verdict::Supported), verdicts.contains(&Verdict::Refuted));
    match (supported, refuted) {
        (true, false) => Verdict::Supported,
        (false, true) => Verdict::Refuted,
        (false, false) if !verdicts.contains(&Verdict::Inconclusive) => Verdict::Untested,
        _ => Verdict::Inconclusive,
    }
}

// Claims and their figures as text.

/// Characters of a reason in the evidence.
const REASON_CHARS: usize = 100;

/// The quantity, its comparison and its threshold.
fn test_in_words(claim: &Claim) -> String {
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
    let sub_axes: Vec<&str> = select.sub_axes.iter().map(|one| one.as_str()).collect();
    let parts = [
        select.against.as_ref().map(|one| format!("over that of {one}")),
        select.victim.map(|one| format!("of {} victims", one.as_str())),
        (!sub_axes.is_empty()).then(|| format!("on {}", sub_axes.join(", "))),
        select.aggressor.as_ref().map(|one| format!("beside {one}")),
        select.tenants.map(|n| format!("with {n} tenants")),
        select.depth.map(|n| format!("at depth {n}")),
        select.variant.as_ref().map(|one| format!("of {one}...")),
        (!select.faults.is_empty()).then(|| format!("after {}", select.faults.join(", "))),
    ];
    let mut text = quantity.as_str().to_owned();
    for part in parts.into_iter().flatten() {
        text.push(' ');
        text.push_str(&part);
    }
    let scope = match claim.scope {
        Scope::All => "",
        Scope::Any => ", any",
        Scope::Worst => ", the worst",
    };
    let bound = match claim.tolerance_of {
        Some(ToleranceOf::Statement) => " (bound of the claim)",
        Some(ToleranceOf::Ours) => " (our bound)",
        None => "",
    };
    format!("{text}: {compared}{scope}{bound}")
}

/// A figure with its subject, or the reason why it is not trusted.
fn figure_in_words(figure: &ClaimFigure) -> String {
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
    // As in reports, the printed interval contains the computed one.
    let [value, lo, hi] = [estimate.value, estimate.lo, estimate.hi].map(|x| x * scale);
    let (lo, hi) = ((lo * 1e3).floor() / 1e3, (hi * 1e3).ceil() / 1e3);
    let n = estimate.n;
    match estimate.ends {
        Ends::Interval => format!("{value:.3} [{lo:.3}, {hi:.3}] {unit}, n = {n}"),
        Ends::Range => format!("{value:.3} {unit}, range {lo:.3} to {hi:.3}, n = {n}"),
        Ends::AtLeast => format!("at least {lo:.3} {unit}, n = {n}"),
        Ends::AtMost => format!("below {hi:.3} {unit}, n = {n}"),
    }
}

#[cfg(test)]
mod words_tests {
    use gpubench_record::Verdict::{self, Inconclusive, Refuted, Supported, Untested};
    use gpubench_record::claim::{ClaimFigure, Scope, Worse};
    use gpubench_record::{Claim, Comparison, Ends, Estimate};

    use super::{of_records, of_worst, together, verdict_of};

    fn claim(comparison: &str, threshold: f64) -> Claim {
        let claim: Result<Claim, _> = serde_json::from_value(serde_json::json!({
            "id": "X", "mechanisms": ["mps"], "axis": "compute", "statement": "", "source": "",
            "quantity": "retention", "comparison": comparison, "threshold": threshold,
            "tolerance": 0.1,
        }));
        let claim = claim.expect("a claim");
        assert_ne!(claim.comparison, None::<Comparison>);
        claim
    }

    fn judged(comparison: &str, threshold: f64, lo: f64, hi: f64) -> Verdict {
        verdict_of(&claim(comparison, threshold), [lo, hi])
    }

    /// A figure with these ends; none that is trusted where they are absent.
    fn figure(ends: Option<[f64; 2]>) -> ClaimFigure {
        let estimate = ends.map(|[lo, hi]| Estimate {
            // The value never decides.
            value: f64::NAN,
            lo,
            hi,
            ends: Ends::Interval,
            parts: None,
            n: 8,
            unit: "ratio".to_owned(),
        });
        ClaimFigure { of: String::new(), verdict: Inconclusive, estimate, reason: None }
    }

    #[test]
    fn the_worst_figure_decides() {
        let [low, high] = [Some([0.2, 0.3]), Some([0.9, 1.0])];
        type Ends<'a> = &'a [Option<[f64; 2]>];
        let cases: [(&str, Worse, Ends<'_>, Verdict); 9] = [
            ("at-most", Worse::Lower, &[high, low], Supported),
            ("at-most", Worse::Lower, &[high], Refuted),
            ("at-least", Worse::Lower, &[high, low], Refuted),
            ("at-most", Worse::Higher, &[high, low], Refuted),
            ("at-least", Worse::Higher, &[high, low], Supported),
            // One that may be worse leaves open what it could turn.
            ("at-most", Worse::Lower, &[high, None], Inconclusive),
            ("at-most", Worse::Lower, &[low, None], Supported),
            ("at-least", Worse::Lower, &[high, None], Inconclusive),
            ("at-least", Worse::Lower, &[low, None], Refuted),
        ];
        for (comparison, worse, ends, want) in cases {
            let mut figures: Vec<ClaimFigure> = ends.iter().copied().map(figure).collect();
            let found = of_worst(&claim(comparison, 0.5), worse, &mut figures);
            assert_eq!(found, want, "{comparison} {worse:?} {ends:?}");
        }
        let mut figures = [high, low].map(figure);
        of_worst(&claim("at-most", 0.5), Worse::Lower, &mut figures);
        assert_eq!(figures[0].estimate.as_ref().map(|one| one.hi), Some(0.3));
    }

    #[test]
    fn the_ends_of_the_interval_decide() {
        for (comparison, threshold, lo, hi, want) in [
            ("at-most", 0.9, 0.8, 0.9, Supported),
            ("at-most", 0.9, 0.8, 0.91, Inconclusive),
            ("at-most", 0.9, 0.9, 0.95, Inconclusive),
            ("at-most", 0.9, 0.91, 0.95, Refuted),
            ("at-least", 0.9, 0.9, 0.95, Supported),
            ("at-least", 0.9, 0.89, 0.95, Inconclusive),
            ("at-least", 0.9, 0.8, 0.89, Refuted),
            ("within", 1.0, 0.91, 1.09, Supported),
            ("within", 1.0, 0.89, 1.0, Inconclusive),
            ("within", 1.0, 1.11, 1.2, Refuted),
            ("within", 1.0, 0.7, 0.89, Refuted),
            // 0 of 1, 0 of 59, 1 of 1, 1 of 2, 59 of 59.
            ("never", 0.05, 0.0, 0.95, Inconclusive),
            ("never", 0.05, 0.0, 0.0495, Supported),
            ("never", 0.05, 0.001, 0.04, Refuted),
            ("always", 0.05, 0.05, 1.0, Inconclusive),
            ("always", 0.05, 0.0, 0.95, Refuted),
            ("always", 0.05, 0.0253, 0.9747, Refuted),
            ("always", 0.05, 0.9505, 1.0, Supported),
            ("sometimes", 0.05, 0.05, 1.0, Supported),
            ("sometimes", 0.05, 0.0, 0.95, Inconclusive),
            ("sometimes", 0.05, 0.0, 0.04, Refuted),
        ] {
            let found = judged(comparison, threshold, lo, hi);
            assert_eq!(found, want, "{comparison} {threshold} [{lo}, {hi}]");
        }
    }

    #[test]
    fn figures_and_records_combine() {
        let of = |verdicts: &[Verdict], scope| together(verdicts.iter().copied(), scope);
        assert_eq!(of(&[Supported, Refuted], Scope::All), Refuted);
        assert_eq!(of(&[Supported, Refuted], Scope::Any), Supported);
        assert_eq!(of(&[Supported, Inconclusive], Scope::All), Inconclusive);
        assert_eq!(of(&[Refuted, Inconclusive], Scope::Any), Inconclusive);
        assert_eq!(of(&[Refuted, Refuted], Scope::Any), Refuted);
        let records = |verdicts: &[Verdict]| of_records(verdicts.iter().copied());
        assert_eq!(records(&[Untested, Supported]), Supported);
        assert_eq!(records(&[Inconclusive, Refuted]), Refuted);
        assert_eq!(records(&[Supported, Refuted]), Inconclusive);
        assert_eq!(records(&[Untested, Untested]), Untested);
    }
}
