//! Finds cells by what they measure, and pairs two conditions block by block.

mod pairs;

use std::collections::{BTreeMap, BTreeSet};

use gpubench_record::{
    Cell, CellResult, Condition, LostKind, OutcomeKind, Plan, PlannedPair, SubAxis,
};

use super::served::Served;
use super::{ScoreError, ScoreInput};
pub(super) use pairs::{LeftOut, Pairs};

/// The dose at which scores are taken.
const FULL_DOSE: f64 = 1.0;

/// A victim and an aggressor on the sub-axis under which they are scored.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Pair {
    pub sub_axis: SubAxis,
    pub victim: String,
    /// `None` where no contended cell was planned.
    pub aggressor: Option<String>,
}

impl Pair {
    /// Whether both are the same victim on the same sub-axis.
    pub(super) fn has_victim_of(&self, other: &Self) -> bool {
        (self.sub_axis, &self.victim) == (other.sub_axis, &other.victim)
    }
}

/// One condition of one victim under one variant, over all blocks of a group.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub group: String,
    pub variant: String,
    /// Without an aggressor in N and S, whose cells serve every aggressor.
    pub pair: Pair,
    pub condition: Condition,
}

/// The planned cells of a run with their results, at one dose.
#[derive(Debug)]
pub(super) struct Cells<'a> {
    /// The variant of native cells.
    reference: &'a str,
    /// In report order.
    pairs: &'a [PlannedPair],
    by_key: BTreeMap<Key, BTreeMap<u32, Planned<'a>>>,
    /// Blocks that every row was planned to have; those after them belong to single rows.
    blocks: u32,
}

/// Which cells count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    /// Those without a failed gate. Their figures are printed.
    Printed,
    /// Also those that only a disturbance excludes. They must give the same level.
    WithDisturbed,
}

/// A planned cell, with its result if it ran.
#[derive(Debug, Clone, Copy)]
pub(super) struct Planned<'a> {
    pub cell: &'a Cell,
    pub result: Option<&'a CellResult>,
    reading: Reading,
}

impl<'a> Cells<'a> {
    /// Assigns results to planned cells, contended ones at full dose.
    pub(super) fn index(input: &ScoreInput<'a>, reading: Reading) -> Result<Self, ScoreError> {
        Self::index_at(input, reading, FULL_DOSE)
    }

    /// The same with contended cells at another dose.
    pub(super) fn index_at(
        input: &ScoreInput<'a>,
        reading: Reading,
        dose: f64,
    ) -> Result<Self, ScoreError> {
        let plan: &'a Plan = input.plan;
        let mut results: BTreeMap<&str, &CellResult> = BTreeMap::new();
        for result in input.cells {
            if results.insert(&result.cell.id, result).is_some() {
                return Err(ScoreError::Twice { id: result.cell.id.clone() });
            }
        }
        let mut by_key: BTreeMap<Key, BTreeMap<u32, Planned<'a>>> = BTreeMap::new();
        let served = Served::of(plan);
        for cell in &plan.cells {
            let result = results.remove(cell.id.as_str());
            // Scores use cells with all tenants.
            let fewer = !plan.sweep.is_empty() && cell.tenants.len() < plan.tenants as usize;
            if cell.condition.has_aggressor() && (cell.dose.min(FULL_DOSE) != dose || fewer) {
                continue;
            }
            for sub_axis in served.sub_axes(cell) {
                let key = Key {
                    group: cell.group.clone(),
                    variant: cell.variant.clone(),
                    pair: Pair {
                        sub_axis,
                        victim: cell.victim.clone(),
                        aggressor: cell
                            .aggressor
                            .clone()
                            .filter(|_| cell.condition.has_aggressor()),
                    },
                    condition: cell.condition,
                };
                by_key
                    .entry(key)
                    .or_default()
                    .insert(cell.block, Planned { cell, result, reading });
            }
        }
        match results.into_keys().next() {
            Some(id) => Err(ScoreError::NotPlanned { id: id.to_owned() }),
            None => Ok(Self {
                reference: &plan.reference,
                pairs: &plan.pairs,
                by_key,
                blocks: plan.blocks,
            }),
        }
    }

