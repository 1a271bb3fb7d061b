//! From a level and the evidence of enforcement to the word.
//!
//! `Hardware` and `Software` say what enforces the isolation. Rates cannot show that; the proofs of
//! the mechanism do, for the resources that it divides. A limiter bounds the memory of a tenant and
//! its use of SMs, so `Software` is never said of power, data paths or faults. No mechanism divides
//! the power budget.

use std::collections::BTreeMap;

use gpubench_record::{Axis, MechanismRow, OutcomeKind, OverallRow, Plan, SubAxis};

use super::level::{Level, LevelRange};
use super::row::{Row, requests};

/// Printed with a word that a bypass could change, where no bypass probe ran.
const BYPASS_NOT_TRIED: &str = "bypass: not tried";

/// What enforces the isolation, by the proofs of the mechanism.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Evidence {
    Hardware,
    Limiter,
    /// The mechanism was in force, and neither partition nor limiter is part of it.
    None,
}

/// What can bound a tenant's use of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bound {
    /// A limiter or a partition: memory that a tenant holds, SMs and launches.
    Limiter,
    /// A partition only: data paths, what a tenant finds in memory, faults.
    Partition,
    /// Nothing: the power budget.
    Nothing,
}

impl Bound {
    pub(super) const fn of(sub_axis: SubAxis) -> Self {
        match sub_axis {
            SubAxis::Sm | SubAxis::Issue | SubAxis::Launch | SubAxis::Capacity | SubAxis::Cap => {
                Self::Limiter
            }
            SubAxis::Power => Self::Nothing,
            // The weaker word where a sub-axis is new.
            _ => Self::Partition,
        }
    }
}

impl Evidence {
    /// The strongest evidence among the proofs that hold.
    pub(super) fn of(mechanism: &MechanismRow) -> Self {
        let mut holding = mechanism.proof.iter().filter(|proof| proof.holds);
        if holding.clone().any(|proof| proof.hardware) {
            Self::Hardware
        } else if holding.any(|proof| proof.limiter) {
            Self::Limiter
        } else {
            Self::None
        }
    }
}

/// The evidence of a mechanism, and what can bound this resource.
pub(super) fn enforcing(mechanism: &MechanismRow, sub_axis: SubAxis) -> (Evidence, Bound) {
    (Evidence::of(mechanism), Bound::of(sub_axis))
}

/// The word of a resource axis.
pub(super) fn of_resource(level: Level, evidence: Evidence, bound: Bound) -> &'static str {
    match (level, evidence, bound) {
        (Level::L0, ..) => "None",
        (Level::L1, ..) | (_, Evidence::None, _) | (.., Bound::Nothing) => "Partial",
        (Level::L3, Evidence::Hardware, _) => "Hardware",
        (_, _, Bound::Limiter) => "Software",
        (_, _, Bound::Partition) => "Partial",
    }
}

/// The word of a resource axis, and a warning about bypasses. `bypass` says whether a bypass probe
/// succeeded, in words; a bypass that succeeded turns `Hardware` into `Software`.
pub(super) fn with_bypass(
    level: Level,
    (evidence, bound): (Evidence, Bound),
    bypass: Option<(bool, String)>,
) -> (&'static str, Option<String>) {
    let word = of_resource(level, evidence, bound);
    match bypass {
        None => {
            let enforced = matches!(word, "Hardware" | "Software");
            (word, enforced.then(|| BYPASS_NOT_TRIED.to_owned()))
        }
        Some((true, text)) if evidence == Evidence::Hardware => {
            (of_resource(level, Evidence::Limiter, bound), Some(text))
        }
        Some((_, text)) => (word, Some(text)),
    }
}

/// The word of the jitter axis.
pub(super) fn of_jitter(level: Level) -> &'static str {
    match level {
        Level::L0 | Level::L1 => "High",
        Level::L2 => "Low-Medium",
        Level::L3 => "Negligible",
    }
}

