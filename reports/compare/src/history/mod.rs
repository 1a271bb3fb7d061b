//! Sessions of many nights: one series for each row, cut at declared events, and the alerts of all.
//!
//! Change points are computed from all nights on every call; nothing is kept between calls.

mod alerts;
mod baseline;
mod few;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use gpubench_record::Margins;
use gpubench_stats::NoEstimate;
use gpubench_stats::change_point::Direction;
use gpubench_stats::change_point::{Search, change_points};
use gpubench_stats::power::Test;
use gpubench_stats::summary::mean;
use gpubench_stats::{Confidence, change_point};
use rayon::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use alerts::{Acknowledged, Alert, AlertKind, AlertRow, Missing, Unmeasured};
pub use baseline::Declared;
pub use baseline::IDENTITY;
pub(crate) use baseline::LABEL;
pub use baseline::{Baseline, NoBaseline};

use crate::diff::{
    Figures, MarginsWish, Options, POWER, Report, SESSIONS_MIN, Treatment, Verdict, diff, margin_of,
};
use crate::session::{Row, RowKey, Session};
use alerts::DRIFT_MIN;
use baseline::{EVENTS, Event, starts};
use baseline::{Identity, by_identity};

/// Version of the JSON of a history.
pub const FORMAT: u32 = 2;

/// The series of all rows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(title = "gpubench history")]
pub struct History {
    /// Version of this format.
    pub history_format: u32,
    /// Sessions that were read.
    pub sessions: u32,
    /// Whether any of them is of a virtual GPU.
    pub has_virtual: bool,
    /// Records that could not be read, and what is lost of others; one line each.
    pub lost: Vec<String>,
    /// One for each row and identity.
    pub series: Vec<SeriesReport>,
    /// Rows that changed together, the worse ones first.
    pub alerts: Vec<Alert>,
    /// Rows that look worse in the last nights of a series, and that too few nights leave open.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub undecided: Vec<AlertRow>,
    /// GPUs that stopped reporting.
    pub missing: Vec<Missing>,
    /// Folders whose last nights have no record.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unmeasured: Vec<Unmeasured>,
    /// Exit status.
    pub exit: u8,
}

impl History {
    /// The GPU, or how many, and the days of the nights.
    pub fn scope(&self) -> String {
        let uuids = self.series.iter().filter_map(|one| one.identity.get("uuid"));
        let uuids: BTreeSet<&String> = uuids.collect();
        let nights = self.series.iter().flat_map(|one| &one.nights);
        let days: BTreeSet<&str> = nights.filter_map(|night| night.started_at.get(..10)).collect();
        let days = match (days.first(), days.last()) {
            (Some(first), Some(last)) => format!(", {first} to {last}"),
            _ => String::new(),
        };
        match uuids.first() {
            Some(uuid) if uuids.len() == 1 => format!("{uuid}{days}, "),
            Some(_) => format!("{} GPUs{days}, ", uuids.len()),
            None => String::new(),
        }
    }
}

/// One row over many nights.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SeriesReport {
    /// What makes sessions of this series comparable, by name.
    pub identity: BTreeMap<String, String>,
    /// The row.
    #[serde(flatten)]
    pub key: RowKey,
    /// Its nights, in order.
    pub nights: Vec<Night>,
    /// Events between nights; each begins a segment.
    pub events: Vec<EventAt>,
    /// Change points inside segments.
    pub changes: Vec<ChangePoint>,
    /// Nights at which the sum of deviations of a segment reached its limit, the first of each.
    pub deviations: Vec<Deviation>,
    /// The segments before and after each event, compared by the rules of `diff`.
    #[serde(default)]
    pub crossings: Vec<Crossing>,
    /// The smallest change that a look at the last segment finds with 80 % power, if it is in the
    /// middle; absent below 18 nights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detectable: Option<f64>,
    /// The change of the last segment that too few nights leave open.
    #[serde(skip)]
    pub(crate) open: Option<f64>,
}

