//! From a level and the evidence of enforcement to the word.
//!
//! `Hardware` and `Software` say what enforces the isolation. Rates cannot show that; the proofs of
//! the mechanism do.

use gpubench_record::{MechanismRow, OutcomeKind};

use super::level::Level;

/// Printed with a word that a bypass could change, where no bypass probe ran.
const BYPASS_NOT_TRIED: &str = "bypass: not tried";

/// What enforces the isolation, by the proofs of the mechanism.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Evidence {
    /// A hardware partition.
    Hardware,
    /// A limiter.
    Limiter,
    /// The mechanism was in force, and neither partition nor limiter is part of it.
    None,
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

/// The word of a resource axis.
pub(super) fn of_resource(level: Level, evidence: Evidence) -> &'static str {
    match (level, evidence) {
        (Level::L0, _) => "None",
        (Level::L1, _) | (_, Evidence::None) => "Partial",
        (Level::L3, Evidence::Hardware) => "Hardware",
        (_, Evidence::Hardware | Evidence::Limiter) => "Software",
    }
}

/// The word of a resource axis, and a warning about bypasses. `bypass` says whether a bypass probe
/// succeeded, in words; a bypass that succeeded turns `Hardware` into `Software`.
pub(super) fn with_bypass(
    level: Level,
    evidence: Evidence,
    bypass: Option<(bool, String)>,
) -> (&'static str, Option<String>) {
    let word = of_resource(level, evidence);
    match bypass {
        None => {
            let enforced = level >= Level::L2 && evidence != Evidence::None;
            (word, enforced.then(|| BYPASS_NOT_TRIED.to_owned()))
        }
        Some((true, text)) if evidence == Evidence::Hardware => {
            (of_resource(level, Evidence::Limiter), Some(text))
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
            assert_eq!(of_resource(level, evidence), want, "{level} {evidence:?}");
        }
        for (level, want) in [
            (Level::L3, "Negligible"),
            (Level::L2, "Low-Medium"),
            (Level::L0, "High"),
        ] {
            assert_eq!(of_jitter(level), want);
        }
    }

    #[test]
    fn a_bypass_that_succeeds_demotes_hardware() {
        let probed = |escaped: bool| Some((escaped, "bypass".to_owned()));
        let hardware = |bypass| with_bypass(Level::L3, Evidence::Hardware, bypass);
        assert_eq!(
            hardware(None),
            ("Hardware", Some(BYPASS_NOT_TRIED.to_owned()))
        );
        assert_eq!(hardware(probed(false)).0, "Hardware");
        assert_eq!(hardware(probed(true)).0, "Software");
        assert_eq!(with_bypass(Level::L0, Evidence::None, None), ("None", None));
    }

    #[test]
    fn only_evidence_that_holds_counts() {
        for (proofs, want) in [
            (vec![(true, true, true)], Evidence::Hardware),
            (
                vec![(true, false, true), (true, false, false)],
                Evidence::Limiter,
            ),
            (
                vec![(false, true, true), (true, false, false)],
                Evidence::None,
            ),
            (vec![], Evidence::None),
        ] {
            assert_eq!(Evidence::of(&mechanism(&proofs)), want, "{proofs:?}");
        }
        assert!(not_proven(&mechanism(&[])).is_some());
        assert!(not_proven(&mechanism(&[(true, false, false), (false, false, false)])).is_some());
        assert_eq!(not_proven(&mechanism(&[(true, false, false)])), None);
    }
}
