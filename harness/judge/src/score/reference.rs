//! Rows without a neighbour: the reference against its repetition, the controls that must find no
//! difference, and mechanisms that admit one tenant.

use gpubench_record::{Axis, BLOCKS_MIN, Condition, Estimate, MechanismRow, Outcome, counted};

use super::row::Row;
use super::{Context, Requested};
use crate::figures::{Key, Logs, Pair, Pairs, in_words, ln_rate};

// Rows of the reference: the native rate against its repetition (N' over N), and its drift from
// the first block to the last.

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
    let mut all = Pairs { confidence: context.cells.confidence(), ..Pairs::default() };
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
        repetition("native", estimate, &mut row);
    }
    row.matrix.retention = estimate;
    row.finish()
}

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

// Controls that repeat a measurement (A/A pairs) and must find no difference.
//
// One interval in twenty excludes 1 by chance, so that alone is a warning. A pair is in doubt
// where its whole interval lies more than 1 % from 1, or where more pairs exclude 1 than chance
// allows.

/// Smallest A/A difference that is reported. A device without noise has smaller ones.
const REPORTED_MIN: f64 = 0.001;
/// Difference that a repetition may have. It is small against the distances between levels.
const ACCEPTED: f64 = 0.01;
/// Probability with which an interval excludes the true value.
const ALPHA: f64 = 0.05;
/// Probability below which a number of such intervals is no chance.
const FAMILY_ALPHA: f64 = 0.01;

/// An A/A pair.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Repetition {
    /// Rows of one victim under one variant share a pair.
    pub of: (String, String),
    /// Whether its interval excludes 1.
    pub fires: bool,
}

/// Compares a repetition with its first measurement, and warns or doubts.
pub(super) fn repetition(what: &str, estimate: &Estimate, row: &mut Row) -> bool {
    let off = (estimate.value - 1.0).abs() >= REPORTED_MIN;
    let fires = off && (estimate.hi < 1.0 || estimate.lo > 1.0);
    let found = in_words(estimate);
    if estimate.hi < 1.0 - ACCEPTED || estimate.lo > 1.0 + ACCEPTED {
        row.doubt(format!(
            "A/A: {what} against itself is {found}, accepted is an interval that reaches 1 +/- \
             {ACCEPTED}"
        ));
    } else if fires {
        row.warn(format!("A/A: {what} against itself is {found}, which excludes 1"));
    }
    fires
}

/// Doubts the rows whose pairs exclude 1, where more pairs do so than chance allows.
pub(super) fn family(rows: &mut [Row]) {
    let mut pairs: Vec<&Repetition> = Vec::new();
    for pair in rows.iter().filter_map(|row| row.repetition.as_ref()) {
        if !pairs.iter().any(|known| known.of == pair.of) {
            pairs.push(pair);
        }
    }
    let (all, fired) = (pairs.len(), pairs.iter().filter(|pair| pair.fires).count());
    let chance = at_least(fired, all, ALPHA);
    if chance >= FAMILY_ALPHA {
        return;
    }
    let why = format!(
        "A/A: {fired} of {all} solo cells differ from their repetition, which chance does with a \
         probability of {chance:.1e}"
    );
    for row in rows {
        if row.repetition.as_ref().is_some_and(|pair| pair.fires) {
            row.retract(&why, None);
        }
    }
}

/// The probability of at least `k` of `n` where each has the probability `p`.
fn at_least(k: usize, n: usize, p: f64) -> f64 {
    let mut term = (1.0 - p).powf(n as f64);
    let mut below = 0.0;
    for number in 0..k {
        below += term;
        term *= (n - number) as f64 / (number + 1) as f64 * p / (1.0 - p);
    }
    1.0 - below
}

// Rows of a mechanism that admits one tenant and refuses every other. Without a neighbour there is
// no retention, no jitter and no level, so its rows are waived, with the refusal as the reason.
// They still have the efficiency: what the mechanism costs the admitted tenant.

/// Why no cell has an aggressor.
const REASON: &str = "a second tenant is refused (46, CUDA_ERROR_DEVICE_UNAVAILABLE): there is no \
                      neighbour that could interfere";

/// Whether this mechanism admits one tenant.
pub(super) fn applies_to(context: &Context<'_>, mechanism: &MechanismRow) -> bool {
    let mut planned = context.input.plan.mechanisms.iter();
    planned.any(|one| one.variant == mechanism.variant && one.properties.admits_one_tenant())
}

/// Its rows: one for each victim of the resource axes, then the other axes of the plan.
pub(super) fn single_tenant_rows(
    context: &Context<'_>,
    mechanism: &MechanismRow,
    requested: &Requested,
) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    let mut done: Vec<&Pair> = Vec::new();
    for pair in &requested.pairs {
        if !done.iter().any(|one| one.has_victim_of(pair)) {
            done.push(pair);
            rows.push(resource(context, mechanism, pair));
        }
    }
    let mut push = |axis| rows.push(waived(Row::of_mechanism(context, mechanism, axis, None)));
    if !context.input.probes.is_empty() {
        push(Axis::Memory);
    }
    if !requested.jitter.is_empty() {
        push(Axis::Jitter);
    }
    if !context.input.plan.fault_trials.is_empty() {
        push(Axis::Fault);
    }
    rows
}

fn resource(context: &Context<'_>, mechanism: &MechanismRow, pair: &Pair) -> Row {
    let axis = pair.sub_axis.axis();
    let mut row = Row::of_mechanism(context, mechanism, axis, Some(pair));
    if row.matrix.outcome.is_measured() && !row.is_doubtful() {
        efficiency(context, mechanism, pair, &mut row);
    }
    waived(row)
}

/// Waives the row, unless the mechanism failed or was not proven in force.
fn waived(mut row: Row) -> Row {
    if row.matrix.outcome.is_measured() && !row.is_doubtful() {
        row.matrix.outcome = Outcome::waived(REASON);
    }
    row.finish()
}

/// The solo rate over the native rate.
fn efficiency(context: &Context<'_>, mechanism: &MechanismRow, pair: &Pair, row: &mut Row) {
    let Some(group) = context.cells.solo_group_of(&mechanism.variant, pair) else {
        return;
    };
    let solo = Key::alone(group, &mechanism.variant, pair, Condition::S);
    let Some(pairs) = context.cells.pair(&solo, &context.cells.native_of(&solo)) else {
        return;
    };
    let (have, need) = (pairs.measured.len(), BLOCKS_MIN as usize);
    if have < need {
        let why = pairs.left_out.values().next();
        let why = why.map_or("", |one| one.why.as_str());
        row.warn(format!(
            "efficiency rests on {}, {need} are needed ({why})",
            counted(have, "block")
        ));
        return;
    }
    row.matrix.requests = pairs.requests();
    row.matrix.efficiency = row.take("efficiency", Logs::of_rates(&pairs).ratio());
}

#[cfg(test)]
mod tests {
    use super::at_least;

    /// Sums of `comb(n, i) * 0.05**i * 0.95**(n - i)` from k on.
    #[test]
    fn tails_equal_the_sums_of_the_binomial() {
        for (k, n, want) in [
            (0, 7, 1.0),
            (1, 7, 0.301_662_703_906_249_9),
            (2, 28, 0.411_691_389_105_229_05),
            (5, 28, 0.011_708_399_183_360_255),
            (6, 28, 0.002_268_701_383_355_467_7),
        ] {
            let found = at_least(k, n, 0.05);
            assert!((found - want).abs() < 1e-12, "{k} of {n}: {found}, want {want}");
        }
    }
}
