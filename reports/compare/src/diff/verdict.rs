//! The verdict of one row, from its change, its margin and the interval of its family.
//!
//! A claim of change needs an interval that excludes zero at the confidence of the family, and an
//! estimate of at least the margin. A claim of no change needs the 90 % interval of the row inside
//! the margin (two one-sided tests at 5 %): absence of evidence is not equivalence.

use gpubench_stats::power::Test;
use gpubench_stats::{Confidence, Effect, NoEstimate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::change::{Basis, Change};
use crate::session::Bounds;

/// The power of the smallest detectable effect.
pub(crate) const POWER: f64 = 0.8;
/// Most sessions a side that a row asks for.
pub(super) const SESSIONS_MAX: u32 = 1000;

/// What equality of two single sessions rests on.
const OF_TWO_SESSIONS: &str =
    "equal in these two sessions; by how much sessions of this GPU differ is not known";

/// What a row says.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It got worse by at least the margin.
    Regressed,
    /// It got better by at least the margin.
    Improved,
    /// It changed by less than the margin, which is shown.
    Unchanged,
    /// None of these is shown.
    Inconclusive,
    /// A side has figures that cannot be trusted.
    Invalid,
    /// A side has no figures.
    NotMeasured,
}

impl Verdict {
    /// Every verdict, in the order of reports.
    pub const ALL: [Self; 6] = [
        Self::Regressed,
        Self::Improved,
        Self::Inconclusive,
        Self::Unchanged,
        Self::Invalid,
        Self::NotMeasured,
    ];

    /// As in tables and in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Regressed => "regressed",
            Self::Improved => "improved",
            Self::Unchanged => "unchanged",
            Self::Inconclusive => "inconclusive",
            Self::Invalid => "invalid",
            Self::NotMeasured => "not-measured",
        }
    }
}

/// How a row is judged.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// +1 where a higher figure is worse, -1 where a lower one is.
    pub worse: f64,
    /// Smallest change that matters, on the scale of the row.
    pub margin: f64,
    /// Confidence of the interval that must exclude zero.
    pub family: Confidence,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    pub verdict: Verdict,
    /// The interval of the family lies beyond the margin as a whole.
    pub confirmed: bool,
    /// The change would be one, and cannot be attributed.
    pub differs: bool,
    /// The interval of the family.
    pub family: [f64; 2],
    /// The 90 % interval.
    pub equivalence: [f64; 2],
    /// Two-sided p value of no change.
    pub p: f64,
    /// The smallest change that this comparison finds with 80 % power; `None` where none is.
    pub detectable: Option<f64>,
    /// Sessions a side that would decide, for an inconclusive row; `None` if more than 1,000.
    pub sessions_needed: Option<u32>,
    /// What a reader needs besides the verdict.
    pub reason: Option<String>,
}

impl Judged {
    /// Judges a change.
    /// Fails when an interval leaves the range of a float.
    pub fn of(change: &Change, rule: Rule) -> Result<Self, NoEstimate> {
        // The wider of what sessions and repeated cells show.
        let effects = || [Some(change.effect), change.least].into_iter().flatten();
        let ends = |confidence| -> Result<[f64; 2], NoEstimate> {
            let (mut down, mut up) = (f64::INFINITY, f64::NEG_INFINITY);
            for effect in effects() {
                let interval = effect.interval(confidence)?;
                (down, up) = (down.min(interval.lo), up.max(interval.hi));
            }
            Ok([down - change.bounds.down, up + change.bounds.up])
        };
        let (family, equivalence) = (ends(rule.family)?, ends(Confidence::P90)?);
        let (mut detectable, mut p) = (0.0_f64, 0.0_f64);
        for Effect { se, df, .. } in effects() {
            let test = Test { se, df, confidence: rule.family, margin: rule.margin };
            detectable = detectable.max(test.detectable(POWER)?);
        }
        for effect in effects() {
            p = p.max(effect.two_sided_p()?);
        }
        let detectable = detectable + change.bounds.down.max(change.bounds.up);
        let mut judged = Self::undecided(family, equivalence, p, Some(detectable));
        judged.decide(change, rule);
        if judged.verdict == Verdict::Inconclusive {
            judged.sessions_needed = sessions_needed(change, rule);
            let exact = Change { bounds: Bounds::default(), ..*change };
            if judged.reason.is_none() && change.bounds != exact.bounds {
                judged.reason = Self::of(&exact, rule)?.hidden_by_bounds();
            }
        }
        Ok(judged)
    }

