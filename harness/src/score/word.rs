//! From a level and the evidence of enforcement to the word.
//!
//! `Hardware` and `Software` say what enforces the isolation. Rates cannot show that; the proofs of
//! the mechanism do, for the resources that it divides. A limiter bounds the memory of a tenant and
//! its use of SMs, so `Software` is never said of power, data paths or faults. No mechanism divides
//! the power budget.

use gpubench_record::{MechanismRow, OutcomeKind, SubAxis};

use super::level::Level;

/// Printed with a word that a bypass could change, where no bypass probe ran.
const BYPASS_NOT_TRIED: &str = "bypass: not tried";

/// What enforces the isolation, by the proofs of the mechanism.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Evidence {
    /// A hardware partition.
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
