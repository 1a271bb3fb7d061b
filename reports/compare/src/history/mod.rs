//! Sessions of many nights: one series for each row, cut at declared events, with alarms and change
//! points.
//!
//! Change points are computed from all nights on every call; nothing is kept between calls.

mod baseline;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use gpubench_record::Margins;
use gpubench_stats::NoEstimate;
use gpubench_stats::change_point;
use gpubench_stats::change_point::Direction;
use gpubench_stats::change_point::{Search, change_points};
use gpubench_stats::summary::mean;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use baseline::Declared;
pub use baseline::IDENTITY;
pub(crate) use baseline::LABEL;
pub use baseline::{Baseline, NoBaseline};

use crate::diff::{MarginsWish, margin_of};
use crate::session::{RowKey, Session};
use baseline::by_identity;
use baseline::{Event, starts};

/// Version of the JSON of a history.
pub const FORMAT: u32 = 1;

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
    /// Nights between which rows changed, with these rows: one alert, however many rows it has.
    pub alerts: Vec<Alert>,
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
    /// Alarms inside segments, the first of each.
    pub alarms: Vec<AlarmAt>,
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
    /// Whether the value is the most that it can be, because the victim starved: no alarm and no
    /// change rests on it.
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
}

/// The night at which the sum of deviations of a segment reached its limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AlarmAt {
    /// The night.
    pub session: String,
    /// Whether the row got worse.
    pub worse: bool,
}

/// Rows that changed between the same nights.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Alert {
    /// The last night before and the first one after.
    pub between: [String; 2],
    /// `variant axis metric` of each row.
    pub rows: Vec<String>,
}

impl History {
    /// The history of these sessions, primary rows only. `by` is a label: its values have series of
    /// their own. The margin of a change is that of the records' profiles.
    ///
    /// # Errors
    /// When a figure of a session is not finite.
    pub fn of(
        sessions: &[Session],
        lost: Vec<String>,
        declared: &[Declared],
        by: Option<&str>,
    ) -> Result<Self, NoEstimate> {
        let margins = MarginsWish::default().over(sessions.iter());
        let mut ordered: Vec<&Session> = sessions.iter().collect();
        ordered.sort_by_key(|session| (&session.started_at, &session.name));
        let mut series = Vec::new();
        for (identity, nights) in by_identity(&ordered, by) {
            let events = starts(&nights, declared);
            let mut keys: Vec<&RowKey> = nights.iter().flat_map(|one| one.keys()).collect();
            keys.sort();
            keys.dedup();
            for key in keys.into_iter().filter(|key| key.metric.is_primary()) {
                series.push(SeriesReport::of(&identity, key, &nights, &events, margins)?);
            }
        }
        let mut lost = lost;
        lost.extend(ordered.iter().flat_map(|session| {
            let losses = session.losses.iter();
            losses.map(|loss| format!("{}: {loss}", session.name))
        }));
        let is_virtual = |session: &Session| session.kind == gpubench_record::DeviceKind::Virtual;
        Ok(Self {
            history_format: FORMAT,
            sessions: u32::try_from(sessions.len()).unwrap_or(u32::MAX),
            has_virtual: sessions.iter().any(is_virtual),
            lost,
            alerts: alerts(&series),
            series,
        })
    }
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
            alarms: Vec::new(),
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
            let Some(series) = session.rows.get(key).and_then(|row| row.series()) else {
                continue;
            };
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
            report.search(segment, margins)?;
        }
        Ok(report)
    }

    fn search(&mut self, segment: &[(&str, f64)], margins: Margins) -> Result<(), NoEstimate> {
        let metric = self.key.metric;
        let values: Vec<f64> = segment.iter().map(|(_, value)| *value).collect();
        if let Some(alarm) = change_point::first_alarm(&values)? {
            let is_up = alarm.direction == Direction::Up;
            self.alarms.push(AlarmAt {
                session: segment[alarm.at].0.to_owned(),
                worse: is_up == (metric.worse() > 0.0),
            });
        }
        let points = change_points(&values, Search::default())?;
        let ends: Vec<usize> =
            [0].into_iter().chain(points.iter().copied()).chain([values.len()]).collect();
        for around in ends.windows(3) {
            let (before, after) =
                (mean(&values[around[0]..around[1]])?, mean(&values[around[1]..around[2]])?);
            let change = after - before;
            let size = f64::midpoint(before.abs(), after.abs());
            if change.abs() < margin_of(margins, metric, size) {
                continue;
            }
            let at = around[1];
            self.changes.push(ChangePoint {
                between: [segment[at - 1].0, segment[at].0].map(str::to_owned),
                change: if metric.is_log() { change.exp_m1() } else { change },
                worse: change * metric.worse() > 0.0,
            });
        }
        Ok(())
    }
}

/// Rows by the nights between which they changed.
fn alerts(series: &[SeriesReport]) -> Vec<Alert> {
    let mut by_nights: BTreeMap<[String; 2], Vec<String>> = BTreeMap::new();
    for one in series {
        for change in &one.changes {
            let key = &one.key;
            let row = format!("{} {} {}", key.variant, key.axis, key.metric.as_str());
            by_nights.entry(change.between.clone()).or_default().push(row);
        }
    }
    by_nights.into_iter().map(|(between, rows)| Alert { between, rows }).collect()
}
