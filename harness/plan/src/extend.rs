//! More blocks for rows that are undecided or imprecise: the second plan of a run.

use std::collections::BTreeSet;

use gpubench_record::{
    Cell, Condition, Left, Plan, Spread, SubAxis, TopUp, TopUpDecision, TopUpReason, TopUpRow,
    counted,
};
use gpubench_stats::Confidence;
use gpubench_stats::power::mde80;
use gpubench_stats::student_t::two_sided_quantile;
use schemars::JsonSchema;
use serde::Serialize;

use super::block;
use super::block::derive;

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
        if cell.victim != row.victim || cell.group != group || !cell.shape.is_usual() {
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
                    let number = block::next_number(plan) + cells.len();
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
        id: block::in_block(&template.id, number, block),
        block,
        schedule_seed: derive(plan.seed, "schedule", block),
        ..template.clone()
    }
}

// What an interruption left of a plan: whole blocks.
//
// A block is the unit of inference: its cells share a schedule, and a score compares cells of one
// block with each other. Cells from two starts of the harness are no such comparison, so a block
// that an interruption cut runs again as a whole. Complete blocks stay.

/// The blocks that are left, and how many are complete.
#[derive(Debug, Clone, PartialEq)]
pub struct BlocksLeft {
    /// Their cells, in run order, under new ids where a cell of them began.
    pub cells: Vec<Cell>,
    /// Ids of cells of them that began.
    pub superseded: Vec<String>,
    /// Blocks that are complete.
    pub complete: u32,
    /// Blocks that are left.
    pub left: u32,
}

/// The blocks of which a cell has not ended. `began` and `ended` have ids of cells; a cell for
/// which `has_no_result` is true never begins.
pub fn blocks_left(
    plan: &Plan,
    began: &BTreeSet<String>,
    ended: &BTreeSet<String>,
    has_no_result: impl Fn(&Cell) -> bool,
) -> BlocksLeft {
    let is_open = |cell: &&Cell| !ended.contains(&cell.id) && !has_no_result(cell);
    let open: BTreeSet<u32> = plan.cells.iter().filter(is_open).map(block).collect();
    let all: BTreeSet<u32> = plan.cells.iter().map(block).collect();
    let mut cells: Vec<Cell> = plan.cells.clone();
    cells.retain(|cell| open.contains(&cell.block));
    let ids = cells.iter().map(|cell| cell.id.clone());
    let superseded: Vec<String> = ids.filter(|id| began.contains(id)).collect();
    if !superseded.is_empty() {
        let first = block::next_number(plan);
        for (at, cell) in cells.iter_mut().enumerate() {
            cell.id = block::in_block(&cell.id, first + at, cell.block);
        }
    }
    BlocksLeft {
        cells,
        superseded,
        complete: (all.len() - open.len()) as u32,
        left: open.len() as u32,
    }
}

impl BlocksLeft {
    /// The same with the fault trials that began and did not end.
    pub fn with_trials(self, trials_again: Vec<String>) -> Left {
        Left { cells: self.cells, superseded: self.superseded, trials_again }
    }
}

const fn block(cell: &Cell) -> u32 {
    cell.block
}

// The smallest change of each row that a plan detects, from the spread between blocks.

/// Spread of block logs of a retention that is assumed where none is known: 2 %, as on an H100
/// 80GB (between 0.5 and 3 % over its rows).
const LOG_SPREAD_ASSUMED: f64 = 0.02;
/// The same for jitter, in native medians.
const JITTER_SPREAD_ASSUMED: f64 = 0.1;

/// What one row of a plan detects, under every mechanism.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Detectable {
    /// Axis and sub-axis.
    pub axis: String,
    /// Workload of the victim.
    pub victim: String,
    /// Workload of the aggressor.
    pub aggressor: String,
    /// The figure: `retention` or `jitter`.
    pub figure: &'static str,
    /// Planned blocks.
    pub blocks: u32,
    /// The change that 80 % of runs detect at 95 % confidence: a part of the retention, or native
    /// medians of jitter. `None` below two blocks.
    pub smallest: Option<f64>,
    /// Half-width of the interval that is expected, in the same unit: that of the first look where
    /// the plan has two. `None` below two blocks.
    pub half_width: Option<f64>,
    /// Spread between blocks that it rests on, in the same unit.
    pub spread: f64,
    /// Where the spread is from.
    pub source: String,
}

/// One entry for each pair, then one for each that gives jitter.
pub fn detectable(plan: &Plan, known: Option<&Spread>) -> Vec<Detectable> {
    // Reservations are counted: their interval follows from the number of requests.
    let pairs = plan.pairs.iter();
    let mut rows: Vec<Detectable> = pairs
        .filter(|pair| pair.sub_axis != SubAxis::Capacity)
        .map(|pair| {
            let measured = known.and_then(|known| known.victims.get(&pair.victim));
            let measured = measured.map(|victim| victim.between_blocks);
            let axis = format!("{}/{}", pair.sub_axis.axis().as_str(), pair.sub_axis.as_str());
            let (spread, source) = spread(measured, known, LOG_SPREAD_ASSUMED);
            let smallest = mde80(spread, plan.blocks, Confidence::P95).ok();
            Detectable {
                axis,
                victim: pair.victim.clone(),
                aggressor: pair.aggressor.clone(),
                figure: "retention",
                blocks: plan.blocks,
                smallest: smallest.map(f64::exp_m1),
                half_width: half_width(plan, spread).map(f64::exp_m1),
                spread,
                source,
            }
        })
        .collect();
    let requested = |axis: &String| axis == "all" || axis == "jitter";
    let sparse = |row: &Detectable| {
        let mut cells = plan.cells.iter().filter(|cell| cell.sparse.is_some());
        cells.any(|cell| cell.aggressor.as_deref() == Some(&row.aggressor))
    };
    let with_jitter = rows.iter().filter(|row| plan.axes.iter().any(requested) && sparse(row));
    let jitter = with_jitter.cloned().map(|row| {
        let (spread, source) = spread(None, None, JITTER_SPREAD_ASSUMED);
        let smallest = mde80(spread, plan.blocks, Confidence::P95).ok();
        let half_width = half_width(plan, spread);
        let axis = "jitter".to_owned();
        Detectable { axis, figure: "jitter", smallest, half_width, spread, source, ..row }
    });
    let jitter: Vec<Detectable> = jitter.collect();
    rows.extend(jitter);
    rows
}

