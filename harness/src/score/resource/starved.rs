//! Rates that are upper bounds, because the victim starved.

use gpubench_record::{CellResult, Condition, Estimate, Gate, GateState};

use crate::gate::figure::CLOSED_RATE_PER_S;
use crate::score::Context;
use crate::score::cells::{Key, Pairs};
use crate::score::row::Row;

/// Blocks in which the victim starved.
pub(super) fn blocks(pairs: &Pairs<'_>) -> usize {
    let is_starved = |cell: &CellResult| {
        cell.rates.contains_key(CLOSED_RATE_PER_S)
            && cell.gate_state(&Gate::ClosedRate) == Some(GateState::NotEvaluated)
    };
    let tops = pairs.measured.iter().map(|(_, top, _)| *top);
    tops.filter(|top| is_starved(top)).count()
}

/// Warns where the victim starved in some blocks.
pub(super) fn warn(what: &str, pairs: &Pairs<'_>, row: &mut Row) {
    let (starved, all) = (blocks(pairs), pairs.measured.len());
    if starved > 0 {
        row.warn(format!(
            "{what} is an upper bound: the victim starved in {starved} of {all} blocks, where its \
             rate is an upper bound"
        ));
    }
}

/// The index where a rate is an upper bound. Without protection the victim may have been slower, so
/// that the index is higher, up to 1. Beside the aggressor it may have been slower too, so that the
/// index is lower, without end.
pub(super) fn bound(
    context: &Context<'_>,
    contended: &Key,
    index: Estimate,
    unprotected_starved: bool,
    row: &mut Row,
) -> Option<Estimate> {
    if unprotected_starved {
        row.warn("the index is a lower bound: without protection the victim starved");
        let hi = index.hi.max(1.0);
        return Some(Estimate { hi, ..index });
    }
    let pairs = context.cells.pair(contended, &contended.with(Condition::S));
    let has_starved = pairs.is_some_and(|pairs| blocks(&pairs) > 0);
    if has_starved && index.hi >= context.input.plan.thresholds.index_l1 {
        row.warn("no isolation index: the retention is an upper bound");
        return None;
    }
    Some(index)
}
