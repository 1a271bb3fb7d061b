//! More blocks for rows that are undecided or imprecise: the second plan of a run.

use std::collections::BTreeSet;

use gpubench_record::{Cell, Condition, Plan, TopUp, TopUpDecision, TopUpReason, TopUpRow};

use super::ids;
use super::seed::derive;

/// A row that asks for more blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MoreBlocks {
    /// Canonical variant.
    pub variant: String,
    /// Axis of the row.
    pub axis: String,
    /// Workload of the victim.
    pub victim: String,
    /// Workload of the aggressor.
    pub aggressor: String,
    /// Why it asks.
    pub reason: TopUpReason,
    /// Blocks behind it.
    pub blocks: u32,
    /// Blocks that it asks for.
    pub wanted: u32,
}

/// The blocks of the rows that fit into `left_ns`, those that need the least time first. Rows share
/// cells, so a row counts only the cells that no row before it has.
#[must_use]
pub fn extend(plan: &Plan, left_ns: u64, mut rows: Vec<MoreBlocks>) -> (TopUp, Vec<Cell>) {
    let templates: Vec<&Cell> = plan.cells.iter().filter(|cell| cell.block == 0).collect();
    let length_ns = |slots: &BTreeSet<Slot>| {
        let lengths = slots.iter().map(|slot| plan.durations_of(templates[slot.cell]).cell_ns());
        lengths.fold(0, u64::saturating_add)
    };
    rows.sort_by_cached_key(|row| {
        let needs_ns = length_ns(&slots(plan, &templates, row));
        (needs_ns, row.variant.clone(), row.victim.clone(), row.aggressor.clone())
    });
    let mut planned: BTreeSet<Slot> = BTreeSet::new();
    let mut spent_ns = 0_u64;
    let mut decided = Vec::new();
    for row in rows {
        let more: BTreeSet<Slot> =
            slots(plan, &templates, &row).difference(&planned).copied().collect();
        let needs_ns = length_ns(&more);
        let fits = spent_ns.saturating_add(needs_ns) <= left_ns;
        if fits {
            spent_ns = spent_ns.saturating_add(needs_ns);
            planned.extend(more);
        }
        decided.push(TopUpRow {
            variant: row.variant,
            axis: row.axis,
            victim: row.victim,
            aggressor: row.aggressor,
            reason: row.reason,
            blocks: row.blocks,
            wanted: row.wanted,
            needs_ns,
            decision: if fits { TopUpDecision::Planned } else { TopUpDecision::TooLong },
        });
    }
    let top_up = TopUp { left_ns, rows: decided };
    (top_up, in_order(plan, &templates, &planned))
}

/// A cell of the first block, in a further block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Slot {
    /// From 0, the block after the planned ones.
    further: u32,
    /// Position in the first block.
    cell: usize,
}

/// The cells that a row lacks: all conditions of its victim, and its aggressor at full dose.
fn slots(plan: &Plan, templates: &[&Cell], row: &MoreBlocks) -> BTreeSet<Slot> {
    let mut mechanisms = plan.mechanisms.iter();
    let planned = mechanisms.find(|one| one.variant == row.variant);
    let form = planned.and_then(|one| one.unprotected.as_deref());
    let group = templates
        .iter()
        .find(|cell| cell.variant == row.variant)
        .map_or("", |cell| cell.group.as_str());
    let is_wanted = |cell: &Cell| {
        if cell.victim != row.victim || cell.group != group {
            return false;
        }
        let beside = cell.aggressor.as_deref() == Some(&row.aggressor)
            && cell.dose >= 1.0
            && cell.tenants.len() == plan.tenants as usize;
        match cell.condition {
            Condition::N | Condition::NAgain => true,
            Condition::S | Condition::SAgain => cell.variant == row.variant,
            Condition::C | Condition::U => {
                beside && (cell.variant == row.variant || form == Some(&cell.variant))
            }
        }
    };
    let cells = templates.iter().enumerate().filter(|(_, cell)| is_wanted(cell));
    let cells: Vec<usize> = cells.map(|(index, _)| index).collect();
    let further = 0..row.wanted.saturating_sub(row.blocks);
    further.flat_map(|further| cells.iter().map(move |&cell| Slot { further, cell })).collect()
}

/// The cells in the order in which they run. As in the planned blocks, every second block is the
/// first one reversed, and two blocks of a group run before the host is switched to the next.
fn in_order(plan: &Plan, templates: &[&Cell], slots: &BTreeSet<Slot>) -> Vec<Cell> {
    let mut groups: Vec<&str> = Vec::new();
    for cell in templates {
        if !groups.contains(&cell.group.as_str()) {
            groups.push(&cell.group);
        }
    }
    let blocks = slots.iter().map(|slot| slot.further + 1).max().unwrap_or(0);
    let mut cells = Vec::new();
    for first in (0..blocks).step_by(2) {
        for group in &groups {
            for further in first..(first + 2).min(blocks) {
                let of_group =
                    |slot: &&Slot| slot.further == further && templates[slot.cell].group == *group;
                let mut block: Vec<&Slot> = slots.iter().filter(of_group).collect();
                if further % 2 == 1 {
                    block.reverse();
                }
                for slot in block {
                    let number = ids::next_number(plan) + cells.len();
                    let block = plan.blocks + further;
                    cells.push(cell(plan, templates[slot.cell], number, block));
                }
            }
        }
        groups.reverse();
    }
    cells
}

/// The cell in another block, with the number that follows in run order.
fn cell(plan: &Plan, template: &Cell, number: usize, block: u32) -> Cell {
    Cell {
        id: ids::in_block(&template.id, number, block),
        block,
        schedule_seed: derive(plan.seed, "schedule", block),
        ..template.clone()
    }
}
