//! The change of one row between two sides, with its standard error.
//!
//! The unit is the session: requests and blocks of one session share what that session did to them.
//! With one session a side only its blocks are left, and their spread says nothing about how
//! sessions differ; such a change is measured and cannot be attributed.

use gpubench_stats::summary::mean;
use gpubench_stats::two_sample::{
    SessionSpread, between_sessions, new_against_baseline, one_against_one, variance_ratio_p, welch,
};
use gpubench_stats::{Effect, NoEstimate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::repetition::Excess;
use crate::session::{Bounds, Series};

/// Sessions that each side needs before a change is attributed.
pub const SESSIONS_MIN: usize = 3;
/// Sessions of a baseline against which one further session is judged.
pub const BASELINE_MIN: usize = 10;
/// Level of the test whether repeated cells show more spread than the sessions.
const EXCESS_ALPHA: f64 = 0.01;

/// What a standard error was computed from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// The spread between the sessions of both sides (Student, or Welch where theirs differ).
    Sessions,
    /// The spread between the sessions of the side that has several: a prediction interval.
    Prediction,
    /// One session a side, with the spread between sessions known from others.
    KnownSpread,
    /// The blocks of one session a side; the spread between sessions is unknown.
    Blocks,
    /// Trials, with the spread between sessions where they differ more than trials do.
    Trials,
}

/// A change, after minus before, on the scale of the row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    /// The effect with its standard error.
    pub effect: Effect,
    /// The same effect with what repeated cells show, where that is more than the sessions do: no
    /// interval is narrower than its.
    pub least: Option<Effect>,
    /// How far disturbances can have moved it, down and up.
    pub bounds: Bounds,
    /// Basis of the standard error.
    pub basis: Basis,
    /// Why the change cannot be attributed to what was varied, if it cannot.
    pub unattributable: Option<&'static str>,
    /// Standard deviation between sessions, for the number of sessions that would decide.
    pub session_sd: Option<f64>,
}

impl Change {
    /// The change from one side to the other. `history` is the spread between sessions of earlier
    /// records of this GPU.
    /// Fails when a side has no session, or a figure is not finite.
    pub fn between(
        before: &[&Series],
        after: &[&Series],
        history: Option<SessionSpread>,
    ) -> Result<Self, NoEstimate> {
        Self::of(before, after, history, |series| &series.blocks)
    }

    /// The change between so many sessions a side with what repeated cells show.
    ///
    /// Sessions spread by no less than two cells of one session do. Where repeated cells show
    /// significantly more than the sessions themselves, both variances are pooled by their degrees
    /// of freedom, and no interval is narrower than that gives. Where they show more by chance, the
    /// interval of the sessions covers as it says and stays. The standard error of blocks grows by
    /// it.
    /// Fails when the variance of repeated cells is not finite.
    pub(super) fn widened(
        mut self,
        excess: Option<Excess>,
        sessions: [usize; 2],
    ) -> Result<Self, NoEstimate> {
        let Some(Excess { variance, repeats }) = excess.filter(|excess| excess.variance > 0.0)
        else {
            return Ok(self);
        };
        let within: f64 = sessions.into_iter().map(|n| variance / n as f64).sum();
        let (own, df, repeats) = (self.effect.se.powi(2), self.effect.df, f64::from(repeats));
        if self.basis != Basis::Blocks {
            let pooled = (df * own + repeats * within) / (df + repeats);
            let pooled = Effect { se: pooled.sqrt(), df: df + repeats, ..self.effect };
            let is_more = variance_ratio_p(within / own, repeats, df)? < EXCESS_ALPHA;
            self.least = is_more.then_some(pooled);
            return Ok(self);
        }
        // Welch and Satterthwaite's degrees of freedom of the sum of two variances.
        let parts = [(own, df), (within, repeats)];
        let squares: f64 = parts.iter().map(|(part, df)| part.powi(2) / df).sum();
        self.effect.se = (own + within).sqrt();
        self.effect.df = (own + within).powi(2) / squares;
        Ok(self)
    }

    /// The same in cycles of the SM clock; an error where a session has none.
    /// Fails as [`Change::between`].
    pub fn in_cycles(
        before: &[&Series],
        after: &[&Series],
        history: Option<SessionSpread>,
    ) -> Result<Self, NoEstimate> {
        Self::of(before, after, history, |series| &series.cycles)
    }

