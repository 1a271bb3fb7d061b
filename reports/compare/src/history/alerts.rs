//! What a person has to look at: rows that changed across an event, that drift, or that changed
//! inside a segment; and GPUs that stopped reporting.
//!
//! All comparisons across events and all drifts of a history share one error of a false alert. A
//! change across an event is that of a GPU, or of all GPUs that have the event: a rollout shows on
//! its first morning, when no GPU has more than one night of it.

use std::collections::{BTreeMap, BTreeSet};

use gpubench_record::{ExitCode, Margins};
use gpubench_stats::summary::mean;
use gpubench_stats::two_sample::holm;
use gpubench_stats::{Confidence, Effect, NoEstimate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{History, LABEL, Night, SeriesReport};
use crate::diff::change::{Basis, Change};
use crate::diff::options::ALPHA;
use crate::diff::verdict::{Judged, Rule};
use crate::diff::{Figures, SESSIONS_MIN, Verdict, margin_of};
use crate::session::{Bounds, Metric, RowKey, Session};

/// Fewest nights of a segment in which a drift is looked for.
pub(super) const DRIFT_MIN: usize = 8;
/// A drift goes on, so a part of the margin counts.
const DRIFT_PART: f64 = 3.0;
/// Nights that others have more since the last one of a GPU that stopped reporting.
const MISSED_MIN: usize = 2;
/// Nights of a GPU that is expected to report.
const OWN_MIN: usize = 3;

/// What an alert rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AlertKind {
    /// The nights before and after an event.
    Event,
    /// A trend over the last segment.
    Drift,
    /// A change point inside a segment: a reason to look, and no verdict.
    Change,
}

/// Rows that changed together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Alert {
    /// What it rests on.
    pub kind: AlertKind,
    /// The event, or what there is in place of one.
    pub what: String,
    /// The last night before and the first one after, of the first GPU.
    pub between: [String; 2],
    /// When the first night after it began.
    pub at: String,
    /// Whether the rows got worse.
    pub worse: bool,
    /// The rows.
    pub rows: Vec<AlertRow>,
    /// By what a person acknowledged all of its rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acknowledged: Option<String>,
}

/// A row of an alert.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AlertRow {
    /// `variant axis metric`.
    pub row: String,
    /// Its change, as a share or in native medians; the largest of its GPUs.
    pub change: f64,
    /// The GPUs, by label or UUID.
    pub gpus: BTreeSet<String>,
}

/// A regression that a person knows of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Acknowledged {
    /// RFC 3339 time in UTC: alerts that began later are not meant.
    pub at: String,
    /// Why it is accepted.
    pub what: String,
    /// `variant axis metric` of each row.
    pub rows: BTreeSet<String>,
}

/// A GPU that has fewer nights than its peers since its last one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Missing {
    /// By label or UUID.
    pub gpu: String,
    /// Its last night.
    pub last: String,
    /// Nights that most others have had since.
    pub missed: u32,
}

/// The nights of a folder since its last record, by its list of nights.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Unmeasured {
    /// The folder.
    pub folder: String,
    /// How many nights.
    pub nights: u32,
    /// The verdict of the last one.
    pub verdict: String,
}

impl Alert {
    /// Whether it is a regression by a test that holds the error of all.
    pub fn is_regression(&self) -> bool {
        self.worse && self.kind != AlertKind::Change
    }
}

impl History {
    /// Marks the alerts that these acknowledge.
    pub fn acknowledged(mut self, by: &[Acknowledged]) -> Self {
        for alert in &mut self.alerts {
            let covers = |one: &&Acknowledged| {
                one.at >= alert.at && alert.rows.iter().all(|row| one.rows.contains(&row.row))
            };
            alert.acknowledged = by.iter().find(covers).map(|one| one.what.clone());
        }
        self.exit = self.exit_code().code();
        self
    }

    pub fn unacknowledged(&self) -> impl Iterator<Item = &Alert> {
        self.alerts.iter().filter(|one| one.is_regression() && one.acknowledged.is_none())
    }

