//! Rows of the reference: the native rate against its repetition (N' over N), and its drift from
//! the first block to the last.

use gpubench_record::Condition;

use super::row::Row;
use super::{Context, Requested, controls};
use crate::figures::{Key, Pair, Pairs};
use crate::figures::{Logs, ln_rate};

/// The word of these rows.
const WORD: &str = "reference";

/// One row for each victim that has native cells, over all groups.
pub(super) fn rows(context: &Context<'_>) -> Vec<Row> {
    let requested = Requested::of(context);
    let pairs = requested.pairs.iter().chain(&requested.jitter);
    let mut rows: Vec<Row> = Vec::new();
    let mut done: Vec<&Pair> = Vec::new();
    for pair in pairs {
        let is_new = !done.iter().any(|one| one.has_victim_of(pair));
        if is_new && !context.cells.native_groups(pair).is_empty() {
            done.push(pair);
            rows.push(row(context, pair));
        }
    }
    rows
}

fn row(context: &Context<'_>, pair: &Pair) -> Row {
    let axis = pair.sub_axis.axis();
    let mut row = match context.reference() {
        Some(mechanism) => Row::of_mechanism(context, mechanism, axis, Some(pair)),
        None => {
            let name = &context.input.plan.reference;
            let mut row = Row::new(context, name, name, axis, Some(pair));
            row.doubt("no proof that the native cells ran without a neighbour");
            row
        }
    };
    row.matrix.word = Some(WORD.to_owned());
    if !row.matrix.outcome.is_measured() {
        return row;
    }
    let last = context.input.plan.cells.iter().map(|cell| cell.block).max();
    let stride = last.map_or(0, |last| last + 1);
    let mut all = Pairs::default();
    for (number, group) in context.cells.native_groups(pair).into_iter().enumerate() {
        let native = native(context, group, pair);
        drift(context, &native, &mut row);
        if let Some(pairs) = context.cells.pair(&native.with(Condition::NAgain), &native) {
            merge(&mut all, pairs, number as u32 * stride);
        }
    }
    row.decide_by("N' over N", &all);
    row.matrix.requests = all.requests();
    let logs = Logs::of_rates(&all);
    if let Some(modes) = logs.two_modes() {
        row.warn(modes.in_words(f64::exp));
    }
    let estimate = row.take("ratio of N' to N", logs.ratio());
    if let Some(estimate) = &estimate {
        controls::repetition("native", estimate, &mut row);
    }
    row.matrix.retention = estimate;
    row.finish()
}

/// The native cells of this victim in a group.
fn native(context: &Context<'_>, group: &str, pair: &Pair) -> Key {
    Key::alone(group, &context.input.plan.reference, pair, Condition::N)
}

/// Adds the pairs of one more group, with block numbers of their own.
fn merge<'a>(all: &mut Pairs<'a>, pairs: Pairs<'a>, offset: u32) {
    let shifted =
        pairs.measured.into_iter().map(|(block, top, bottom)| (block + offset, top, bottom));
    all.measured.extend(shifted);
    all.left_out.extend(pairs.left_out.into_iter().map(|(block, why)| (block + offset, why)));
    all.any_failed |= pairs.any_failed;
}

/// Mentions a native rate that drifted: `|ln(P_last / P_first)|` of the native cells of the last
/// and first block exceeds the profile's `drift_max`. P of a block is the geometric mean of its N
/// and N'. Cells are compared within a block, in random order, so that a drift over blocks cancels;
/// what it leaves is in the spread of the blocks.
pub(super) fn drift(context: &Context<'_>, native: &Key, row: &mut Row) {
    let max = context.input.plan.thresholds.drift_max;
    let mut by_block: Vec<(u32, Vec<f64>)> = Vec::new();
    for key in [native.clone(), native.with(Condition::NAgain)] {
        for (block, planned) in context.cells.blocks(&key).into_iter().flatten() {
            let Some(log) = planned.measured().and_then(ln_rate) else {
                continue;
            };
            match by_block.iter_mut().find(|(number, _)| number == block) {
                Some((_, logs)) => logs.push(log),
                None => by_block.push((*block, vec![log])),
            }
        }
    }
    by_block.sort_by_key(|(block, _)| *block);
    let mean = |logs: &Vec<f64>| logs.iter().sum::<f64>() / logs.len() as f64;
    let (Some((first, before)), Some((last, after))) = (by_block.first(), by_block.last()) else {
        return;
    };
    let moved = mean(after) - mean(before);
    if moved.abs() > max {
        row.warn(format!(
            "the native rate moved by {moved:+.3} (log) from block {first} to block {last}, up to \
             {max} is usual"
        ));
    }
}