    /// The same figures without a claim.
    pub(super) fn without_verdict(self) -> Self {
        Self {
            verdict: Verdict::Inconclusive,
            confirmed: false,
            differs: false,
            p: 1.0,
            detectable: None,
            sessions_needed: None,
            reason: None,
            ..self
        }
    }

    /// Why a verdict that the figures alone have is none beside their bounds.
    fn hidden_by_bounds(&self) -> Option<String> {
        let decided = !matches!(self.verdict, Verdict::Inconclusive);
        decided.then(|| {
            "within what starved victims and disturbances of the host can have done to the \
             figures; more sessions do not narrow that"
                .to_owned()
        })
    }

    /// A change whose interval and margin are not compared yet.
    pub(super) const fn undecided(
        family: [f64; 2],
        equivalence: [f64; 2],
        p: f64,
        detectable: Option<f64>,
    ) -> Self {
        Self {
            verdict: Verdict::Inconclusive,
            confirmed: false,
            differs: false,
            family,
            equivalence,
            p,
            detectable,
            sessions_needed: None,
            reason: None,
        }
    }

    /// Decides by the interval, the margin, and whether the change can be attributed.
    pub(super) fn decide(&mut self, change: &Change, rule: Rule) {
        let worse = |[lo, hi]: [f64; 2]| {
            if rule.worse > 0.0 { [lo, hi] } else { [-hi, -lo] }
        };
        let value = change.effect.value * rule.worse;
        let ([lo, hi], [t_lo, t_hi]) = (worse(self.family), worse(self.equivalence));
        let excludes_zero = lo > 0.0 || hi < 0.0;
        let is_equal = -rule.margin < t_lo && t_hi < rule.margin;
        let differs = excludes_zero && value.abs() >= rule.margin;
        if let Some(why) = change.unattributable {
            // A difference of two single sessions is a fact; what caused it is not known.
            let found = if differs {
                "the sessions differ; not attributable"
            } else {
                "no difference found; not attributable"
            };
            let may_be_shown = !differs && matches!(change.basis, Basis::Sessions | Basis::Blocks);
            if !(may_be_shown && is_equal) {
                self.differs = differs;
                self.reason = Some(format!("{found}: {why}"));
                return;
            }
        }
        if differs {
            let is_worse = value > 0.0;
            self.verdict = if is_worse { Verdict::Regressed } else { Verdict::Improved };
            self.confirmed = if is_worse { lo > rule.margin } else { hi < -rule.margin };
        } else if is_equal {
            self.verdict = Verdict::Unchanged;
            self.reason = match (change.basis, excludes_zero) {
                (Basis::Blocks, _) => Some(OF_TWO_SESSIONS.to_owned()),
                (_, true) => Some("real, and below the margin".to_owned()),
                (_, false) => None,
            };
        }
    }
}

/// The smallest number of sessions a side with which either claim would hold, if the estimate and
/// the spread between sessions stayed as they are.
fn sessions_needed(change: &Change, rule: Rule) -> Option<u32> {
    let sd = change.session_sd?;
    let distance = change.effect.value.abs();
    let decides = |sessions: u32| {
        let n = f64::from(sessions);
        let planned = Effect { se: sd * (2.0 / n).sqrt(), df: 2.0 * n - 2.0, ..change.effect };
        let half = |confidence| {
            let interval = planned.interval(confidence).ok()?;
            Some(interval.hi - interval.value)
        };
        let widening = change.bounds.down.max(change.bounds.up);
        let shown = |confidence, room: f64| half(confidence).is_some_and(|h| h + widening < room);
        if distance >= rule.margin {
            shown(rule.family, distance)
        } else {
            shown(Confidence::P90, rule.margin - distance)
        }
    };
    fewest(decides, SESSIONS_MAX)
}

