//! The blocks that the deciding figures of a row rest on, and those that they leave out.

use gpubench_record::{BlocksLost, LostBlock, LostKind, counted};

use super::Row;
use crate::figures::{LeftOut, Pairs};

/// Blocks that a warning names.
const NAMED_MAX: usize = 4;
/// Share of lost blocks from which a row mentions them.
const LOST_MENTIONED: f64 = 0.25;

impl Row {
    /// The same of a figure that decides the level. A row that lost more than half of its blocks to
    /// cells that were not what they should be is in doubt.
    pub(in crate::score) fn decide_by(&mut self, what: &str, pairs: &Pairs<'_>) {
        self.count(what, pairs);
        let measured = pairs.measured.iter().map(|(block, _, _)| *block);
        self.planned.extend(measured.chain(pairs.left_out.keys().copied()));
        for (block, left_out) in &pairs.left_out {
            let known = self.left_out.get(block);
            if known.is_none_or(|known| known.kind < left_out.kind) {
                self.left_out.insert(*block, left_out.clone());
            }
        }
        let invalid = |one: &&LeftOut| one.kind == LostKind::Validity;
        let invalid = pairs.left_out.values().filter(invalid);
        let (cost, all) = (invalid.clone().count(), pairs.measured.len() + pairs.left_out.len());
        if 2 * cost > all {
            self.failed |= pairs.any_failed;
            let why = invalid.clone().next().map_or("", |one| one.why.as_str());
            self.doubt(format!(
                "{what} has {cost} of {} with a cell that is not valid ({why})",
                counted(all, "block")
            ));
        }
    }

    /// Blocks that its deciding figures leave out for a disturbance, in words.
    pub(in crate::score) fn disturbed_blocks(&self) -> Option<String> {
        let disturbed = |(_, one): &(&u32, &LeftOut)| one.kind == LostKind::Disturbance;
        named(self.left_out.iter().filter(disturbed))
    }

    pub(super) fn name_lost_blocks(&mut self) {
        if self.left_out.is_empty() {
            return;
        }
        let (lost, planned) = (self.left_out.len(), self.planned.len());
        if lost as f64 >= LOST_MENTIONED * planned as f64 {
            let blocks = named(self.left_out.iter()).unwrap_or_default();
            self.warn(format!("{lost} of {planned} blocks are left out: {blocks}"));
        }
        let blocks = self.left_out.iter().map(|(block, one)| LostBlock {
            block: *block,
            kind: one.kind,
            reason: one.why.clone(),
        });
        self.matrix.blocks_lost = Some(BlocksLost {
            planned: u32::try_from(planned).unwrap_or(u32::MAX),
            lost: blocks.collect(),
        });
    }
}

/// The first of these blocks with their reasons; `None` where there is none.
fn named<'a>(blocks: impl Iterator<Item = (&'a u32, &'a LeftOut)>) -> Option<String> {
    let all: Vec<String> =
        blocks.map(|(block, one)| format!("block {block}: {}", one.why)).collect();
    let more = all.len().saturating_sub(NAMED_MAX);
    let first = all.into_iter().take(NAMED_MAX).collect::<Vec<_>>();
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    (!first.is_empty()).then(|| format!("{}{more}", first.join("; ")))
}
