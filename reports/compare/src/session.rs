//! One session as plain data: what identifies it, and one series of blocks for each row.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use gpubench_record::{DeviceKind, Json, Margins};
use gpubench_stats::moments::mean;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use crate::dose::Dose;
pub use crate::metric::Metric;

/// One session: all blocks between one start of gpubench and its end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Session {
    /// Its folder, as on the command line.
    pub name: String,
    /// RFC 3339 time at which it began; all are UTC, so texts sort by time.
    pub started_at: String,
    /// Real or virtual.
    pub kind: DeviceKind,
    /// What may differ between two sessions, by name ([`crate::diff::comparability`]).
    pub facts: BTreeMap<String, String>,
    /// Labels that the user gave the run.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// The smallest changes that matter by its profile.
    #[serde(default)]
    pub margins: Option<Margins>,
    /// Medians of telemetry, by name: `sm_clock_mhz`, `temperature_c`; and `throttled_ratio`, the
    /// share of readings with a reason for throttling.
    #[serde(default)]
    pub levels: BTreeMap<String, f64>,
    /// Every planned row. Sessions of one profile share their keys ([`Keys`]).
    #[serde(with = "as_list")]
    pub rows: BTreeMap<Arc<RowKey>, Row>,
    /// Logs of the rate of a repeated solo cell over the first one, one for each block; by variant
    /// and victim.
    #[serde(default)]
    pub repeats: BTreeMap<String, Vec<f64>>,
    /// The work of one request of each victim.
    #[serde(default)]
    pub work: BTreeMap<String, Work>,
    /// What could not be read of the record, or is wrong with it.
    #[serde(default)]
    pub losses: Vec<String>,
    /// Whether its scores do not follow from its cells, or its file is damaged.
    #[serde(default)]
    pub is_doubtful: bool,
}

/// The work of one request.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Work {
    /// How much.
    pub amount: f64,
    /// Its unit: bytes, operations, launches.
    pub unit: String,
}

impl Json for Session {
    fn from_json(json: &[u8]) -> serde_json::Result<Self> {
        serde_json::from_slice(json)
    }

    fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string(self)
    }
}

impl Session {
    /// What its rows measure, in order.
    pub fn keys(&self) -> impl Iterator<Item = &RowKey> {
        self.rows.keys().map(Arc::as_ref)
    }

    /// The session with one mean for each series of the rows to keep, for a look at many sessions:
    /// without blocks, trials, repeated cells, and parts.
    #[must_use]
    pub fn with_means_of(mut self, keep: impl Fn(&RowKey) -> bool) -> Self {
        self.rows.retain(|key, row| keep(key) && row.count().is_none());
        for row in self.rows.values_mut() {
            if let Row::Measured(series) = row {
                // A figure that is not finite stays for the reader of the series to refuse.
                if let Ok(mean) = mean(&series.blocks) {
                    *series = Series { blocks: vec![mean], ..Series::default() };
                }
            }
        }
        self.repeats = BTreeMap::new();
        self
    }
}

/// What a row measures: the key that pairs the rows of two sessions.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub struct RowKey {
    /// Canonical variant of the mechanism.
    pub variant: String,
    /// The axis, with the sub-axis where it has one: `bandwidth/dram`.
    pub axis: String,
    /// Workload of the victim.
    pub victim: String,
    /// Workload of the aggressor, where the figure has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aggressor: Option<String>,
    /// The dose of the aggressor, where it is below 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<f64>")]
    pub dose: Option<Dose>,
    /// The figure.
    pub metric: Metric,
}

impl RowKey {
    /// The aggressor, with its dose where that is below 1: `dram-copy at 25 %`.
    #[must_use]
    pub fn beside(&self) -> Option<String> {
        let aggressor = self.aggressor.as_ref()?;
        Some(match self.dose {
            Some(dose) => format!("{aggressor} at {dose}"),
            None => aggressor.clone(),
        })
    }
}

/// Keys of rows, each kept once for all sessions.
#[derive(Debug, Default)]
pub struct Keys(Mutex<BTreeSet<Arc<RowKey>>>);

impl Keys {
    /// The session with these keys in place of equal ones of its own.
    #[must_use]
    pub fn shared(&self, mut session: Session) -> Session {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let rows = std::mem::take(&mut session.rows).into_iter();
        session.rows = rows
            .map(|(key, row)| match known.get(&key) {
                Some(key) => (Arc::clone(key), row),
                None => {
                    known.insert(Arc::clone(&key));
                    (key, row)
                }
            })
            .collect();
        session
    }
}

/// One planned row of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Row {
    /// With its blocks.
    Measured(Series),
    /// With its trials.
    Counted(Count),
    /// It ran, and its figures cannot be trusted; with the reason.
    Invalid(String),
    /// It did not run; with the reason.
    NotMeasured(String),
}

impl Row {
    /// Its series, if it is measured.
    #[must_use]
    pub const fn series(&self) -> Option<&Series> {
        match self {
            Self::Measured(series) => Some(series),
            Self::Counted(_) | Self::Invalid(_) | Self::NotMeasured(_) => None,
        }
    }

    /// Its trials, if it has any.
    #[must_use]
    pub const fn count(&self) -> Option<Count> {
        match self {
            Self::Counted(count) => Some(*count),
            Self::Measured(_) | Self::Invalid(_) | Self::NotMeasured(_) => None,
        }
    }

    /// Whether it has figures.
    #[must_use]
    pub const fn is_measured(&self) -> bool {
        matches!(self, Self::Measured(_) | Self::Counted(_))
    }
}

/// Trials of one row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Count {
    /// Trials with the promised result.
    pub good: u32,
    /// All trials that count.
    pub trials: u32,
}

/// One figure for each block, on the scale of its metric.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Logarithms, or native medians for jitter.
    pub blocks: Vec<f64>,
    /// By how much disturbances can have moved the mean, down and up: bounds, not errors.
    #[serde(default)]
    pub bounds: Bounds,
    /// The same blocks in cycles of the SM clock in place of time; empty where it is unknown. For
    /// latencies and jitter the contended rate: requests arrive by the time, so a latency in cycles
    /// depends on the clock.
    #[serde(default)]
    pub cycles: Vec<f64>,
    /// Mean logarithm of the SM clock in the cells above the line.
    #[serde(default)]
    pub ln_clock: Option<f64>,
    /// Mean logarithm of the cost (time for one request, or latency) of each condition.
    #[serde(default)]
    pub parts: Parts,
}

/// By how much the true mean may lie below and above the measured one; each at least 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Bounds {
    /// Below.
    pub down: f64,
    /// Above.
    pub up: f64,
}

/// Mean logarithm of the cost under each condition, where it was measured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Parts {
    /// Alone on the GPU.
    pub native: Option<f64>,
    /// Alone under the mechanism.
    pub solo: Option<f64>,
    /// Beside the aggressor.
    pub contended: Option<f64>,
}

/// Maps with a struct as key are lists of pairs in JSON.
mod as_list {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use serde::{Deserialize, Deserializer, Serializer};

    use super::{Row, RowKey};

    pub(super) fn serialize<S: Serializer>(
        rows: &BTreeMap<Arc<RowKey>, Row>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(rows.iter().map(|(key, row)| (key.as_ref(), row)))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BTreeMap<Arc<RowKey>, Row>, D::Error> {
        let rows = Vec::<(RowKey, Row)>::deserialize(deserializer)?;
        Ok(rows.into_iter().map(|(key, row)| (Arc::new(key), row)).collect())
    }
}