/// `t s / sqrt(B)`, at the confidence of one look.
fn half_width(plan: &Plan, spread: f64) -> Option<f64> {
    let blocks = f64::from(plan.blocks);
    let alpha = Confidence::of_looks(plan.looks).alpha();
    let quantile = two_sided_quantile(alpha, blocks - 1.0).ok()?;
    Some(quantile * spread / blocks.sqrt())
}

fn spread(measured: Option<f64>, known: Option<&Spread>, assumed: f64) -> (f64, String) {
    match (measured, known) {
        (Some(spread), Some(known)) => {
            let sessions = known.sessions.len();
            (spread, format!("measured in {}", counted(sessions, "session")))
        }
        _ => (assumed, "assumed".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use gpubench_record::{Plan, VictimSpread};

    use super::*;
    use crate::plan;
    use crate::profile::{Profile, Wanted};
    use crate::tests::{TestResult, host, of_name};

    fn planned() -> Plan {
        let profile = Profile {
            axes: Wanted::Names(vec!["jitter".to_owned()]),
            // Without aggressors alone, all blocks have as many cells.
            decides: false,
            ..of_name("default").expect("a profile")
        };
        plan(&profile, &host(&[0]), "ptx").expect("a plan")
    }

    /// Blocks that are left and those that run again after `ended` cells ended and one more began.
    fn after(ended: usize) -> (BlocksLeft, usize) {
        let plan = planned();
        let ids: Vec<String> = plan.cells.iter().map(|cell| cell.id.clone()).collect();
        let began: BTreeSet<_> = ids.iter().take(ended + 1).cloned().collect();
        let done: BTreeSet<_> = ids.iter().take(ended).cloned().collect();
        let per_block = plan.cells.len() / plan.blocks as usize;
        (blocks_left(&plan, &began, &done, |_| false), per_block)
    }

    #[test]
    fn a_cut_block_runs_again_as_a_whole_and_complete_ones_stay() {
        let (nothing, per_block) = after(0);
        let all = nothing.left;
        assert_eq!((nothing.complete, nothing.superseded.len()), (0, 1));
        for (ended, complete, again) in
            [(per_block - 1, 0, per_block), (per_block, 1, 1), (2 * per_block + 2, 2, 3)]
        {
            let (left, _) = after(ended);
            assert_eq!(left.complete, complete, "{ended}");
            assert_eq!(left.left, all - complete, "{ended}");
            assert_eq!(left.superseded.len(), again, "{ended}");
            assert_eq!(left.cells.len(), left.left as usize * per_block, "{ended}");
        }
    }

    #[test]
    fn new_ids_sort_behind_all_others_and_uncut_blocks_keep_theirs() {
        let plan = planned();
        let per_block = plan.cells.len() / plan.blocks as usize;
        let (cut, _) = after(per_block + 1);
        let last = plan.cells.iter().map(|cell| &cell.id).max();
        assert!(cut.cells.iter().all(|cell| Some(&cell.id) > last));
        assert!(cut.cells.is_sorted_by(|a, b| a.id < b.id));
        let ids = plan.cells.iter().take(per_block).map(|cell| cell.id.clone());
        let done: BTreeSet<_> = ids.collect();
        let uncut = blocks_left(&plan, &done, &done, |_| false);
        assert_eq!(uncut.cells, plan.cells[per_block..]);
        // A cell without a result leaves its block complete.
        let none = blocks_left(&plan, &done, &done, |cell| cell.block == 1);
        assert_eq!(none.complete, 2);
    }

    #[test]
    fn a_known_spread_replaces_the_assumed_one() -> TestResult {
        let plan = crate::plan(&of_name("default")?, &host(&[0]), "ptx")?;
        let assumed = detectable(&plan, None);
        assert_eq!(assumed.len(), plan.pairs.len() + 2, "jitter beside two aggressors");
        assert!(assumed.iter().all(|row| row.source == "assumed"));
        let compute = assumed.first().ok_or("no row")?;
        // (t(0.975, 9) + t(0.8, 9)) / sqrt(10) * 0.02 = 0.0199 on the log scale.
        let smallest = compute.smallest.ok_or("none")?;
        assert!((smallest - 0.0201).abs() < 2e-4, "{smallest}");
        let mut known = Spread { sessions: vec![String::new(); 3], ..Spread::default() };
        let victim = VictimSpread { between_blocks: 0.005, ..VictimSpread::default() };
        known.victims.insert("compute".to_owned(), victim);
        let rows = detectable(&plan, Some(&known));
        assert_eq!(rows[0].source, "measured in 3 sessions");
        assert!(rows[0].smallest < Some(smallest / 3.5), "{:?}", rows[0]);
        assert_eq!(rows[1], assumed[1]);
        assert_eq!(rows.last().map(|row| row.figure), Some("jitter"));
        Ok(())
    }
}