/// Why nothing may be scored under this mechanism; `None` where a proof holds and none fails.
pub(super) fn not_proven(mechanism: &MechanismRow) -> Option<String> {
    if let Some(against) = mechanism.proof.iter().find(|proof| !proof.holds) {
        let (check, when, evidence) = (&against.check, &against.when, &against.evidence);
        return Some(format!(
            "{} was not in force: {check} ({when}): {evidence}",
            mechanism.variant
        ));
    }
    let measured = mechanism.outcome.outcome == OutcomeKind::Measured;
    (measured && mechanism.proof.is_empty())
        .then(|| format!("no proof that {} was in force", mechanism.variant))
}

// The overall level of a variant: that of its weakest axis, which is that of the weakest row of
// the axis.

/// One row for each variant, in the order of the matrix.
pub(super) fn rows(plan: &Plan, rows: &[Row]) -> Vec<OverallRow> {
    let mut variants: Vec<(&str, &str)> = Vec::new();
    let under_test = |row: &&Row| row.matrix.variant != plan.reference;
    for row in rows.iter().filter(under_test) {
        let variant = (row.matrix.mechanism.as_str(), row.matrix.variant.as_str());
        if !variants.contains(&variant) {
            variants.push(variant);
        }
    }
    variants
        .into_iter()
        .map(|(mechanism, variant)| {
            let own: Vec<&Row> = rows.iter().filter(|row| row.matrix.variant == variant).collect();
            of_variant(plan, mechanism, variant, &own)
        })
        .collect()
}

fn of_variant(plan: &Plan, mechanism: &str, variant: &str, rows: &[&Row]) -> OverallRow {
    let counting: Vec<Axis> = Axis::ALL.into_iter().filter(|axis| axis.counts_overall()).collect();
    let mut ranges: BTreeMap<Axis, Option<LevelRange>> = BTreeMap::new();
    let counts = |row: &&&Row| row.axis.counts_overall() && !row.cannot_run_here;
    for row in rows.iter().filter(counts) {
        let range = ranges.entry(row.axis).or_insert(row.range);
        *range = weaker(*range, row.range);
    }
    let has_level = |axis: &Axis| ranges.get(axis).is_some_and(Option::is_some);
    let expected = |axis: &Axis| ranges.contains_key(axis) || requests(plan, axis.as_str());
    let unmeasured_axes = counting
        .iter()
        .filter(|axis| expected(axis) && !has_level(axis))
        .map(|a| a.as_str().to_owned());
    let mut overall: Option<LevelRange> = None;
    let mut weakest: Option<(LevelRange, Axis)> = None;
    for (axis, range) in ranges.iter().filter_map(|(axis, range)| Some((*axis, (*range)?))) {
        overall = Some(overall.map_or(range, |known| known.weaker(range)));
        let weaker =
            weakest.is_none_or(|(known, _)| (range.worst, range.best) < (known.worst, known.best));
        if weaker {
            weakest = Some((range, axis));
        }
    }
    // An axis without a level could be the weakest, unless another axis is at L0.
    let open = ranges.values().any(Option::is_none);
    let overall = overall.filter(|range| !open || range.decided() == Some(Level::L0));
    let has_axis =
        |(axis, range): (&Axis, &Option<LevelRange>)| range.map(|_| axis.as_str().to_owned());
    OverallRow {
        axes: ranges.iter().filter_map(has_axis).collect(),
        mechanism: mechanism.to_owned(),
        variant: variant.to_owned(),
        level: overall.map(|range| range.to_string()),
        weakest_axis: overall.and(weakest).map(|(_, axis)| axis.as_str().to_owned()),
        unmeasured_axes: unmeasured_axes.collect(),
    }
}