/// The fewest sessions that decide, from 2 to `most`. More sessions narrow both intervals, so the
/// number is found by halving.
pub(super) fn fewest(decides: impl Fn(u32) -> bool, most: u32) -> Option<u32> {
    let (mut few, mut enough) = (1, most);
    if !decides(enough) {
        return None;
    }
    while enough - few > 1 {
        let middle = few.midpoint(enough);
        if decides(middle) {
            enough = middle;
        } else {
            few = middle;
        }
    }
    Some(enough)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(value: f64, se: f64) -> Change {
        Change {
            effect: Effect { value, se, df: 6.0, n: 8 },
            least: None,
            bounds: Bounds::default(),
            basis: Basis::Sessions,
            unattributable: None,
            session_sd: Some(se * 2.0_f64.sqrt()),
        }
    }

    fn judged(change: &Change, worse: f64) -> Judged {
        let rule =
            Rule { worse, margin: 0.03, family: Confidence::simultaneous(0.05, 25).unwrap() };
        Judged::of(change, rule).unwrap()
    }

    /// t of 6 degrees of freedom is 5.96 for the family of 25 and 1.943 for the 90 % interval.
    #[test]
    fn verdicts_follow_from_both_intervals_and_the_margin() {
        use Verdict::{Improved, Inconclusive, Regressed, Unchanged};
        for (value, se, worse, verdict, confirmed) in [
            (-0.10, 0.01, -1.0, Regressed, true),
            (-0.08, 0.01, -1.0, Regressed, false),
            (0.08, 0.01, -1.0, Improved, false),
            (0.08, 0.01, 1.0, Regressed, false),
            (-0.05, 0.01, -1.0, Inconclusive, false),
            // Excludes zero, below the margin, and equivalence is shown.
            (-0.02, 0.001, -1.0, Unchanged, false),
            (0.0, 0.015, -1.0, Unchanged, false),
            (0.0, 0.016, -1.0, Inconclusive, false),
            // Excludes zero, and neither reaches the margin nor lies inside it.
            (-0.029, 0.002, -1.0, Inconclusive, false),
            (-0.03, 0.002, -1.0, Regressed, false),
            (0.0, 0.0, 1.0, Unchanged, false),
        ] {
            let found = judged(&change(value, se), worse);
            assert_eq!(found.verdict, verdict, "{value} {se}: {found:?}");
            assert_eq!(found.confirmed, confirmed, "{value} {se}: {found:?}");
        }
        let real = judged(&change(-0.02, 0.001), -1.0);
        assert_eq!(real.reason.as_deref(), Some("real, and below the margin"));
    }

    #[test]
    fn what_cannot_be_attributed_is_no_regression() {
        let single = Change {
            basis: Basis::Blocks,
            unattributable: Some("one session a side"),
            ..change(-0.5, 0.001)
        };
        let found = judged(&single, -1.0);
        assert_eq!(found.verdict, Verdict::Inconclusive);
        let reason = found.reason.unwrap();
        assert!(reason.starts_with("the sessions differ; not attributable"), "{reason}");
        assert!(found.differs);
        // Two sessions that agree within the margin are equal, which says nothing about others.
        let equal = judged(&Change { effect: change(0.0, 0.001).effect, ..single }, -1.0);
        assert_eq!(equal.verdict, Verdict::Unchanged);
        assert_eq!(equal.reason.as_deref(), Some(OF_TWO_SESSIONS));
        let wide = Change { effect: change(0.0, 0.1).effect, ..single };
        let open = judged(&wide, -1.0);
        assert_eq!((open.verdict, open.differs), (Verdict::Inconclusive, false));
        // One against a few is not: a prediction from few sessions is wide for a reason.
        let few = Change { basis: Basis::Prediction, effect: change(0.0, 0.001).effect, ..single };
        assert_eq!(judged(&few, -1.0).verdict, Verdict::Inconclusive);
    }

    #[test]
    fn bounds_widen_both_claims() {
        let with =
            |value, se| Change { bounds: Bounds { down: 0.02, up: 0.0 }, ..change(value, se) };
        assert_eq!(judged(&with(0.08, 0.01), 1.0).verdict, Verdict::Regressed);
        let wider = Change { bounds: Bounds { down: 0.03, up: 0.0 }, ..change(0.08, 0.01) };
        assert_eq!(judged(&wider, 1.0).verdict, Verdict::Inconclusive);
        assert_eq!(judged(&with(-0.012, 0.001), 1.0).verdict, Verdict::Inconclusive);
        let wide = judged(&with(0.0, 0.005), 1.0);
        assert!(wide.detectable > judged(&change(0.0, 0.005), 1.0).detectable);
    }

    #[test]
    fn an_inconclusive_row_says_how_many_sessions_decide() {
        let found = judged(&change(0.05, 0.01), 1.0);
        let needed = found.sessions_needed.unwrap();
        // The sessions' deviation is sqrt(2) * 0.01 over 4 sessions a side.
        assert!((4..=6).contains(&needed), "{needed}");
        let mut exact = change(0.03, 0.01);
        exact.effect.value = 0.03 - 1e-9;
        assert_eq!(judged(&exact, 1.0).sessions_needed, None);
    }
}
