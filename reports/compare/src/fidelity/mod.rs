//! A record of hardware beside a run of the virtual GPU on the same plan, row by row.
//!
//! Each row has its checks, and a check says whether the model's figure is within the bound of
//! [`bounds`]. A row in which the model isolates better than hardware did is optimistic. A list of
//! [`Reasons`] says which differences are known, and why.

mod bounds;
mod cross_check;
mod faults;
mod figures;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use gpubench_record::RunRecord;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use bounds::{KnownDifference, Reasons};
pub use cross_check::{CrossCheck, CrossRow, DeviceSize};

/// Version of the JSON of this table.
pub const FORMAT: u32 = 1;

/// Records of hardware, each beside its model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(title = "gpubench virtual-gpu fidelity")]
pub struct Fidelity {
    /// Version of this format.
    pub fidelity_format: u32,
    /// The records, in the order of the command line.
    pub records: Vec<Compared>,
    /// Listed differences that no row has, one line each.
    pub unneeded: Vec<String>,
}

/// One record beside its model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Compared {
    /// Folder of the record.
    pub record: String,
    /// The GPU of the record.
    pub real: Device,
    /// The virtual GPU.
    #[serde(rename = "virtual")]
    pub model: Device,
    /// Machine file of the virtual GPU.
    pub machine: String,
    /// Seed of both runs.
    pub seed: u64,
    /// The rows of the record.
    pub rows: Vec<Row>,
    /// Sharing laws that are fitted to some rows of the record and predict the others.
    pub cross_checks: Vec<CrossCheck>,
}

/// One side.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Device {
    /// Product name.
    pub product: String,
    /// Driver version.
    pub driver: String,
    /// Blocks of the plan.
    pub blocks: u32,
}

/// One row of the record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Row {
    /// Canonical variant.
    pub variant: String,
    /// Axis with its sub-axis, fault, or figure of a probe.
    pub name: String,
    /// Its figures, the one that people read first at the front.
    pub checks: Vec<Check>,
    /// The reason of a listed difference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// One figure of both sides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Check {
    /// Its name: `retention`, `level`, `own code`...
    pub figure: String,
    /// Of the hardware.
    pub real: String,
    /// Of the model.
    #[serde(rename = "virtual")]
    pub model: String,
    /// The model's figure over that of the hardware, less 1; absent without a ratio.
    pub error: Option<f64>,
    /// Whether it is within its bound.
    pub verdict: Verdict,
}

/// What a check says. The order is that of severity.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The record leaves the figure open.
    Open,
    /// Within the bound.
    Within,
    /// Beyond the bound.
    Outside,
    /// The model isolates better than the hardware did.
    Optimistic,
}

/// What all rows say together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conclusion {
    /// Every row is within its bounds or listed, and every listed difference is there.
    Holds,
    /// Some row is outside its bounds and not listed, or a listed difference is not there.
    Differs,
    /// Some row is optimistic and not listed as such.
    Optimistic,
}

/// A record and the run of its model.
#[derive(Debug, Clone, Copy)]
pub struct Pair<'a> {
    /// Folder of the record.
    pub name: &'a str,
    /// The record of hardware.
    pub real: &'a RunRecord,
    /// Machine file of the model.
    pub machine: &'a str,
    pub model: &'a RunRecord,
    /// Size of the modelled device.
    pub size: DeviceSize,
    /// When the model's driver notices faults.
    pub noticed: &'a Noticed,
}

/// The 5 % and 95 % points of the time until the model's driver notices a fault, in ns, by
/// mechanism and fault. A fault without an entry is noticed at once.
pub type Noticed = BTreeMap<(String, String), [u64; 2]>;

impl Compared {
    /// Compares every row of the record.
    pub fn of(pair: &Pair<'_>) -> Self {
        let (real, model) = (pair.real, pair.model);
        let mut rows = figures::rows(real, model);
        rows.extend(faults::rows(real, model, pair.noticed));
        rows.extend(figures::probes(real, model));
        rows.extend(figures::native_work(real, model));
        Self {
            record: pair.name.to_owned(),
            real: device(real),
            model: device(model),
            machine: pair.machine.to_owned(),
            seed: real.seed,
            rows,
            cross_checks: cross_check::of(real, pair.size),
        }
    }
}

fn device(run: &RunRecord) -> Device {
    Device {
        product: run.device.name.clone(),
        driver: run.device.driver.clone(),
        blocks: run.plan.blocks,
    }
}

impl Fidelity {
    /// All comparisons, with the reasons of known differences.
    pub fn of(mut records: Vec<Compared>, reasons: &Reasons) -> Self {
        let unneeded = reasons.apply(&mut records);
        Self { fidelity_format: FORMAT, records, unneeded }
    }

    /// What all rows say together.
    pub fn conclusion(&self) -> Conclusion {
        let rows = self.records.iter().flat_map(|record| &record.rows);
        let unlisted = rows.filter(|row| row.reason.is_none()).map(Row::verdict);
        match unlisted.max() {
            Some(Verdict::Optimistic) => Conclusion::Optimistic,
            Some(Verdict::Outside) => Conclusion::Differs,
            _ if !self.unneeded.is_empty() => Conclusion::Differs,
            _ => Conclusion::Holds,
        }
    }
}

impl Row {
    /// Its name in a list of known differences.
    pub fn key(&self) -> String {
        format!("{} {}", self.variant, self.name)
    }

    pub fn verdict(&self) -> Verdict {
        self.worst().map_or(Verdict::Open, |check| check.verdict)
    }

    /// The check to show for the row: the first with the worst verdict.
    pub fn worst(&self) -> Option<&Check> {
        let worst = self.checks.iter().map(|check| check.verdict).max()?;
        self.checks.iter().find(|check| check.verdict == worst)
    }

    /// A row of the record that the model does not have.
    fn missing(variant: &str, name: String, real: &str, reason: &str) -> Self {
        Self {
            variant: variant.to_owned(),
            name,
            checks: vec![Check {
                figure: "row".to_owned(),
                real: real.to_owned(),
                model: reason.to_owned(),
                error: None,
                verdict: Verdict::Outside,
            }],
            reason: None,
        }
    }
}
