//! The cells of a record by what they measure, with the SM clock of each.

use std::collections::{BTreeMap, BTreeSet};

use gpubench_compare::session::Dose;
use gpubench_record::{CellResult, Condition, RunRecord, SubAxis};
use gpubench_reports::store::Reading;

use super::facts::SM_CLOCK;
use crate::score::Served;

/// The dose at which scores are taken.
const FULL_DOSE: f64 = 1.0;

/// One condition of one victim under one variant, over all blocks of a group.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key<'a> {
    pub group: &'a str,
    pub variant: &'a str,
    pub sub_axis: SubAxis,
    pub victim: &'a str,
    /// Where the condition has one.
    pub aggressor: Option<&'a str>,
    /// Of the aggressor, where it is below [`FULL_DOSE`].
    pub dose: Option<Dose>,
    pub condition: Condition,
}

/// Every planned cell with all tenants, by block; `None` where it did not run.
pub(super) struct Cells<'a> {
    by_key: BTreeMap<Key<'a>, BTreeMap<u32, Option<&'a CellResult>>>,
    /// The keys whose cells have another sub-axis: a victim alone is measured once for all of them.
    lent: BTreeSet<Key<'a>>,
    /// Variant of native cells.
    reference: &'a str,
    /// Mean SM clock of each cell, in MHz.
    clocks: BTreeMap<&'a str, f64>,
}

impl<'a> Cells<'a> {
    pub(super) fn index(run: &'a RunRecord, telemetry: &'a [Reading]) -> Self {
        let plan = &run.plan;
        let results: BTreeMap<&str, &CellResult> =
            run.cells.iter().map(|result| (result.cell.id.as_str(), result)).collect();
        let served = Served::of(plan);
        let mut lent = BTreeSet::new();
        let mut by_key: BTreeMap<Key<'a>, BTreeMap<u32, Option<&CellResult>>> = BTreeMap::new();
        for cell in &plan.cells {
            let contends = cell.condition.has_aggressor();
            let fewer = !plan.sweep.is_empty() && cell.tenants.len() < plan.tenants as usize;
            if contends && fewer {
                continue;
            }
            let result = results.get(cell.id.as_str()).copied();
            for sub_axis in served.sub_axes(cell) {
                let key = Key {
                    group: &cell.group,
                    variant: &cell.variant,
                    sub_axis,
                    victim: &cell.victim,
                    aggressor: cell.aggressor.as_deref().filter(|_| contends),
                    dose: (contends && cell.dose < FULL_DOSE).then_some(Dose(cell.dose)),
                    condition: cell.condition,
                };
                if sub_axis != cell.sub_axis {
                    lent.insert(key.clone());
                }
                by_key.entry(key).or_default().insert(cell.block, result);
            }
        }
        Self { by_key, lent, reference: &plan.reference, clocks: clocks(telemetry) }
    }

    /// The keys of one condition, each of its cells under one of them.
    pub(super) fn of(&self, condition: Condition) -> impl Iterator<Item = &Key<'a>> {
        let keys = self.by_key.keys();
        keys.filter(move |key| key.condition == condition && !self.lent.contains(key))
    }

    /// The blocks of one condition, measured or not.
    pub(super) fn blocks(&self, key: &Key<'a>) -> Option<&BTreeMap<u32, Option<&'a CellResult>>> {
        self.by_key.get(key)
    }

    /// The measured cell of a block.
    pub(super) fn measured(&self, key: &Key<'a>, block: u32) -> Option<&'a CellResult> {
        let result = (*self.by_key.get(key)?.get(&block)?)?;
        result.outcome.is_measured().then_some(result)
    }

    /// The solo cells of the same victim in the same blocks.
    pub(super) fn solo(key: &Key<'a>) -> Key<'a> {
        Key { aggressor: None, dose: None, condition: Condition::S, ..key.clone() }
    }

    /// The native cells of the same victim in the same blocks.
    pub(super) fn native(&self, key: &Key<'a>) -> Key<'a> {
        Key {
            variant: self.reference,
            aggressor: None,
            dose: None,
            condition: Condition::N,
            ..key.clone()
        }
    }

    /// The logarithm of the mean SM clock during a cell.
    pub(super) fn ln_clock(&self, cell: &CellResult) -> Option<f64> {
        Some(self.clocks.get(cell.cell.id.as_str())?.ln())
    }
}

fn clocks(telemetry: &[Reading]) -> BTreeMap<&str, f64> {
    let mut sums: BTreeMap<&str, (f64, u32)> = BTreeMap::new();
    let rows = telemetry.iter();
    for row in rows.filter(|row| row.metric == SM_CLOCK && row.value > 0.0) {
        let sum = sums.entry(&row.cell).or_default();
        *sum = (sum.0 + row.value, sum.1 + 1);
    }
    sums.into_iter().map(|(cell, (sum, n))| (cell, sum / f64::from(n))).collect()
}