    /// 30 while a regression stands, 3 where a GPU stopped reporting or the last nights have no
    /// record, else 0.
    pub fn exit_code(&self) -> ExitCode {
        if self.unacknowledged().next().is_some() {
            ExitCode::Regression
        } else if self.missing.is_empty() && self.unmeasured.is_empty() {
            ExitCode::Done
        } else {
            ExitCode::NothingRan
        }
    }
}

/// By label, else by UUID.
fn name_of(series: &SeriesReport) -> String {
    let label = series.identity.iter().find(|(name, _)| name.starts_with(LABEL));
    let uuid = series.identity.get("uuid");
    label.map(|(_, value)| value).or(uuid).cloned().unwrap_or_default()
}

fn row_of(key: &RowKey) -> String {
    format!("{} {} {}", key.variant, key.axis, key.metric.as_str())
}

/// The row of a series that looks worse across its last event or in its last nights, and that too
/// few nights leave open.
pub(super) fn undecided(series: &SeriesReport) -> Option<AlertRow> {
    let across = series.crossings.last().and_then(|last| {
        let figures = last.figures.as_ref()?;
        let is_apart = figures.lo * figures.hi > 0.0;
        let is_worse = is_apart && figures.change * series.key.metric.worse() > 0.0;
        (last.verdict == Verdict::Inconclusive && is_worse).then_some(figures.change)
    });
    across.or(series.open).map(|change| AlertRow {
        row: row_of(&series.key),
        change,
        gpus: [name_of(series)].into(),
    })
}

/// The alerts of these series; `families` share the error of a false one.
pub(super) fn of(
    series: &[SeriesReport],
    margins: Margins,
    families: usize,
) -> Result<Vec<Alert>, NoEstimate> {
    let alpha = ALPHA / families.max(1) as f64;
    let mut alerts = Alerts::default();
    across_gpus(series, margins, alpha, &mut alerts)?;
    for one in series {
        for crossing in &one.crossings {
            let (Verdict::Regressed | Verdict::Improved, Some(figures)) =
                (crossing.verdict, &crossing.figures)
            else {
                continue;
            };
            let what = events_at(one, &crossing.between[1]);
            alerts.add(AlertKind::Event, what, &crossing.between, one, figures.change);
        }
    }
    drifts(series, margins, alpha, &mut alerts)?;
    for one in series {
        for change in &one.changes {
            let what = "change without an event".to_owned();
            alerts.add(AlertKind::Change, what, &change.between, one, change.change);
        }
    }
    let mut alerts = alerts.0;
    alerts.sort_by_key(|one| (!one.worse, one.kind as u8, one.at.clone()));
    Ok(alerts)
}

#[derive(Default)]
struct Alerts(Vec<Alert>);

impl Alerts {
    fn add(
        &mut self,
        kind: AlertKind,
        what: String,
        between: &[String; 2],
        series: &SeriesReport,
        change: f64,
    ) {
        let worse = change * series.key.metric.worse() > 0.0;
        let night = series.nights.iter().find(|night| night.session == between[1]);
        let at = night.map_or_else(String::new, |night| night.started_at.clone());
        // Change points have no event in common but their nights.
        let same = |one: &&mut Alert| {
            (one.kind, one.worse, &one.what) == (kind, worse, &what)
                && (kind != AlertKind::Change || one.between == *between)
        };
        let known = self.0.iter_mut().find(same);
        let alert = match known {
            Some(alert) => alert,
            None => {
                let (between, rows) = (between.clone(), Vec::new());
                self.0.push(Alert { kind, what, between, at, worse, rows, acknowledged: None });
                let last = self.0.len() - 1;
                &mut self.0[last]
            }
        };
        let row = row_of(&series.key);
        let at = alert.rows.iter().position(|one| one.row == row).unwrap_or_else(|| {
            alert.rows.push(AlertRow { row, change, gpus: BTreeSet::new() });
            alert.rows.len() - 1
        });
        let row = &mut alert.rows[at];
        row.gpus.insert(name_of(series));
        if change.abs() > row.change.abs() {
            row.change = change;
        }
    }
}

/// The events before a night.
fn events_at(series: &SeriesReport, session: &str) -> String {
    let events = series.events.iter().filter(|event| event.session == session);
    events.map(|event| event.what.as_str()).collect::<Vec<_>>().join(", ")
}