/// The weaker of two rows of one axis. A row without a level leaves the axis without one, unless
/// the other row is at L0.
fn weaker(left: Option<LevelRange>, right: Option<LevelRange>) -> Option<LevelRange> {
    let lowest = LevelRange::at(Level::L0);
    match (left, right) {
        (Some(left), Some(right)) => Some(left.weaker(right)),
        (Some(one), None) | (None, Some(one)) if one == lowest => Some(lowest),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use gpubench_record::{Outcome, Proof, ProofTime};

    use super::*;

    fn mechanism(proofs: &[(bool, bool, bool)]) -> MechanismRow {
        let proof = |&(holds, hardware, limiter): &(bool, bool, bool)| Proof {
            when: ProofTime::During,
            t_ns: None,
            check: "processes".to_owned(),
            holds,
            evidence: "none".to_owned(),
            hardware,
            limiter,
        };
        MechanismRow {
            name: "m".to_owned(),
            variant: "m[x]".to_owned(),
            outcome: Outcome::measured(),
            remedy: None,
            proof: proofs.iter().map(proof).collect(),
            tenants: std::collections::BTreeMap::new(),
        }
    }

    #[test]
    fn words_follow_level_and_evidence() {
        use Evidence::{Hardware, Limiter};
        for (level, evidence, want) in [
            (Level::L3, Hardware, "Hardware"),
            (Level::L2, Hardware, "Software"),
            (Level::L1, Hardware, "Partial"),
            (Level::L0, Hardware, "None"),
            (Level::L3, Limiter, "Software"),
            (Level::L2, Limiter, "Software"),
            (Level::L1, Limiter, "Partial"),
            (Level::L0, Limiter, "None"),
            (Level::L3, Evidence::None, "Partial"),
            (Level::L2, Evidence::None, "Partial"),
            (Level::L1, Evidence::None, "Partial"),
            (Level::L0, Evidence::None, "None"),
        ] {
            let word = of_resource(level, evidence, Bound::Limiter);
            assert_eq!(word, want, "{level} {evidence:?}");
        }
        for (bound, level, evidence, want) in [
            (Bound::of(SubAxis::Power), Level::L2, Limiter, "Partial"),
            (Bound::of(SubAxis::Power), Level::L3, Hardware, "Partial"),
            (Bound::of(SubAxis::L2), Level::L2, Hardware, "Partial"),
            (Bound::of(SubAxis::L2), Level::L2, Limiter, "Partial"),
            (Bound::of(SubAxis::L2), Level::L3, Limiter, "Partial"),
            (Bound::of(SubAxis::L2), Level::L3, Hardware, "Hardware"),
            (Bound::of(SubAxis::Power), Level::L0, Hardware, "None"),
        ] {
            let word = of_resource(level, evidence, bound);
            assert_eq!(word, want, "{bound:?} {level} {evidence:?}");
        }
        for (level, want) in
            [(Level::L3, "Negligible"), (Level::L2, "Low-Medium"), (Level::L0, "High")]
        {
            assert_eq!(of_jitter(level), want);
        }
    }

    #[test]
    fn a_bypass_that_succeeds_demotes_hardware() {
        let probed = |escaped: bool| Some((escaped, "bypass".to_owned()));
        let (hardware, none) =
            ((Evidence::Hardware, Bound::Limiter), (Evidence::None, Bound::Limiter));
        let hardware = |bypass| with_bypass(Level::L3, hardware, bypass);
        assert_eq!(hardware(None), ("Hardware", Some(BYPASS_NOT_TRIED.to_owned())));
        assert_eq!(hardware(probed(false)).0, "Hardware");
        assert_eq!(hardware(probed(true)).0, "Software");
        assert_eq!(with_bypass(Level::L0, none, None), ("None", None));
    }

    #[test]
    fn only_evidence_that_holds_counts() {
        for (proofs, want) in [
            (vec![(true, true, true)], Evidence::Hardware),
            (vec![(true, false, true), (true, false, false)], Evidence::Limiter),
            (vec![(false, true, true), (true, false, false)], Evidence::None),
            (vec![], Evidence::None),
        ] {
            assert_eq!(Evidence::of(&mechanism(&proofs)), want, "{proofs:?}");
        }
        assert!(not_proven(&mechanism(&[])).is_some());
        assert!(not_proven(&mechanism(&[(true, false, false), (false, false, false)])).is_some());
        assert_eq!(not_proven(&mechanism(&[(true, false, false)])), None);
    }
}