/// The nights of the segment before an event against those of the segment after it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Crossing {
    /// The last night before it and the first one after it.
    pub between: [String; 2],
    /// Nights with the row, before and after.
    pub sessions: [u32; 2],
    /// As in `diff`.
    pub verdict: Verdict,
    /// Why, where that needs words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Facts that differ beside the event: a change can be an effect of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also_differs: Vec<String>,
    /// As in `diff`; absent where a side has no night with the row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub figures: Option<Figures>,
}

/// One session of a series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Night {
    /// Its folder.
    pub session: String,
    /// When it began.
    pub started_at: String,
    /// Geometric mean over its blocks; arithmetic for jitter.
    pub value: f64,
    /// Number of its segment, from 0.
    pub segment: u32,
    /// Whether the value is the most that it can be, because the victim starved: no alert rests
    /// on it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub bound: bool,
}

/// An event before a night.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EventAt {
    /// The first night after it.
    pub session: String,
    /// When that night began.
    pub started_at: String,
    /// What it was.
    pub what: String,
}

/// A place where the values of a segment change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChangePoint {
    /// The last night before it and the first one after it.
    pub between: [String; 2],
    /// Change of the mean: a share, or native medians for jitter.
    pub change: f64,
    /// Whether the row got worse.
    pub worse: bool,
    /// Nights at which the segment was long enough to be searched: the error of one look is so many
    /// times smaller than 5 %.
    #[serde(default)]
    pub looks: u32,
}

/// The night at which the sum of deviations of a segment reached its limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Deviation {
    /// The night.
    pub session: String,
    /// Whether the row got worse.
    pub worse: bool,
}

impl History {
    /// The history of these sessions, primary rows only. `by` is a label: its values have series of
    /// their own. The margin of a change is that of the records' profiles.
    /// Fails when a figure of a session is not finite.
    pub fn of(
        sessions: &[Session],
        lost: Vec<String>,
        declared: &[Declared],
        by: Option<&str>,
    ) -> Result<Self, NoEstimate> {
        let margins = MarginsWish::default().over(sessions.iter());
        let mut ordered: Vec<&Session> = sessions.iter().collect();
        ordered.sort_by_key(|session| (&session.started_at, &session.name));
        let groups: Vec<_> = by_identity(&ordered, by).collect();
        let events: Vec<_> =
            groups.par_iter().map(|(_, nights)| starts(nights, declared)).collect();
        let families = families(&groups, &events);
        let series = groups.par_iter().zip(&events).map(|((identity, nights), events)| {
            let across = across(nights, events, families)?;
            let keys: BTreeSet<&RowKey> = nights.iter().flat_map(|one| one.keys()).collect();
            let primary = keys.into_iter().filter(|key| key.metric.is_primary());
            let series = primary.map(|key| {
                let mut one = SeriesReport::of(identity, key, nights, events, margins)?;
                one.crossings = across.iter().filter_map(|of| crossing(of, key)).collect();
                Ok(one)
            });
            series.collect::<Result<Vec<_>, _>>()
        });
        let series: Vec<Vec<SeriesReport>> = series.collect::<Result<_, _>>()?;
        let series: Vec<SeriesReport> = series.into_iter().flatten().collect();
        let mut lost = lost;
        lost.extend(ordered.iter().flat_map(|session| {
            let losses = session.losses.iter();
            losses.map(|loss| format!("{}: {loss}", session.name))
        }));
        let is_virtual = |session: &Session| session.kind == gpubench_record::DeviceKind::Virtual;
        let mut history = Self {
            history_format: FORMAT,
            sessions: u32::try_from(sessions.len()).unwrap_or(u32::MAX),
            has_virtual: sessions.iter().any(is_virtual),
            lost,
            alerts: alerts::of(&series, margins, families)?,
            undecided: series.iter().filter_map(alerts::undecided).collect(),
            missing: alerts::missing(&ordered, by),
            unmeasured: Vec::new(),
            series,
            exit: 0,
        };
        history.exit = history.exit_code().code();
        Ok(history)
    }
}