fn raw(metric: Metric, night: &Night) -> f64 {
    if metric.is_log() { night.value.ln() } else { night.value }
}

/// The mean of the nights before and after an event that begins at this time, up to the next ones.
fn sides(series: &SeriesReport, at: &str) -> Option<[f64; 2]> {
    let times = || series.events.iter().map(|event| event.started_at.as_str());
    let (from, to) =
        (times().filter(|time| *time < at).max(), times().filter(|time| *time > at).min());
    let mean_of = |is_inside: &dyn Fn(&str) -> bool| {
        let inside = series.nights.iter().filter(|one| !one.bound && is_inside(&one.started_at));
        mean(&inside.map(|one| raw(series.key.metric, one)).collect::<Vec<_>>()).ok()
    };
    let before = mean_of(&|time| time < at && from.is_none_or(|from| time >= from))?;
    Some([before, mean_of(&|time| time >= at && to.is_none_or(|to| time < to))?])
}

/// Rows that changed across an event that several GPUs have: one difference a GPU.
fn across_gpus(
    series: &[SeriesReport],
    margins: Margins,
    alpha: f64,
    alerts: &mut Alerts,
) -> Result<(), NoEstimate> {
    type Found<'a> = Vec<(&'a SeriesReport, [String; 2], [f64; 2])>;
    let mut events: BTreeMap<String, BTreeMap<&RowKey, Found<'_>>> = BTreeMap::new();
    for one in series {
        for pair in one.nights.windows(2) {
            let at = pair[1].started_at.as_str();
            let mut events_here = one.events.iter().filter(|event| {
                event.started_at.as_str() <= at && event.started_at > pair[0].started_at
            });
            let Some(event) = events_here.next() else { continue };
            let (what, time) = (events_at(one, &event.session), event.started_at.as_str());
            if let Some(means) = sides(one, time) {
                let between = [0, 1].map(|side| pair[side].session.clone());
                let rows = events.entry(what).or_default();
                rows.entry(&one.key).or_default().push((one, between, means));
            }
        }
    }
    for (what, mut rows) in events {
        rows.retain(|_, found| found.len() >= SESSIONS_MIN);
        let family = Confidence::from_alpha(alpha / rows.len().max(1) as f64)?;
        for (key, found) in rows {
            let changes: Vec<f64> =
                found.iter().map(|(.., [before, after])| after - before).collect();
            let sizes =
                found.iter().map(|(.., means)| means.iter().map(|one| one.abs()).sum::<f64>());
            let size = sizes.sum::<f64>() / (2 * found.len()) as f64;
            let change = Change {
                effect: Effect::of_mean(&changes)?,
                least: None,
                bounds: Bounds::default(),
                basis: Basis::Sessions,
                unattributable: None,
                session_sd: None,
            };
            let margin = margin_of(margins, key.metric, size);
            let judged = Judged::of(&change, Rule { worse: key.metric.worse(), margin, family })?;
            if matches!(judged.verdict, Verdict::Regressed | Verdict::Improved) {
                let by = Figures::unit_of(key.metric, change.effect.value);
                for (one, between, _) in &found {
                    alerts.add(AlertKind::Event, what.clone(), between, one, by);
                }
            }
        }
    }
    Ok(())
}

/// The trend of the last segment of a series.
struct Trend<'a> {
    series: &'a SeriesReport,
    between: [String; 2],
    nights: usize,
    /// Change a night.
    slope: f64,
    /// Sum of squares of the nights' numbers.
    spread: f64,
    residual: f64,
    df: f64,
}

impl<'a> Trend<'a> {
    fn of(series: &'a SeriesReport) -> Option<Self> {
        let segment = series.nights.last()?.segment;
        let all = series.nights.iter().filter(|one| one.segment == segment && !one.bound);
        let nights: Vec<&Night> = all.collect();
        let values: Vec<f64> = nights.iter().map(|one| raw(series.key.metric, one)).collect();
        let n = values.len();
        if n < DRIFT_MIN {
            return None;
        }
        let (centre, middle) = (mean(&values).ok()?, (n as f64 - 1.0) / 2.0);
        let numbered =
            || values.iter().enumerate().map(|(at, value)| (at as f64 - middle, value - centre));
        let spread: f64 = numbered().map(|(x, _)| x * x).sum();
        let slope = numbered().map(|(x, y)| x * y).sum::<f64>() / spread;
        let residual = numbered().map(|(x, y)| (y - slope * x).powi(2)).sum();
        let between = [0, n - 1].map(|at| nights[at].session.clone());
        Some(Self { series, between, nights: n, slope, spread, residual, df: n as f64 - 2.0 })
    }

