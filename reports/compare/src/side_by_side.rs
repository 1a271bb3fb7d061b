//! Records of different GPUs or drivers side by side: levels and figures without a dimension, which
//! compare between GPUs. No verdict: what differs between two GPUs is no regression.

use std::collections::{BTreeMap, BTreeSet};

use gpubench_record::{DeviceKind, Estimate, MatrixRow, OutcomeKind, RunRecord};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Version of the JSON of this table.
pub const FORMAT: u32 = 1;

/// Records side by side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(title = "gpubench compare")]
pub struct SideBySide {
    /// Version of this format.
    pub compare_format: u32,
    /// The records, in the order of the command line.
    pub records: Vec<Column>,
    /// What makes figures of these records hard to compare, one sentence each.
    pub cautions: Vec<String>,
    /// Rows that at least one record has.
    pub rows: Vec<Line>,
}

/// One record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Column {
    /// Its folder.
    pub name: String,
    /// Real or virtual.
    pub kind: DeviceKind,
    /// Product name of its GPU.
    pub product: String,
    /// Its driver.
    pub driver: String,
    /// Name of its profile.
    pub profile: String,
    /// Whether all planned cells ran.
    pub complete: bool,
}

/// One row, with an entry for each record; null where a record does not have it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Line {
    /// Canonical variant.
    pub variant: String,
    /// Axis, with the sub-axis where it has one.
    pub axis: String,
    /// Workload of the victim.
    pub victim: Option<String>,
    /// Workload of the aggressor.
    pub aggressor: Option<String>,
    /// By record.
    pub entries: Vec<Option<Entry>>,
}

/// The row of one record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Entry {
    /// Its outcome.
    pub outcome: OutcomeKind,
    /// Its level.
    pub level: Option<String>,
    /// Its word.
    pub word: Option<String>,
    /// Its figures without a dimension, by name.
    pub figures: BTreeMap<String, Estimate>,
}

impl SideBySide {
    /// The rows of these records, by name of their folder.
    pub fn of(records: &[(String, RunRecord)]) -> Self {
        let mut keys: Vec<Key> = Vec::new();
        for (_, record) in records {
            for row in &record.matrix {
                let key = Key::of(row);
                if !keys.contains(&key) {
                    keys.push(key);
                }
            }
        }
        let lines = keys.into_iter().map(|key| Line {
            entries: records.iter().map(|(_, run)| key.entry(run)).collect(),
            variant: key.variant,
            axis: key.axis,
            victim: key.victim,
            aggressor: key.aggressor,
        });
        Self {
            compare_format: FORMAT,
            records: records.iter().map(column).collect(),
            cautions: cautions(records),
            rows: lines.collect(),
        }
    }
}

#[derive(PartialEq, Eq)]
struct Key {
    variant: String,
    axis: String,
    victim: Option<String>,
    aggressor: Option<String>,
}

impl Key {
    fn of(row: &MatrixRow) -> Self {
        Self {
            variant: row.variant.clone(),
            axis: row.axis_path(),
            victim: row.victim.clone(),
            aggressor: row.aggressor.clone(),
        }
    }

    fn entry(&self, run: &RunRecord) -> Option<Entry> {
        let row = run.matrix.iter().find(|row| Self::of(row) == *self)?;
        let figures = MatrixRow::FIGURES.into_iter().zip(row.figures());
        Some(Entry {
            outcome: row.outcome.outcome,
            level: row.level.clone(),
            word: row.word.clone(),
            figures: figures
                .filter_map(|(name, figure)| Some((name.to_owned(), figure?.clone())))
                .collect(),
        })
    }
}

fn column((name, run): &(String, RunRecord)) -> Column {
    Column {
        name: name.clone(),
        kind: run.device.kind,
        product: run.device.name.clone(),
        driver: run.device.driver.clone(),
        profile: run.profile.name.clone(),
        complete: run.complete,
    }
}

/// A text of a record that should be the same in all of them.
type Fact = fn(&RunRecord) -> String;

fn cautions(records: &[(String, RunRecord)]) -> Vec<String> {
    let differ = |of: fn(&RunRecord) -> String| {
        let values: BTreeSet<String> = records.iter().map(|(_, run)| of(run)).collect();
        values.len() > 1
    };
    let checks: [(Fact, &str); 3] = [
        (
            |run| run.profile.hash.clone(),
            "profiles differ: jitter depends on the length of a request, and levels on thresholds",
        ),
        (|run| run.scoring.clone(), "scoring versions differ: levels follow different rules"),
        (
            |run| run.device.kind.as_str().to_owned(),
            "virtual and real GPUs side by side: the virtual figures are predictions of a model",
        ),
    ];
    let found = checks.into_iter().filter(|(of, _)| differ(*of));
    found.map(|(_, text)| text.to_owned()).collect()
}
