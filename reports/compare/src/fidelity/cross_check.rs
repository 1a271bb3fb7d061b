//! The sharing law of DRAM and L2, fitted to some rows of a record and held against the others: a
//! law that only repeats the rows it was fitted to predicts no others.
//!
//! The law: of what a resource serves, a victim with `n` resident blocks gets the part
//! `w n / (w n + m)` beside an aggressor with `m`. `w` is fitted. Of L2 a second figure is fitted:
//! more resident blocks of the aggressor than `cap` get it no more.

use gpubench_record::{MatrixRow, RunRecord, WorkloadSpec};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::bounds;
use super::figures::per_second;

/// Largest relative error of a prediction.
pub const BOUND: f64 = 0.15;

/// What decides how many blocks are resident.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceSize {
    /// Streaming multiprocessors.
    pub sms: u32,
    /// Most resident threads of an SM.
    pub threads_per_sm: u32,
    /// Most resident blocks of an SM.
    pub blocks_per_sm: u32,
}

/// The law of one resource.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CrossCheck {
    /// Sub-axis.
    pub resource: String,
    /// Weight of a victim's block.
    pub weight: f64,
    /// Resident blocks of the aggressor beyond which it gets no more; absent where none was fitted.
    pub cap: Option<f64>,
    /// The rows.
    pub rows: Vec<CrossRow>,
}

/// One row of the record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CrossRow {
    /// Mechanism.
    pub mechanism: String,
    /// Whether the law was fitted to it.
    pub fitted: bool,
    /// Resident blocks of the aggressor.
    pub blocks: f64,
    /// Retention in the record.
    pub real: f64,
    /// Retention by the law.
    pub predicted: f64,
    /// The prediction over the record, less 1.
    pub error: Option<f64>,
}

impl CrossRow {
    /// Whether it was predicted, and within [`BOUND`].
    pub fn holds(&self) -> bool {
        self.fitted || self.error.is_some_and(|error| error.abs() <= BOUND)
    }
}

/// Which mechanisms a law is fitted to, and which it predicts.
struct Split {
    resource: &'static str,
    fitted: [&'static str; 2],
    predicted: [&'static str; 2],
    has_cap: bool,
}

const SPLITS: [Split; 2] = [
    Split {
        resource: "dram",
        fitted: ["mps", "stream-priority"],
        predicted: ["mps-quota", "green-context"],
        has_cap: false,
    },
    // With a whole device the aggressor is capped, with half of it it is not.
    Split {
        resource: "l2",
        fitted: ["mps", "mps-quota"],
        predicted: ["stream-priority", "green-context"],
        has_cap: true,
    },
];

/// The laws whose rows the record has.
pub(super) fn of(real: &RunRecord, size: DeviceSize) -> Vec<CrossCheck> {
    let checks = SPLITS.iter().map(|split| cross_check(real, split, size));
    checks.flatten().collect()
}

/// One mechanism's row of a resource.
struct Observed {
    mechanism: &'static str,
    /// Resident blocks of the aggressor.
    blocks: f64,
    retention: f64,
    /// Resident blocks of the victim.
    own_blocks: f64,
    /// What the resource serves over what the victim takes alone.
    supply: f64,
}

impl Observed {
    fn of(
        real: &RunRecord,
        resource: &str,
        mechanism: &'static str,
        size: DeviceSize,
    ) -> Option<Self> {
        let is_row = |row: &&MatrixRow| {
            row.mechanism == mechanism && row.sub_axis.as_deref() == Some(resource)
        };
        let row = real.matrix.iter().find(is_row)?;
        let entry = |name: &Option<String>| real.calibration.entries.get(name.as_ref()?);
        let (victim, aggressor) = (entry(&row.victim)?, entry(&row.aggressor)?);
        let peak = real.calibration.peaks.get(row.aggressor.as_ref()?)?;
        let sms = neighbour_sms(real, &row.variant).unwrap_or(size.sms);
        Some(Self {
            mechanism,
            blocks: resident(&aggressor.spec, sms, size)?,
            retention: row.retention.as_ref()?.value,
            own_blocks: resident(&victim.spec, size.sms, size)?,
            supply: peak.alone_per_s / per_second(victim),
        })
    }

    /// The weight at which the law gives the retention.
    fn weight(&self) -> f64 {
        let part = self.retention / self.supply;
        part * self.blocks / ((1.0 - part) * self.own_blocks)
    }

    /// The aggressor's blocks at which the law with this weight gives the retention.
    fn blocks_at(&self, weight: f64) -> f64 {
        weight * self.own_blocks * (self.supply / self.retention - 1.0)
    }

    fn predicted(&self, weight: f64, cap: Option<f64>) -> f64 {
        let own = weight * self.own_blocks;
        let blocks = cap.map_or(self.blocks, |cap| self.blocks.min(cap));
        (self.supply * own / (own + blocks)).min(1.0)
    }
}

fn cross_check(real: &RunRecord, split: &Split, size: DeviceSize) -> Option<CrossCheck> {
    let observed = |name| Observed::of(real, split.resource, name, size);
    let [first, second] = split.fitted;
    let (first, second) = (observed(first)?, observed(second)?);
    let (weight, cap) = if split.has_cap {
        let weight = second.weight();
        (weight, Some(first.blocks_at(weight)))
    } else {
        // Least squares of the logarithms.
        ((first.weight() * second.weight()).sqrt(), None)
    };
    let predicted = split.predicted.into_iter().filter_map(observed);
    let row = |(one, fitted): (Observed, bool)| {
        let predicted = one.predicted(weight, cap);
        CrossRow {
            mechanism: one.mechanism.to_owned(),
            fitted,
            blocks: one.blocks,
            real: one.retention,
            predicted,
            error: bounds::error(one.retention, predicted),
        }
    };
    let fitted = [(first, true), (second, true)].into_iter();
    Some(CrossCheck {
        resource: split.resource.to_owned(),
        weight,
        cap,
        rows: fitted.chain(predicted.map(|one| (one, false))).map(row).collect(),
    })
}

/// The blocks of a workload that are resident on this many SMs.
fn resident(spec: &WorkloadSpec, sms: u32, size: DeviceSize) -> Option<f64> {
    let (blocks, threads) = (*spec.params.get("blocks")?, *spec.params.get("threads")?);
    let by_threads = u64::from(size.threads_per_sm).checked_div(threads)?;
    let slots = u64::from(sms) * by_threads.min(size.blocks_per_sm.into());
    Some(blocks.min(slots) as f64)
}

/// The SMs of the first neighbour, where a proof of the record counts them: text such as
/// `neighbour-1: 64 SMs` or `neighbour-1 66 (blocks ran on 66)`. A number of 0 is no count of SMs:
/// proofs of stream priorities have `neighbour-1 0 in -5 to 0`.
fn neighbour_sms(real: &RunRecord, variant: &str) -> Option<u32> {
    const NEIGHBOUR: &str = "neighbour-1";
    let mechanism = real.mechanisms.iter().find(|one| one.variant == variant)?;
    let mut evidence = mechanism.proof.iter().map(|proof| &proof.evidence);
    evidence.find_map(|text| {
        let (_, after) = text.split_once(NEIGHBOUR)?;
        let number = after.trim_start_matches([':', ' ']);
        let end = number.find(|c: char| !c.is_ascii_digit());
        number[..end.unwrap_or(number.len())].parse().ok().filter(|&sms| sms > 0)
    })
}
