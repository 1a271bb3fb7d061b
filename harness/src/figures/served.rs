//! Which rows the cells without an aggressor serve.

use std::collections::BTreeSet;

use gpubench_record::{Cell, Plan, SubAxis};

/// The sub-axes that cells without an aggressor serve. One such cell serves every pair of its
/// victim; records of format 1.0 have one for each sub-axis.
pub(crate) struct Served<'a> {
    plan: &'a Plan,
    own: BTreeSet<(SubAxis, &'a str)>,
}

impl<'a> Served<'a> {
    pub(crate) fn of(plan: &'a Plan) -> Self {
        let cells = plan.cells.iter();
        let alone = cells.filter(|cell| !cell.condition.has_aggressor());
        Self { plan, own: alone.map(|cell| (cell.sub_axis, cell.victim.as_str())).collect() }
    }

    /// The sub-axis of a cell, then those of its victim that have no cells of their own.
    pub(crate) fn sub_axes(&self, cell: &Cell) -> BTreeSet<SubAxis> {
        let mut found = BTreeSet::from([cell.sub_axis]);
        if !cell.condition.has_aggressor() {
            let pairs = self.plan.pairs.iter();
            let shared = pairs
                .filter(|pair| pair.victim == cell.victim)
                .filter(|pair| !self.own.contains(&(pair.sub_axis, pair.victim.as_str())));
            found.extend(shared.map(|pair| pair.sub_axis));
        }
        found
    }
}
