//! The result of a comparison: what `--format json` prints.

use std::collections::BTreeMap;

use gpubench_record::{DeviceKind, Margins};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::change::Basis;
use super::comparability::Difference;
use super::hint::Hint;
use super::options::KnownFrom;
use super::repetition::Repetition;
use super::verdict::Verdict;
use crate::session::{Count, Metric, RowKey};

/// Version of this format: it rises when a field changes its meaning or its name.
pub const FORMAT: u32 = 2;

/// The comparison of two sides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(title = "gpubench diff")]
pub struct Report {
    /// Version of this format.
    pub diff_format: u32,
    /// Real or virtual.
    pub kind: DeviceKind,
    /// Product name of the GPUs; `BEFORE -> AFTER` where the sides differ.
    pub product: String,
    /// The side before.
    pub before: Vec<SessionRef>,
    /// The side after.
    pub after: Vec<SessionRef>,
    /// The smallest changes that matter.
    #[serde(default)]
    pub margins: Margins,
    /// Facts that were varied.
    pub vary: Vec<String>,
    /// Every fact that differs.
    pub differences: Vec<Difference>,
    /// Whether the sides can be compared; without it there are no rows.
    pub comparable: bool,
    /// What a change can be attributed to, in one sentence.
    pub attribution: String,
    /// Rows that share the error of a false alarm.
    pub family: Family,
    /// Every row: primary ones, proportions, others.
    pub rows: Vec<DiffRow>,
    /// Primary rows by verdict.
    pub counts: Counts,
    /// What all primary rows say together, whatever `--fail-on` makes of it.
    pub conclusion: Conclusion,
    /// The A/A pairs of these sessions.
    pub repetition: Repetition,
    /// Exit status.
    pub exit: u8,
}

/// What a comparison says: the first that applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Conclusion {
    /// A fact differs that must not.
    NotComparable,
    /// A row regressed.
    Regression,
    /// A row differs between the sessions, and the cause cannot be attributed.
    NotAttributable,
    /// A row is inconclusive, or only one side measured it.
    Open,
    /// No row has figures on both sides.
    NothingCompared,
    /// A row improved, and the others are unchanged.
    Improvement,
    /// Every row is equal within the margin.
    Equal,
}

/// A session of a side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionRef {
    /// Its folder.
    pub name: String,
    /// When it began.
    pub started_at: String,
    /// UUID of its GPU; empty where it is not recorded.
    pub uuid: String,
    /// Its driver; empty where it is not recorded.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub driver: String,
    /// What could not be read of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub losses: Vec<String>,
}

/// The primary rows.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Family {
    /// Primary rows that either side planned. Proportions of one variant and axis share the error
    /// of one row.
    pub rows: u32,
    /// Error of a false alarm in any of them.
    pub alpha: f64,
    /// Confidence of the interval of each of them.
    pub coverage: f64,
}

/// One row of both sides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DiffRow {
    /// What it measures.
    #[serde(flatten)]
    pub key: RowKey,
    /// Whether it counts for the exit status. An undecided proportion does where the sides differ.
    pub primary: bool,
    /// The verdict.
    pub verdict: Verdict,
    /// The whole interval lies beyond the margin.
    #[serde(default)]
    pub confirmed: bool,
    /// An inconclusive row whose change reaches the margin with an interval that excludes 0,
    /// between sessions too few to attribute it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub differs: bool,
    /// Whether the figures of both sides are bounds and no values, because the victim starved: such
    /// a row has no verdict and counts for no exit status.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub bounds: bool,
    /// Why the verdict is what it is, where that needs words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What the reports of the sessions print beside the row.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<Doubt>,
    /// A likely cause of a change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<Hint>,
    /// By how much what was measured of a cause moved, by name, for a row that changed: shares, of
    /// latencies where the row is one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub moved: BTreeMap<String, f64>,
    /// Sessions with the row, before and after.
    pub sessions: [u32; 2],
    /// Blocks of these sessions.
    pub blocks: [u32; 2],
    /// Trials with the promised result before and after, for a proportion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trials: Option<[Count; 2]>,
    /// The figures; absent where a side has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub figures: Option<Figures>,
}

impl DiffRow {
    /// Whether it got worse or better, or differs without a known cause.
    pub const fn is_change(&self) -> bool {
        self.differs || matches!(self.verdict, Verdict::Regressed | Verdict::Improved)
    }

    /// The likely cause of its change, with what was measured of it.
    pub fn cause(&self) -> Option<String> {
        let worse = self.key.metric.worse();
        let is_worse = self.figures.as_ref().is_some_and(|one| one.change * worse > 0.0);
        let hint = self.hint.map(|hint| hint.text(is_worse));
        let moved =
            self.moved.iter().map(|(name, by)| format!("{name} {:+.1} %", 100.0 * by + 0.0));
        let moved = moved.collect::<Vec<_>>().join(", ");
        match hint {
            _ if moved.is_empty() => hint.map(str::to_owned),
            hint => Some(format!("{} ({moved})", hint.unwrap_or("no single cause"))),
        }
    }

