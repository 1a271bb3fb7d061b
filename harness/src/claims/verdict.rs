//! Verdicts from the ends of an interval.

use gpubench_record::{Claim, Comparison, Estimate, Verdict};

/// The verdict of one figure. A claim without a comparison decides nothing.
pub(super) fn of(claim: &Claim, figure: &Estimate) -> Verdict {
    let (Some(comparison), Some(threshold)) = (claim.comparison, claim.threshold) else {
        return Verdict::Inconclusive;
    };
    let tolerance = claim.tolerance.unwrap_or(0.0);
    let (lo, hi) = (figure.lo, figure.hi);
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

/// The verdict of several figures together: of each, or of any of them.
pub(super) fn together(verdicts: impl Iterator<Item = Verdict>, any: bool) -> Verdict {
    let (one_decides, all_decide) = if any {
        (Verdict::Supported, Verdict::Refuted)
    } else {
        (Verdict::Refuted, Verdict::Supported)
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
pub(super) fn of_records(verdicts: impl Iterator<Item = Verdict>) -> Verdict {
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

#[cfg(test)]
mod tests {
    use gpubench_record::Verdict::{self, Inconclusive, Refuted, Supported, Untested};
    use gpubench_record::{Claim, Comparison, Ends, Estimate};

    use super::{of, of_records, together};

    fn judged(comparison: &str, threshold: f64, lo: f64, hi: f64) -> Verdict {
        let claim: Result<Claim, _> = serde_json::from_value(serde_json::json!({
            "id": "X", "mechanisms": ["mps"], "axis": "compute", "statement": "", "source": "",
            "quantity": "retention", "comparison": comparison, "threshold": threshold,
            "tolerance": 0.1,
        }));
        let claim = claim.expect("a claim");
        assert_ne!(claim.comparison, None::<Comparison>);
        // The value never decides.
        let estimate = Estimate {
            value: f64::NAN,
            lo,
            hi,
            ends: Ends::Interval,
            parts: None,
            n: 8,
            unit: "ratio".to_owned(),
        };
        of(&claim, &estimate)
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
        let all = |verdicts: &[Verdict], any| together(verdicts.iter().copied(), any);
        assert_eq!(all(&[Supported, Refuted], false), Refuted);
        assert_eq!(all(&[Supported, Refuted], true), Supported);
        assert_eq!(all(&[Supported, Inconclusive], false), Inconclusive);
        assert_eq!(all(&[Refuted, Inconclusive], true), Inconclusive);
        assert_eq!(all(&[Refuted, Refuted], true), Refuted);
        let records = |verdicts: &[Verdict]| of_records(verdicts.iter().copied());
        assert_eq!(records(&[Untested, Supported]), Supported);
        assert_eq!(records(&[Inconclusive, Refuted]), Refuted);
        assert_eq!(records(&[Supported, Refuted]), Inconclusive);
        assert_eq!(records(&[Untested, Untested]), Untested);
    }
}