/// What shares the error of a false alert: each comparison across an event, of a GPU and of all
/// GPUs with this event where they are enough, and the drifts where a series is long enough.
fn families(groups: &[(Identity, Vec<&Session>)], events: &[Vec<Event>]) -> usize {
    let crossings = |of: &Vec<Event>| of.iter().map(|event| event.before).collect::<BTreeSet<_>>();
    let of_gpus: usize = events.iter().map(|of| crossings(of).len()).sum();
    let mut gpus: BTreeMap<&str, usize> = BTreeMap::new();
    for of in events {
        let words: BTreeSet<&str> = of.iter().map(|event| event.what.as_str()).collect();
        words.into_iter().for_each(|what| *gpus.entry(what).or_default() += 1);
    }
    let over_gpus = gpus.values().filter(|count| **count >= SESSIONS_MIN).count();
    let drifts = groups.iter().zip(events).any(|((_, nights), of)| {
        let last = of.iter().map(|event| event.before).max().unwrap_or(0);
        nights.len() - last >= DRIFT_MIN
    });
    (of_gpus + over_gpus + usize::from(drifts)).max(1)
}

impl SeriesReport {
    fn of(
        identity: &BTreeMap<String, String>,
        key: &RowKey,
        sessions: &[&Session],
        events: &[Event],
        margins: Margins,
    ) -> Result<Self, NoEstimate> {
        let mut report = Self {
            identity: identity.clone(),
            key: key.clone(),
            nights: Vec::new(),
            events: Vec::new(),
            changes: Vec::new(),
            deviations: Vec::new(),
            crossings: Vec::new(),
            detectable: None,
            open: None,
        };
        let mut segments: Vec<Vec<(&str, f64)>> = vec![Vec::new()];
        for (at, session) in sessions.iter().enumerate() {
            for event in events.iter().filter(|event| event.before == at) {
                report.events.push(EventAt {
                    session: session.name.clone(),
                    started_at: session.started_at.clone(),
                    what: event.what.clone(),
                });
                if segments.last().is_some_and(|segment| !segment.is_empty()) {
                    segments.push(Vec::new());
                }
            }
            let Some(series) = session.rows.get(key).and_then(|row| row.series()) else { continue };
            let value = series.mean()?;
            report.nights.push(Night {
                session: session.name.clone(),
                started_at: session.started_at.clone(),
                value: key.metric.shown(value),
                segment: u32::try_from(segments.len() - 1).unwrap_or(u32::MAX),
                bound: series.is_bound,
            });
            if let Some(segment) = segments.last_mut().filter(|_| !series.is_bound) {
                segment.push((&session.name, value));
            }
        }
        for segment in &segments {
            report.detectable = report.search(segment, margins)?;
        }
        if let Some(last) = segments.last() {
            let last: Vec<f64> = last.iter().map(|(_, value)| *value).collect();
            report.open = few::worse(&last, key.metric, margins)?;
        }
        Ok(report)
    }

    /// Searches a segment, and returns the smallest change in its middle that such a look finds.
    fn search(
        &mut self,
        segment: &[(&str, f64)],
        margins: Margins,
    ) -> Result<Option<f64>, NoEstimate> {
        let metric = self.key.metric;
        let values: Vec<f64> = segment.iter().map(|(_, value)| *value).collect();
        if let Some(found) = change_point::first_alarm(&values)? {
            let is_up = found.direction == Direction::Up;
            self.deviations.push(Deviation {
                session: segment[found.at].0.to_owned(),
                worse: is_up == (metric.worse() > 0.0),
            });
        }
        let mut search = Search::default();
        let Some(looks) = (values.len() + 1).checked_sub(2 * search.part_min).filter(|n| *n > 0)
        else {
            return Ok(None);
        };
        let looks = u32::try_from(looks).unwrap_or(u32::MAX);
        search.permutations = search.permutations.max(looks.saturating_mul(LOOKS_MIN) - 1);
        let points = change_points(&values, search)?;
        let ends: Vec<usize> =
            [0].into_iter().chain(points.iter().copied()).chain([values.len()]).collect();
        for around in ends.windows(3) {
            // The search places a change by parts of at least five nights.
            let at = around[0] + few::step_of(&values[around[0]..around[2]])?;
            let (before, after) = (mean(&values[around[0]..at])?, mean(&values[at..around[2]])?);
            let change = after - before;
            let size = f64::midpoint(before.abs(), after.abs());
            if change.abs() < margin_of(margins, metric, size) {
                continue;
            }
            self.changes.push(ChangePoint {
                between: [segment[at - 1].0, segment[at].0].map(str::to_owned),
                change: Figures::unit_of(metric, change),
                worse: change * metric.worse() > 0.0,
                looks,
            });
        }
        if values.len() < DETECTABLE_MIN {
            return Ok(None);
        }
        let mut squares = 0.0;
        for stretch in ends.windows(2).map(|ends| &values[ends[0]..ends[1]]) {
            let centre = mean(stretch)?;
            squares += stretch.iter().map(|value| (value - centre).powi(2)).sum::<f64>();
        }
        let df = values.len() as f64 - ends.len() as f64;
        let half = (values.len() / 2) as f64;
        let test = Test {
            se: (squares / (df + 1.0) * (1.0 / half + 1.0 / (values.len() as f64 - half))).sqrt(),
            df,
            // The split with the largest distance is one of as many as there are looks.
            confidence: Confidence::from_alpha(
                1.0 / f64::from(search.permutations + 1) / f64::from(looks),
            )?,
            margin: margin_of(margins, metric, mean(&values)?.abs()),
        };
        Ok(Some(Figures::unit_of(metric, test.detectable(POWER)?)))
    }
}

