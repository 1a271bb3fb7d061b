//! Two conditions of the same blocks, and the blocks that they leave out.

use std::collections::{BTreeMap, BTreeSet};

use gpubench_record::{CellResult, LostKind};

use super::cells::Cells;
use super::key::Key;
use crate::gate::{CLOSED_REQUESTS, open_loop_doubt};

/// Two conditions of the same blocks.
#[derive(Debug, Default)]
pub(crate) struct Pairs<'a> {
    /// By block: the cells of the numerator and of the denominator, both measured.
    pub measured: Vec<(u32, &'a CellResult, &'a CellResult)>,
    /// By block: why it does not count.
    pub left_out: BTreeMap<u32, LeftOut>,
    /// Whether a cell that is left out failed, rather than being inconclusive.
    pub any_failed: bool,
}

impl Pairs<'_> {
    /// Closed-loop requests of the victims of all these cells.
    pub(crate) fn requests(&self) -> u64 {
        let cells = self.measured.iter().flat_map(|(_, top, bottom)| [top, bottom]);
        cells.filter_map(|cell| cell.requests.get(CLOSED_REQUESTS)).sum()
    }
}

/// One condition in its blocks.
#[derive(Debug, Default)]
pub(crate) struct Alone<'a> {
    /// By block: its cell, measured.
    pub measured: Vec<(u32, &'a CellResult)>,
    /// By block: why it does not count.
    pub left_out: BTreeMap<u32, LeftOut>,
}

/// Why a block does not count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LeftOut {
    pub kind: LostKind,
    pub why: String,
}

impl<'a> Cells<'a> {
    /// The blocks in which both conditions were measured; `None` where either was not planned.
    pub(crate) fn pair(&self, top: &Key, bottom: &Key) -> Option<Pairs<'a>> {
        let (above, below) = (self.blocks(top)?, self.blocks(bottom)?);
        let mut pairs = Pairs::default();
        let mut blocks: BTreeSet<u32> = above.keys().chain(below.keys()).copied().collect();
        blocks.retain(|block| {
            let of_both = above.contains_key(block) && below.contains_key(block);
            *block < self.common_blocks() || of_both
        });
        for block in blocks {
            let found = [above.get(&block), below.get(&block)];
            let planned = || found.iter().flatten();
            let doubts: Vec<LeftOut> = planned().filter_map(|one| one.doubt()).collect();
            let measured = found.map(|planned| planned.and_then(|planned| planned.measured()));
            pairs.any_failed |= found.iter().flatten().any(|planned| planned.failed());
            match measured {
                [Some(top), Some(bottom)] => match other_victim(top, bottom) {
                    None => pairs.measured.push((block, top, bottom)),
                    Some(why) => {
                        let kind = LostKind::Validity;
                        pairs.left_out.insert(block, LeftOut { kind, why });
                    }
                },
                _ => {
                    pairs.left_out.insert(block, LeftOut::of(&doubts));
                }
            }
        }
        Some(pairs)
    }

    /// The blocks of one condition.
    pub(crate) fn alone(&self, key: &Key) -> Alone<'a> {
        let mut alone = Alone::default();
        for (block, planned) in self.blocks(key).into_iter().flatten() {
            match (planned.measured(), planned.doubt()) {
                (Some(cell), _) => alone.measured.push((*block, cell)),
                (None, doubt) => alone.left_out.extend(doubt.map(|doubt| (*block, doubt))),
            }
        }
        alone
    }
}

/// How the victims of two cells differ by what they reported, if they do: then a ratio of their
/// rates says nothing about the conditions.
fn other_victim(top: &CellResult, bottom: &CellResult) -> Option<String> {
    let [one, two] = [top, bottom].map(|cell| cell.tenant_results.first()?.identity.as_ref());
    let difference = one?.difference(two?)?;
    let [top, bottom] = [top, bottom].map(|cell| cell.cell.condition.as_str());
    Some(format!("the victims of {top} and {bottom} differ: {difference}"))
}

impl Pairs<'_> {
    /// Leaves out the blocks with an open loop that cannot be trusted.
    pub(crate) fn only_punctual(&mut self) {
        let left_out = &mut self.left_out;
        let kind = LostKind::Disturbance;
        self.measured.retain(|(block, top, bottom)| {
            let doubts = [top, bottom].map(|cell| {
                let why = open_loop_doubt(cell)?;
                Some(format!("{} {why}", cell.cell.condition.as_str()))
            });
            let doubts: Vec<String> = doubts.into_iter().flatten().collect();
            if !doubts.is_empty() {
                let why = doubts.join("; ");
                left_out.insert(*block, LeftOut { kind, why });
            }
            doubts.is_empty()
        });
    }
}

impl Alone<'_> {
    /// Leaves out the blocks with an open loop that cannot be trusted.
    pub(crate) fn only_punctual(&mut self) {
        let left_out = &mut self.left_out;
        self.measured.retain(|(block, cell)| {
            let why = open_loop_doubt(cell);
            if let Some(why) = &why {
                let why = format!("{} {why}", cell.cell.condition.as_str());
                left_out.insert(*block, LeftOut { kind: LostKind::Disturbance, why });
            }
            why.is_none()
        });
    }
}

impl LeftOut {
    /// Of a block with these doubts; the gravest kind counts.
    fn of(doubts: &[Self]) -> Self {
        let why: Vec<&str> = doubts.iter().map(|one| one.why.as_str()).collect();
        match doubts.iter().map(|one| one.kind).max() {
            Some(kind) => Self { kind, why: why.join("; ") },
            None => {
                Self { kind: LostKind::NotMeasured, why: "its partner was not planned".to_owned() }
            }
        }
    }
}
