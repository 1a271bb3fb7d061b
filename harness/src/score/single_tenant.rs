//! Rows of a mechanism that admits one tenant and refuses every other. Without a neighbour there is
//! no retention, no jitter and no level, so its rows are waived, with the refusal as the reason.
//! They still have the efficiency: what the mechanism costs the admitted tenant.

use gpubench_record::{Axis, BLOCKS_MIN, Condition, MechanismRow, Outcome, counted};

use super::row::Row;
use super::{Context, Requested};
use crate::figures::Logs;
use crate::figures::{Key, Pair};

/// Why no cell has an aggressor.
const REASON: &str = "a second tenant is refused (46, CUDA_ERROR_DEVICE_UNAVAILABLE): there is no \
                      neighbour that could interfere";

/// Whether this mechanism admits one tenant.
pub(super) fn applies_to(context: &Context<'_>, mechanism: &MechanismRow) -> bool {
    let mut planned = context.input.plan.mechanisms.iter();
    planned.any(|one| one.variant == mechanism.variant && one.properties.admits_one_tenant())
}

/// Its rows: one for each victim of the resource axes, then the other axes of the plan.
pub(super) fn rows(
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
    if requested.jitter.is_some() {
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