    fn of(
        before: &[&Series],
        after: &[&Series],
        history: Option<SessionSpread>,
        blocks: fn(&Series) -> &Vec<f64>,
    ) -> Result<Self, NoEstimate> {
        let means = |side: &[&Series]| -> Result<Vec<f64>, NoEstimate> {
            side.iter().map(|series| mean(blocks(series))).collect()
        };
        let (one, two) = (means(before)?, means(after)?);
        let (effect, basis) = match (one.as_slice(), two.as_slice()) {
            (&[], _) | (_, &[]) => {
                return Err(NoEstimate::TooFew { what: "sessions of a side", have: 0, need: 1 });
            }
            (&[_], &[_]) => single(blocks(before[0]), blocks(after[0]), history)?,
            (baseline, new) if is_of_baseline(baseline, new) => {
                (new_against_baseline(baseline, new)?, Basis::Prediction)
            }
            (new, baseline) if is_of_baseline(baseline, new) => {
                let mirrored = new_against_baseline(baseline, new)?;
                let value = -mirrored.value;
                (Effect { value, ..mirrored }, Basis::Prediction)
            }
            (one, two) => (between_sessions(one, two)?, Basis::Sessions),
        };
        Ok(Self {
            effect,
            least: None,
            bounds: bounds(before, after),
            basis,
            unattributable: unattributable(one.len(), two.len(), basis),
            session_sd: session_sd(&one, &two, history),
        })
    }
}

/// Whether the spread of one side judges the few sessions of the other: those of a long baseline
/// also where there are two, whose own spread says little.
const fn is_of_baseline(baseline: &[f64], new: &[f64]) -> bool {
    new.len() == 1 || new.len() < SESSIONS_MIN && baseline.len() >= BASELINE_MIN
}

fn single(
    before: &[f64],
    after: &[f64],
    history: Option<SessionSpread>,
) -> Result<(Effect, Basis), NoEstimate> {
    match history.filter(|known| known.sessions as usize >= SESSIONS_MIN) {
        Some(known) => Ok((one_against_one(before, after, known)?, Basis::KnownSpread)),
        None => Ok((welch(before, after)?, Basis::Blocks)),
    }
}

/// Disturbances of one host do not average out, so the bounds of a side are the mean over its
/// sessions, and those of both sides add.
fn bounds(before: &[&Series], after: &[&Series]) -> Bounds {
    let of = |side: &[&Series], end: fn(&Bounds) -> f64| {
        side.iter().map(|series| end(&series.bounds)).sum::<f64>() / side.len() as f64
    };
    Bounds {
        down: of(after, |bounds| bounds.down) + of(before, |bounds| bounds.up),
        up: of(after, |bounds| bounds.up) + of(before, |bounds| bounds.down),
    }
}

/// Why a change between so many sessions cannot be attributed.
pub(super) const fn unattributable(
    before: usize,
    after: usize,
    basis: Basis,
) -> Option<&'static str> {
    let (fewer, more) = if before < after { (before, after) } else { (after, before) };
    match basis {
        Basis::KnownSpread => None,
        Basis::Blocks => Some("one session a side"),
        Basis::Prediction if more >= BASELINE_MIN => None,
        Basis::Prediction => Some("one session on a side"),
        Basis::Trials if more >= BASELINE_MIN => None,
        Basis::Sessions | Basis::Trials if fewer >= SESSIONS_MIN => None,
        Basis::Sessions | Basis::Trials => Some("fewer than 3 sessions on a side"),
    }
}

