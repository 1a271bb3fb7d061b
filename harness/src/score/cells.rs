//! Finds cells by what they measure, and pairs two conditions block by block.

use std::collections::{BTreeMap, BTreeSet};

use gpubench_record::{Cell, CellResult, Condition, Plan, PlannedPair, SubAxis};

use super::{ScoreError, ScoreInput};
use crate::gate::{CLOSED_REQUESTS, open_loop_doubt};

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

/// The planned cells of a run with their results, at full dose.
#[derive(Debug)]
pub(super) struct Cells<'a> {
    /// The variant of native cells.
    reference: &'a str,
    /// In report order.
    pairs: &'a [PlannedPair],
    by_key: BTreeMap<Key, BTreeMap<u32, Planned<'a>>>,
}

/// A planned cell, with its result if it ran.
#[derive(Debug, Clone, Copy)]
pub(super) struct Planned<'a> {
    pub cell: &'a Cell,
    pub result: Option<&'a CellResult>,
}

/// Two conditions of the same blocks.
#[derive(Debug, Default)]
pub(super) struct Pairs<'a> {
    /// By block: the cells of the numerator and of the denominator, both measured.
    pub measured: Vec<(u32, &'a CellResult, &'a CellResult)>,
    /// By block: why it does not count.
    pub left_out: BTreeMap<u32, String>,
    /// Whether a cell that is left out failed, rather than being inconclusive.
    pub any_failed: bool,
}

impl Pairs<'_> {
    /// Closed-loop requests of the victims of all these cells.
    pub(super) fn requests(&self) -> u64 {
        let cells = self
            .measured
            .iter()
            .flat_map(|(_, top, bottom)| [top, bottom]);
        cells
            .filter_map(|cell| cell.requests.get(CLOSED_REQUESTS))
            .sum()
    }
}

impl<'a> Cells<'a> {
    /// Assigns results to planned cells.
    pub(super) fn index(input: &ScoreInput<'a>) -> Result<Self, ScoreError> {
        let plan: &'a Plan = input.plan;
        let mut results: BTreeMap<&str, &CellResult> = BTreeMap::new();
        for result in input.cells {
            if results.insert(&result.cell.id, result).is_some() {
                return Err(ScoreError::Twice {
                    id: result.cell.id.clone(),
                });
            }
        }
        let mut by_key: BTreeMap<Key, BTreeMap<u32, Planned<'a>>> = BTreeMap::new();
        for cell in &plan.cells {
            let result = results.remove(cell.id.as_str());
            // Scores use cells with all tenants at full dose.
            let fewer = !plan.sweep.is_empty() && cell.tenants.len() < plan.tenants as usize;
            if cell.condition.has_aggressor() && (cell.dose < FULL_DOSE || fewer) {
                continue;
            }
            let key = Key {
                group: cell.group.clone(),
                variant: cell.variant.clone(),
                pair: Pair {
                    sub_axis: cell.sub_axis,
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
                .insert(cell.block, Planned { cell, result });
        }
        match results.into_keys().next() {
            Some(id) => Err(ScoreError::NotPlanned { id: id.to_owned() }),
            None => Ok(Self {
                reference: &plan.reference,
                pairs: &plan.pairs,
                by_key,
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
        self.by_key
            .keys()
            .filter(serving)
            .min_by_key(|key| (elsewhere(key), key.condition))
    }

    /// The native cells of the same victim in the same blocks.
    pub(super) fn native_of(&self, key: &Key) -> Key {
        Key {
            variant: self.reference.to_owned(),
            ..key.with(Condition::N)
        }
    }

    /// Every block of one condition.
    pub(super) fn blocks(&self, key: &Key) -> Option<&BTreeMap<u32, Planned<'a>>> {
        self.by_key.get(key)
    }

    /// The blocks in which both conditions were measured; `None` where either was not planned.
    pub(super) fn pair(&self, top: &Key, bottom: &Key) -> Option<Pairs<'a>> {
        let (above, below) = (self.blocks(top)?, self.blocks(bottom)?);
        let mut pairs = Pairs::default();
        let blocks: BTreeSet<u32> = above.keys().chain(below.keys()).copied().collect();
        for block in blocks {
            let found = [above.get(&block), below.get(&block)];
            let reasons: Vec<String> = found
                .iter()
                .flatten()
                .filter_map(|planned| planned.doubt())
                .collect();
            let measured = found.map(|planned| planned.and_then(|planned| planned.measured()));
            pairs.any_failed |= found.iter().flatten().any(|planned| planned.failed());
            match measured {
                [Some(top), Some(bottom)] => match other_victim(top, bottom) {
                    None => pairs.measured.push((block, top, bottom)),
                    Some(why) => drop(pairs.left_out.insert(block, why)),
                },
                _ if reasons.is_empty() => {
                    pairs
                        .left_out
                        .insert(block, "its partner was not planned".to_owned());
                }
                _ => {
                    pairs.left_out.insert(block, reasons.join("; "));
                }
            }
        }
        Some(pairs)
    }
}

/// How the victims of two cells differ by what they reported, if they do: then a ratio of their
/// rates says nothing about the conditions.
fn other_victim(top: &CellResult, bottom: &CellResult) -> Option<String> {
    let [one, two] = [top, bottom].map(|cell| cell.tenant_results.first()?.identity.as_ref());
    let difference = one?.difference(two?)?;
    let [top, bottom] = [top, bottom].map(|cell| cell.cell.condition.as_str());
    Some(format!(
        "the victims of {top} and {bottom} differ: {difference}"
    ))
}

impl Pairs<'_> {
    /// Leaves out the blocks with an open loop that cannot be trusted.
    pub(super) fn only_punctual(&mut self) {
        let left_out = &mut self.left_out;
        self.measured.retain(|(block, top, bottom)| {
            let doubts = [top, bottom].map(|cell| {
                let why = open_loop_doubt(cell)?;
                Some(format!("{} {why}", cell.cell.condition.as_str()))
            });
            let doubts: Vec<String> = doubts.into_iter().flatten().collect();
            if !doubts.is_empty() {
                left_out.insert(*block, doubts.join("; "));
            }
            doubts.is_empty()
        });
    }
}

impl<'a> Planned<'a> {
    /// The result, if the cell is measured.
    pub(super) fn measured(&self) -> Option<&'a CellResult> {
        self.result.filter(|result| result.outcome.is_measured())
    }

    fn failed(&self) -> bool {
        self.result
            .is_some_and(|result| result.outcome.outcome == gpubench_record::OutcomeKind::Failed)
    }

    /// Why it does not count; `None` where it is measured.
    fn doubt(&self) -> Option<String> {
        let what = match self.result {
            None => "did not run",
            Some(result) if result.outcome.is_measured() => return None,
            Some(result) => result
                .outcome
                .reason
                .as_deref()
                .unwrap_or("no reason given"),
        };
        Some(format!("{} {what}", self.cell.condition.as_str()))
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
