//! What an interruption left of a plan: whole blocks.
//!
//! A block is the unit of inference: its cells share a schedule, and a score compares cells of one
//! block with each other. Cells from two starts of the harness are no such comparison, so a block
//! that an interruption cut runs again as a whole. Complete blocks stay.

use std::collections::BTreeSet;

use gpubench_record::{Cell, Left, Plan};

use super::ids;

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
#[must_use]
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
        let first = ids::next_number(plan);
        for (at, cell) in cells.iter_mut().enumerate() {
            cell.id = ids::in_block(&cell.id, first + at, cell.block);
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
    #[must_use]
    pub fn with_trials(self, trials_again: Vec<String>) -> Left {
        Left { cells: self.cells, superseded: self.superseded, trials_again }
    }
}

const fn block(cell: &Cell) -> u32 {
    cell.block
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use gpubench_record::Plan;

    use super::super::plan;
    use super::super::tests::{built_in, host};
    use super::{BlocksLeft, blocks_left};
    use crate::profile::{Profile, Wanted};

    fn planned() -> Plan {
        let profile = Profile {
            axes: Wanted::Names(vec!["jitter".to_owned()]),
            // Without aggressors alone, all blocks have as many cells.
            decides: false,
            ..built_in("default").expect("a profile")
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
}