    /// The size of its change in margins; 0 without figures.
    pub fn size(&self) -> f64 {
        self.figures.as_ref().map_or(0.0, |figures| (figures.change / figures.margin).abs())
    }
}

/// What reports print beside a row. Texts that differ in their numbers alone are one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Doubt {
    /// The first of these texts.
    pub text: String,
    /// Sessions that have one, before and after.
    pub sessions: [u32; 2],
}

impl Doubt {
    /// The text up to its first number: `lateness in`, `the victim starved in`.
    pub fn kind(text: &str) -> &str {
        text.split(|c: char| c.is_ascii_digit()).next().unwrap_or(text)
    }
}

/// The figures of a row. Changes are shares of the figure before, native medians for jitter, or
/// differences of proportions; a positive one is an increase of the figure, whether that is better
/// or worse.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Figures {
    /// Mean of the side before: geometric, or arithmetic for jitter. In a row of `bounds`, the most
    /// that the figure can be.
    pub before: f64,
    /// Mean of the side after.
    pub after: f64,
    /// `share`, `native medians` or `proportion`.
    pub unit: String,
    /// The change.
    pub change: f64,
    /// Lower end of the interval: that of the family for a primary row, 95 % for others.
    pub lo: f64,
    /// Its upper end.
    pub hi: f64,
    /// Lower end of the 90 % interval, which equivalence is judged by.
    pub equivalence_lo: f64,
    /// Its upper end.
    pub equivalence_hi: f64,
    /// Smallest change that matters.
    pub margin: f64,
    /// Smallest change that this comparison finds with 80 % power; absent where it finds none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detectable: Option<f64>,
    /// Sessions a side that would decide an inconclusive row; absent if more than 1,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sessions_needed: Option<u32>,
    /// Basis of the standard error.
    pub basis: Basis,
    /// Whose sessions the spread between sessions is known from, with the basis `known-spread`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread_from: Option<KnownFrom>,
    /// Degrees of freedom.
    pub df: f64,
    /// Two-sided p value of no change.
    pub p: f64,
    /// The same for all rows of the family: Holm for primary rows, Benjamini-Hochberg for others.
    pub p_adjusted: f64,
}

/// Primary rows by verdict.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Counts {
    /// Got worse.
    pub regressed: u32,
    /// Got better.
    pub improved: u32,
    /// Shown to be equal within the margin.
    pub unchanged: u32,
    /// None of these.
    pub inconclusive: u32,
    /// Of these, rows that differ and cannot be attributed.
    pub differing: u32,
    /// Figures cannot be trusted.
    pub invalid: u32,
    /// No figures on one side.
    pub not_measured: u32,
    /// Of the last two, rows that one side measured.
    pub lost: u32,
}

impl Counts {
    pub fn of(rows: &[DiffRow]) -> Self {
        let mut counts = Self::default();
        for row in rows.iter().filter(|row| row.primary) {
            let count = match row.verdict {
                Verdict::Regressed => &mut counts.regressed,
                Verdict::Improved => &mut counts.improved,
                Verdict::Unchanged => &mut counts.unchanged,
                Verdict::Inconclusive => &mut counts.inconclusive,
                Verdict::Invalid => &mut counts.invalid,
                Verdict::NotMeasured => &mut counts.not_measured,
            };
            *count += 1;
            counts.differing += u32::from(row.differs);
            if row.figures.is_none() && row.sessions.iter().any(|n| *n > 0) {
                counts.lost += 1;
            }
        }
        counts
    }

    /// All of them.
    pub const fn rows(&self) -> u32 {
        let judged = self.regressed + self.improved + self.unchanged + self.inconclusive;
        judged + self.invalid + self.not_measured
    }

    /// A comparison without a single verdict is open too: it must not look like success.
    pub(super) const fn conclusion(&self) -> Conclusion {
        if self.regressed > 0 {
            Conclusion::Regression
        } else if self.differing > 0 {
            Conclusion::NotAttributable
        } else if self.inconclusive + self.lost > 0 {
            Conclusion::Open
        } else if self.improved > 0 {
            Conclusion::Improvement
        } else if self.unchanged > 0 {
            Conclusion::Equal
        } else {
            Conclusion::NothingCompared
        }
    }
}

impl Figures {
    /// A change or one of its ends in the unit of the row: a share for logarithms.
    pub(crate) fn unit_of(metric: Metric, value: f64) -> f64 {
        if metric.is_log() { value.exp_m1() } else { value }
    }
}
