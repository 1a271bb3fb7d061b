//! What the user sets: what was varied, margins, and which verdicts fail.

use std::collections::BTreeMap;

use gpubench_record::Margins;
use gpubench_stats::two_sample::SessionSpread;
use gpubench_stats::{NoEstimate, Sorted};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::session::{Metric, RowKey, Session};

/// Error of a false alarm among the primary rows, and of a false discovery among the others.
pub const ALPHA: f64 = 0.05;

#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Facts that differ on purpose.
    pub vary: Vec<String>,
    /// Compare although a fact differs that should not.
    pub force: bool,
    /// Smallest changes that matter, where they are not those of the records.
    pub margins: MarginsWish,
    /// Verdicts that fail.
    pub fail_on: FailOn,
    /// What is known of each row from sessions between which nothing changed.
    pub history: BTreeMap<RowKey, Repeatability>,
    /// Comparisons that share the error of a false alarm with this one; 0 and 1 are this one alone.
    pub families: usize,
    /// Earlier sessions of this GPU, for the rate of A/A false alarms.
    pub nights: Vec<Session>,
}

/// Margins of the user in place of those that the records have.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct MarginsWish {
    /// Of ratios, rates and medians.
    pub ratio: Option<f64>,
    /// Of the 99th percentile.
    pub p99: Option<f64>,
    pub jitter: Option<f64>,
    /// Of proportions of trials.
    pub survival: Option<f64>,
}

impl MarginsWish {
    /// The margins of a comparison of these sessions: those of the wish, else those of the records'
    /// profiles. Where these differ, the smaller one counts, so that swapped sides have the same.
    pub fn over<'a>(self, sessions: impl Iterator<Item = &'a Session>) -> Margins {
        let recorded = sessions.filter_map(|session| session.margins);
        let recorded = recorded.reduce(Margins::smaller).unwrap_or_default();
        Margins {
            ratio: self.ratio.unwrap_or(recorded.ratio),
            p99: self.p99.unwrap_or(recorded.p99),
            jitter: self.jitter.unwrap_or(recorded.jitter),
            survival: self.survival.unwrap_or(recorded.survival),
        }
    }
}

/// The margin of a metric, on the scale of its blocks. `size` is the mean of the absolute figures
/// of both sides, so that the margin does not depend on which side comes first.
pub fn margin_of(margins: Margins, metric: Metric, size: f64) -> f64 {
    match metric {
        Metric::Jitter => margins.jitter * size.max(1.0),
        Metric::P99 => margins.p99.ln_1p(),
        Metric::Survival => margins.survival,
        _ => margins.ratio.ln_1p(),
    }
}

/// Verdicts of primary rows that fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailOn {
    /// A regression: exit status 30.
    pub regression: bool,
    /// An inconclusive row, or one that only one side measured: exit status 10.
    pub inconclusive: bool,
    /// An improvement: exit status 10, for someone to look at.
    pub improved: bool,
}

impl Default for FailOn {
    fn default() -> Self {
        Self { regression: true, inconclusive: true, improved: false }
    }
}

impl FailOn {
    /// Nothing fails (`--advisory`).
    pub const NOTHING: Self = Self { regression: false, inconclusive: false, improved: false };
}

/// Whose sessions the spread between sessions is known from.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum KnownFrom {
    /// `doctor --calibrate` on this GPU: of its native cells.
    Calibration,
    /// Nights of this GPU: of the row itself.
    History,
    /// Another GPU of the model, by the file of its `doctor --calibrate`.
    Published,
}

impl KnownFrom {
    /// As in sentences.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Calibration => "doctor --calibrate on this GPU",
            Self::History => "the history of this GPU",
            Self::Published => "the spread published for another GPU of the model",
        }
    }
}

/// What sessions between which nothing changed say about one row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Repeatability {
    /// Spread between sessions.
    pub spread: SessionSpread,
    /// 95th percentile of the absolute change between consecutive sessions; the margin is at least
    /// this.
    pub change_q95: f64,
    /// Whose sessions.
    pub from: KnownFrom,
}

impl Repeatability {
    /// From the means of sessions between which nothing changed, in their order.
    /// Fails with [`NoEstimate::TooFew`] below two sessions, [`NoEstimate::NotFinite`] for a bad
    /// mean.
    pub fn of_sessions(means: &[f64], from: KnownFrom) -> Result<Self, NoEstimate> {
        let steps = means.windows(2).map(|pair| (pair[1] - pair[0]).abs());
        Ok(Self {
            spread: SessionSpread::of_sessions(means)?,
            change_q95: Sorted::new(steps.collect())?.linear(0.95)?,
            from,
        })
    }
}
