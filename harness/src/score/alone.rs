//! Rows of a mechanism that lets one tenant in and turns every other away. Beside nobody there is
//! no retention, no tail and no level: its rows are waived with the refusal as the reason. What
//! can be measured is what the mechanism costs the tenant that is in: its efficiency.

use gpubench_record::{Axis, Condition, MechanismRow, Outcome};

use super::cells::{Key, Pair};
use super::figures::Logs;
use super::row::Row;
use super::{Asked, Context};

/// Why nothing is measured beside an aggressor.
const REASON: &str = "a second tenant is refused (46, CUDA_ERROR_DEVICE_UNAVAILABLE): there is no \
                      neighbour that could interfere";

/// Whether this mechanism lets nobody in beside the victim.
pub(super) fn admits_one_tenant(context: &Context<'_>, mechanism: &MechanismRow) -> bool {
    let mut planned = context.input.plan.mechanisms.iter();
    planned.any(|one| one.variant == mechanism.variant && one.properties.admits_one_tenant())
}

/// Its rows: one for each victim of the resource axes, then the other axes that were asked for.
pub(super) fn rows(context: &Context<'_>, mechanism: &MechanismRow, asked: &Asked) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    let mut seen: Vec<&Pair> = Vec::new();
    for pair in &asked.pairs {
        if !seen.iter().any(|one| one.has_victim_of(pair)) {
            seen.push(pair);
            rows.push(resource(context, mechanism, pair));
        }
    }
    let mut push = |axis| rows.push(waived(Row::of_mechanism(context, mechanism, axis, None)));
    if !context.input.probes.is_empty() {
        push(Axis::Memory);
    }
    if asked.jitter.is_some() {
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

/// Waived, unless something graver is known: that it failed, or that it was not seen in force.
fn waived(mut row: Row) -> Row {
    if row.matrix.outcome.is_measured() && !row.is_doubtful() {
        row.matrix.outcome = Outcome::waived(REASON);
    }
    row.finish()
}

/// The rate alone under the mechanism over the native one.
fn efficiency(context: &Context<'_>, mechanism: &MechanismRow, pair: &Pair, row: &mut Row) {
    let Some(group) = context.cells.solo_group_of(&mechanism.variant, pair) else {
        return;
    };
    let solo = Key {
        group: group.to_owned(),
        variant: mechanism.variant.clone(),
        pair: Pair {
            aggressor: None,
            ..pair.clone()
        },
        condition: Condition::S,
    };
    let Some(pairs) = context.cells.pair(&solo, &solo.native()) else {
        return;
    };
    let (have, need) = (pairs.measured.len(), context.blocks_min as usize);
    if have < need {
        let why = pairs.left_out.values().next().cloned().unwrap_or_default();
        row.warn(format!(
            "efficiency rests on {have} blocks, {need} are needed ({why})"
        ));
        return;
    }
    row.matrix.requests = pairs.requests();
    row.matrix.efficiency = row.take("efficiency", Logs::of_rates(&pairs).ratio());
}