/// Looks times the error of each is at most one in so many.
const LOOKS_MIN: u32 = 20;

/// Nights from which a change in the middle is found four times out of five however large it is. Of
/// fewer, a permutation too often has the same two parts: of 14 nights every 1,716th.
const DETECTABLE_MIN: usize = 18;

/// Neighbouring segments, compared by the rules of `diff`, with the nights between which they meet.
fn across(
    nights: &[&Session],
    events: &[Event],
    families: usize,
) -> Result<Vec<([String; 2], Report)>, NoEstimate> {
    let mut ends: Vec<usize> = events.iter().map(|event| event.before).collect();
    ends.extend([0, nights.len()]);
    ends.sort_unstable();
    ends.dedup();
    let vary = EVENTS.map(str::to_owned).into();
    let options = Options { vary, families, ..Options::default() };
    let compared = ends.windows(3).map(|ends| {
        let sides = [&nights[ends[0]..ends[1]], &nights[ends[1]..ends[2]]];
        let is_value = |row: &Row| row.series().is_some_and(|series| !series.is_bound);
        let mut values: BTreeMap<&RowKey, [u32; 2]> = BTreeMap::new();
        for (at, side) in sides.iter().enumerate() {
            for (key, row) in side.iter().flat_map(|night| &night.rows) {
                values.entry(key).or_default()[at] += u32::from(is_value(row));
            }
        }
        let [before, after] = sides.map(|side| {
            let mut side: Vec<Session> = side.iter().map(|night| (*night).clone()).collect();
            for (key, row) in side.iter_mut().flat_map(|night| &mut night.rows) {
                // Of a night only its mean is left: a bound, and two single nights, have no spread.
                if !is_value(row) || values.get(&**key) == Some(&[1, 1]) {
                    *row = Row::NotMeasured("it has no spread".to_owned());
                }
            }
            side
        });
        let names = [ends[1] - 1, ends[1]].map(|at| nights[at].name.clone());
        Ok((names, diff(&before, &after, &options)?))
    });
    compared.collect()
}

/// What the comparison says of a row; `None` where it has it on one side at most.
fn crossing((between, report): &([String; 2], Report), key: &RowKey) -> Option<Crossing> {
    let also = report.differences.iter().filter(|one| one.treatment == Treatment::Confounds);
    let also_differs = also.map(|one| one.fact.clone()).collect();
    let row = report.rows.iter().find(|row| row.key == *key && row.figures.is_some());
    let refused = (!report.comparable).then(|| report.attribution.clone());
    (row.is_some() || refused.is_some()).then(|| Crossing {
        between: between.clone(),
        sessions: row.map_or([0, 0], |row| row.sessions),
        verdict: row.map_or(Verdict::NotMeasured, |row| row.verdict),
        reason: refused.or_else(|| row?.reason.clone()),
        also_differs,
        figures: row.and_then(|row| row.figures.clone()),
    })
}