/// The pooled standard deviation between sessions; `None` where it is unknown.
fn session_sd(before: &[f64], after: &[f64], history: Option<SessionSpread>) -> Option<f64> {
    let squares = |side: &[f64]| {
        let centre = mean(side).ok()?;
        Some(side.iter().map(|x| (x - centre).powi(2)).sum::<f64>())
    };
    let df = (before.len() + after.len()).checked_sub(2)?;
    if df == 0 {
        return history.map(|known| known.sd);
    }
    Some(((squares(before)? + squares(after)?) / df as f64).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(mean: f64) -> Series {
        Series { blocks: [-0.01, 0.0, 0.01].map(|x| x + mean).to_vec(), ..Series::default() }
    }

    fn side(means: &[f64]) -> Vec<Series> {
        means.iter().map(|mean| series(*mean)).collect()
    }

    fn change(before: &[f64], after: &[f64], history: Option<SessionSpread>) -> Change {
        let (before, after) = (side(before), side(after));
        let (one, two): (Vec<_>, Vec<_>) = (before.iter().collect(), after.iter().collect());
        Change::between(&one, &two, history).unwrap()
    }

    #[test]
    fn the_number_of_sessions_chooses_the_standard_error() {
        let ten = [0.0, 0.01, -0.01, 0.02, 0.0, 0.01, -0.02, 0.0, 0.01, 0.0];
        let known = SessionSpread { sd: 0.01, sessions: 10 };
        let few = SessionSpread { sessions: 2, ..known };
        for (before, after, history, basis, attributed) in [
            (&ten[..3], &ten[3..6], None, Basis::Sessions, true),
            (&ten[..3], &ten[3..5], None, Basis::Sessions, false),
            (&ten[..], &[0.1][..], None, Basis::Prediction, true),
            (&ten[..], &[0.1, 0.1][..], None, Basis::Prediction, true),
            (&[0.1, 0.1][..], &ten[..], None, Basis::Prediction, true),
            (&[0.1, 0.1][..], &ten[..9], None, Basis::Sessions, false),
            (&[0.1][..], &ten[..9], None, Basis::Prediction, false),
            (&[0.0][..], &[0.1][..], None, Basis::Blocks, false),
            (&[0.0][..], &[0.1][..], Some(few), Basis::Blocks, false),
            (&[0.0][..], &[0.1][..], Some(known), Basis::KnownSpread, true),
        ] {
            let found = change(before, after, history);
            assert_eq!(found.basis, basis);
            assert_eq!(found.unattributable.is_none(), attributed, "{found:?}");
            let back = change(after, before, history);
            assert_eq!(back.effect.value, -found.effect.value);
            assert_eq!((back.effect.se, back.effect.df), (found.effect.se, found.effect.df));
        }
    }

    #[test]
    fn repeated_cells_widen_a_change_and_narrow_none() {
        let sessions = change(&[0.0, 0.01, -0.01], &[0.0, 0.01, -0.01], None);
        let blocks = change(&[0.0], &[0.1], None);
        let excess = |sd: f64| Some(Excess { variance: sd * sd, repeats: 6 });
        let widened = |sd| sessions.widened(excess(sd), [3, 3]).unwrap();
        assert_eq!(sessions.widened(None, [3, 3]), Ok(sessions));
        // Sessions of 0.01 with four degrees of freedom, repeated cells of 0.05 with six. At 1 %
        // a ratio of the variances above 15.2 is no chance.
        for by_chance in [0.001, 0.038] {
            assert_eq!(widened(by_chance), sessions);
        }
        let least = widened(0.05).least.unwrap();
        let pooled = (4.0 * 0.01_f64.powi(2) + 6.0 * 0.05_f64.powi(2)) / 10.0 * 2.0 / 3.0;
        assert!((least.se - pooled.sqrt()).abs() < 1e-12, "{least:?}");
        assert_eq!((least.df, least.value), (10.0, sessions.effect.value));
        // Blocks know nothing of it.
        let wide = blocks.widened(excess(0.001), [1, 1]).unwrap().effect;
        let expected = (blocks.effect.se.powi(2) + 2e-6).sqrt();
        assert!((wide.se - expected).abs() < 1e-12, "{wide:?}");
    }

    #[test]
    fn bounds_of_both_sides_add_at_the_end_they_act_on() {
        let with = |down, up| Series { bounds: Bounds { down, up }, ..series(0.0) };
        let (a, b) = (with(0.01, 0.02), with(0.04, 0.08));
        let found = Change::between(&[&a], &[&b], None).unwrap().bounds;
        assert_eq!((found.down, found.up), (0.04 + 0.02, 0.08 + 0.01));
        assert!(Change::between(&[], &[&b], None).is_err());
        assert!(Change::in_cycles(&[&a], &[&b], None).is_err());
    }
}
