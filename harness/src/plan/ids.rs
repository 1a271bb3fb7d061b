//! The ids of cells.

use gpubench_record::{Cell, Plan};

use super::draft::Layout;

/// Gives every cell its id: a number that sorts in run order, then block, mechanism, victim,
/// condition and aggressor.
pub(super) fn number(cells: &mut [Cell], plan: &Layout<'_>) {
    let blocks = plan.blocks;
    let digits = |count: usize| count.saturating_sub(1).to_string().len();
    let number_width = digits(cells.len()).max(4);
    let block_width = digits(blocks as usize).max(2);
    for (number, cell) in cells.iter_mut().enumerate() {
        let what = [
            format!("{number:0number_width$}"),
            format!("b{:0block_width$}", cell.block),
            cell.mechanism.clone(),
            cell.victim.clone(),
            // An apostrophe needs quoting in every shell.
            cell.condition.as_str().replace('\'', "2"),
        ];
        let dose = (cell.dose > 0.0 && cell.dose < 1.0).then(|| format!("dose{}", cell.dose));
        let tenants = cell.tenants.len();
        let fewer = cell.condition.has_aggressor() && tenants < plan.tenants as usize;
        let fewer = fewer.then(|| format!("tenants{tenants}"));
        let parts = what.into_iter().chain(cell.aggressor.clone());
        let parts = parts.chain(dose).chain(fewer);
        cell.id = parts.collect::<Vec<_>>().join("-");
    }
}

/// A number that no cell of the plan has or had, and that sorts behind all of them.
pub(super) fn next_number(plan: &Plan) -> usize {
    let number = |cell: &Cell| cell.id.split('-').next()?.parse::<usize>().ok();
    let last = plan.all_cells().filter_map(number).max();
    last.map_or(0, |last| last + 1).max(plan.cells.len())
}

/// The id of the same cell in another block, with another number.
pub(super) fn in_block(id: &str, number: usize, block: u32) -> String {
    let mut parts = id.splitn(3, '-');
    let mut width = |prefix: usize| parts.next().map_or(0, |part| part.len() - prefix);
    // The block has the prefix `b`.
    let (number_width, block_width) = (width(0), width(1));
    let what = parts.next().unwrap_or_default();
    format!("{number:0number_width$}-b{block:0block_width$}-{what}")
}