    fn variance(&self) -> f64 {
        self.residual / self.df
    }
}

/// Rows that drift over the last segment: the slope against its own spread, or that of the row on
/// all GPUs where that is larger.
fn drifts(
    series: &[SeriesReport],
    margins: Margins,
    alpha: f64,
    alerts: &mut Alerts,
) -> Result<(), NoEstimate> {
    let trends: Vec<Trend<'_>> = series.iter().filter_map(Trend::of).collect();
    let mut of_row: BTreeMap<&RowKey, (f64, f64)> = BTreeMap::new();
    for one in &trends {
        let (residual, df) = of_row.entry(&one.series.key).or_default();
        (*residual, *df) = (*residual + one.residual, *df + one.df);
    }
    let p_values = trends.iter().map(|one| {
        let (residual, df) = of_row.get(&one.series.key).copied().unwrap_or_default();
        let (variance, df) = match residual / df {
            pooled if pooled >= one.variance() => (pooled, df),
            _ => (one.variance(), one.df),
        };
        let se = (variance / one.spread).sqrt();
        Effect { value: one.slope, se, df, n: u32::try_from(one.nights).unwrap_or(u32::MAX) }
            .two_sided_p()
    });
    let adjusted = holm(&p_values.collect::<Result<Vec<_>, _>>()?)?;
    for (one, p) in trends.iter().zip(adjusted) {
        let metric = one.series.key.metric;
        let total = one.slope * (one.nights as f64 - 1.0);
        let values = one.series.nights.iter().map(|night| raw(metric, night).abs());
        let size = values.sum::<f64>() / one.series.nights.len() as f64;
        if p < alpha && total.abs() >= margin_of(margins, metric, size) / DRIFT_PART {
            let what = format!("drift over {} nights", one.nights);
            let by = Figures::unit_of(metric, total);
            alerts.add(AlertKind::Drift, what, &one.between, one.series, by);
        }
    }
    Ok(())
}

/// GPUs since whose last night most others have had at least two. The sessions are in the order of
/// their start.
pub(super) fn missing(sessions: &[&Session], by: Option<&str>) -> Vec<Missing> {
    // The number of each start instead of its text: every GPU is compared with every other.
    let mut nights: BTreeMap<&str, Vec<(usize, &Session)>> = BTreeMap::new();
    let (mut number, mut before) = (0, None);
    for session in sessions {
        number += usize::from(before.replace(&session.started_at) != Some(&session.started_at));
        let label = by.and_then(|label| session.labels.get(label));
        if let Some(name) = label.or_else(|| session.facts.get("uuid")) {
            nights.entry(name).or_default().push((number, session));
        }
    }
    let stopped = nights.iter().filter_map(|(name, own)| {
        let (&(first, _), &(last, night)) = (own.first()?, own.last()?);
        let others = nights.iter().filter(|(other, _)| *other != name);
        // Where others have several sessions a night, so many are one.
        let mut since: Vec<usize> = others
            .map(|(_, of)| {
                let after = |night| of.len() - of.partition_point(|&(one, _)| one <= night);
                let (newer, beside) = (after(last), after(first));
                newer / ((beside - newer) / (own.len() - 1).max(1)).max(1)
            })
            .collect();
        since.sort_unstable();
        let missed = *since.get(since.len().checked_sub(1)? / 2)?;
        (missed >= MISSED_MIN && own.len() >= OWN_MIN).then(|| Missing {
            gpu: (*name).to_owned(),
            last: night.name.clone(),
            missed: u32::try_from(missed).unwrap_or(u32::MAX),
        })
    });
    stopped.collect()
}
