//! One session as plain data: what identifies it, and one series of blocks for each row.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use gpubench_record::{Axis, DeviceKind, Json, Margins};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use crate::metric::Metric;
pub use crate::series::{Bounds, Count, Parts, Row, Series};
pub use gpubench_record::Dose;

/// One session: all blocks between one start of gpubench and its end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Session {
    /// Its folder, as on the command line.
    pub name: String,
    /// RFC 3339 time at which it began; all are UTC, so texts sort by time.
    pub started_at: String,
    /// Real or virtual.
    pub kind: DeviceKind,
    /// What may differ between two sessions, by name ([`crate::diff::comparability`]). Many nights
    /// of a GPU share theirs.
    #[serde(with = "shared")]
    pub facts: Arc<BTreeMap<String, String>>,
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
    /// What the report of the record prints beside its rows.
    #[serde(default)]
    pub doubts: Vec<Doubts>,
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

/// What a report prints beside a row: why it is not measured, what its figures rest on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Doubts {
    /// Canonical variant.
    pub variant: String,
    /// The axis, with the sub-axis where it has one.
    pub axis: String,
    /// Workload of the victim, where the row names one.
    pub victim: Option<String>,
    /// Workload of the aggressor, where the row names one.
    pub aggressor: Option<String>,
    /// One sentence each.
    pub texts: Vec<String>,
}

impl Doubts {
    /// Whether a row of a comparison is made of the cells of this row.
    fn are_of(&self, key: &RowKey) -> bool {
        // A latency is of the open loops that jitter is made of.
        let axis = if key.metric.is_latency() { Axis::Jitter.as_str() } else { &key.axis };
        let same = |own: &Option<String>, other: Option<&String>| {
            own.as_ref().zip(other).is_none_or(|(own, other)| own == other)
        };
        (self.variant.as_str(), self.axis.as_str()) == (&key.variant, axis)
            && same(&self.victim, Some(&key.victim))
            && same(&self.aggressor, key.aggressor.as_ref())
            && key.dose.is_none()
    }
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

    /// What the report of the record prints beside this row.
    pub fn doubts_of(&self, key: &RowKey) -> impl Iterator<Item = &str> {
        let rows = self.doubts.iter().filter(|row| row.are_of(key));
        rows.flat_map(|row| &row.texts).map(String::as_str)
    }

    /// The session with one mean for each series of the rows to keep, for a look at many sessions:
    /// without blocks, trials, repeated cells, and parts.
    pub fn with_means_of(mut self, keep: impl Fn(Metric) -> bool) -> Self {
        self.rows.retain(|key, row| keep(key.metric) && row.count().is_none());
        for row in self.rows.values_mut() {
            if let Row::Measured(series) = row {
                // A figure that is not finite stays for the reader of the series to refuse.
                if let Ok(mean) = series.mean() {
                    let Series { is_bound, bounds, .. } = *series;
                    *series = Series { blocks: vec![mean], is_bound, bounds, ..Series::default() };
                }
            }
        }
        self.doubts.clear();
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
    /// The one key that is equal to this one.
    pub fn of(&self, key: RowKey) -> Arc<RowKey> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(key) = known.get(&key) {
            return Arc::clone(key);
        }
        let key = Arc::new(key);
        known.insert(Arc::clone(&key));
        key
    }

    /// The session with these keys in place of equal ones of its own.
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

/// A map that sessions share is the map in JSON.
pub mod shared {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    type Facts = BTreeMap<String, String>;

    pub fn serialize<S: Serializer>(facts: &Arc<Facts>, serializer: S) -> Result<S::Ok, S::Error> {
        facts.as_ref().serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<Facts>, D::Error> {
        Ok(Arc::new(Facts::deserialize(deserializer)?))
    }
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

#[cfg(test)]
impl Session {
    /// A session of the virtual GPU without facts and rows.
    pub(crate) fn empty(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            started_at: name.to_owned(),
            kind: DeviceKind::Virtual,
            facts: Arc::default(),
            labels: BTreeMap::new(),
            margins: None,
            levels: BTreeMap::new(),
            rows: BTreeMap::new(),
            doubts: Vec::new(),
            repeats: BTreeMap::new(),
            work: BTreeMap::new(),
            losses: Vec::new(),
            is_doubtful: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Dose, Metric, RowKey};

    fn key(dose: Option<f64>) -> RowKey {
        RowKey {
            variant: "mps".to_owned(),
            axis: "bandwidth/dram".to_owned(),
            victim: "stream".to_owned(),
            aggressor: Some("dram-copy".to_owned()),
            dose: dose.map(Dose),
            metric: Metric::DoseRetention,
        }
    }

    #[test]
    fn doses_order_by_size_and_full_ones_come_first() {
        let mut keys = [Some(0.25), Some(0.05), None, Some(0.125)].map(key);
        keys.sort();
        let beside = keys.map(|key| key.beside().unwrap_or_default());
        assert_eq!(
            beside,
            ["dram-copy", "dram-copy at 5 %", "dram-copy at 12.5 %", "dram-copy at 25 %"]
        );
    }

    #[test]
    fn a_dose_is_a_number_in_json_and_a_key_without_one_has_no_field() -> serde_json::Result<()> {
        for dose in [Some(0.1), Some(0.3), Some(1.0 / 3.0), None] {
            let key = key(dose);
            let json = serde_json::to_value(&key)?;
            assert_eq!(json.get("dose").and_then(serde_json::Value::as_f64), dose);
            assert_eq!(json.get("dose").is_some(), dose.is_some());
            assert_eq!(serde_json::from_value::<RowKey>(json)?, key);
        }
        Ok(())
    }
}