    /// The pairs that have cells: by sub-axis, within one in the order of the plan.
    pub(super) fn pairs(&self) -> Vec<Pair> {
        let all: BTreeSet<&Pair> = self.by_key.keys().map(|key| &key.pair).collect();
        // A victim without an aggressor is a pair only where it has no contended cells.
        let is_pair = |pair: &&Pair| {
            let contends = |other: &Pair| other.aggressor.is_some() && other.has_victim_of(pair);
            pair.aggressor.is_some() || !all.iter().any(|other| contends(other))
        };
        let mut pairs: Vec<Pair> = all.iter().copied().filter(is_pair).cloned().collect();
        let position = |pair: &Pair| {
            let aggressor = pair.aggressor.as_deref();
            let is_same = |one: &PlannedPair| {
                (one.sub_axis, &one.victim) == (pair.sub_axis, &pair.victim)
                    && Some(one.aggressor.as_str()) == aggressor
            };
            self.pairs.iter().position(is_same)
        };
        pairs.sort_by_key(|pair| (pair.sub_axis, position(pair).unwrap_or(usize::MAX)));
        pairs
    }

    /// The groups that have native cells of this victim.
    pub(super) fn native_groups(&self, pair: &Pair) -> BTreeSet<&str> {
        let native = self
            .by_key
            .keys()
            .filter(|key| key.pair.has_victim_of(pair) && key.condition.is_native());
        native.map(|key| key.group.as_str()).collect()
    }

    /// The contended cells of this variant; `None` where none was planned.
    pub(super) fn contended(&self, variant: &str, pair: &Pair) -> Option<&Key> {
        self.by_key.keys().find(|key| {
            key.variant == variant && key.pair == *pair && key.condition == Condition::C
        })
    }

    /// The group in which this variant has solo cells of the victim.
    pub(super) fn solo_group_of(&self, variant: &str, pair: &Pair) -> Option<&str> {
        let solo = |key: &&Key| {
            key.variant == variant && key.pair.has_victim_of(pair) && key.condition == Condition::S
        };
        Some(self.by_key.keys().find(solo)?.group.as_str())
    }

    /// The cells of an unprotected form: the contended cells of the form, or cells that were
    /// planned as its condition U, which are equal. Those of `group` come first.
    pub(super) fn unprotected(&self, form: &str, pair: &Pair, group: &str) -> Option<&Key> {
        let serving =
            |key: &&Key| key.variant == form && key.pair == *pair && key.condition.has_aggressor();
        let elsewhere = |key: &&Key| key.group != group;
        self.by_key.keys().filter(serving).min_by_key(|key| (elsewhere(key), key.condition))
    }

    /// The native cells of the same victim in the same blocks.
    pub(super) fn native_of(&self, key: &Key) -> Key {
        Key { variant: self.reference.to_owned(), ..key.with(Condition::N) }
    }

    /// Every block of one condition.
    pub(super) fn blocks(&self, key: &Key) -> Option<&BTreeMap<u32, Planned<'a>>> {
        self.by_key.get(key)
    }
}

impl<'a> Planned<'a> {
    /// The result, if the cell counts in this reading.
    pub(super) fn measured(&self) -> Option<&'a CellResult> {
        let put_back = self.reading == Reading::WithDisturbed;
        self.result.filter(|result| {
            result.outcome.is_measured() || put_back && result.is_excluded_for_a_disturbance()
        })
    }

    fn failed(&self) -> bool {
        self.result.is_some_and(|result| result.outcome.outcome == OutcomeKind::Failed)
    }

    /// Why it does not count; `None` where it does.
    fn doubt(&self) -> Option<LeftOut> {
        if self.measured().is_some() {
            return None;
        }
        let reason = self.result.and_then(|result| result.outcome.reason.as_deref());
        let (kind, what) = match self.result {
            None => (LostKind::NotMeasured, "did not run"),
            Some(result) => {
                let kind = if result.is_excluded_for_a_disturbance() {
                    LostKind::Disturbance
                } else if result.outcome.outcome == OutcomeKind::Waived {
                    LostKind::NotMeasured
                } else {
                    LostKind::Validity
                };
                (kind, reason.unwrap_or("no reason given"))
            }
        };
        let why = format!("{} {what}", self.cell.condition.as_str());
        Some(LeftOut { kind, why })
    }
}

impl Key {
    /// The same victim in the same blocks, under another condition of the same variant.
    pub(super) fn with(&self, condition: Condition) -> Self {
        let mut key = self.clone();
        key.condition = condition;
        if !condition.has_aggressor() {
            key.pair.aggressor = None;
        }
        key
    }
}
