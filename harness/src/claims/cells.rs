//! Latencies of the open loop, block by block: beside busy neighbours over solo, or on their own.

use std::collections::BTreeMap;

use gpubench_record::{Cell, CellResult, Claim, Condition, Quantity, RunRecord, SubAxis};
use gpubench_stats::{Confidence, Effect, LogRatio, NoEstimate};

use super::found::{Found, printed};
use crate::gate::open_loop_doubt;

/// A pair of victim and aggressor.
type Pair<'a> = (SubAxis, &'a str, &'a str);

/// The latency of each pair that the claim selects.
pub(super) fn latency(
    claim: &Claim,
    quantity: Quantity,
    run: &RunRecord,
    variant: &str,
) -> Vec<Found> {
    let tenants = claim.select.tenants.unwrap_or(run.plan.tenants) as usize;
    let figure = |cell: &CellResult| match quantity {
        Quantity::MedianLatency => cell.figures.open_latency_p50_ns,
        _ => cell.figures.open_latency_p99_ns,
    };
    let trusted = || {
        let own = run.cells.iter().filter(|one| one.cell.variant == variant);
        own.filter(|one| one.outcome.is_measured() && open_loop_doubt(one).is_none())
    };
    let solo: BTreeMap<_, f64> = trusted()
        .filter(|one| one.cell.condition == Condition::S)
        .filter_map(|one| Some((same_victim(&one.cell), figure(one)?)))
        .collect();
    let mut blocks: BTreeMap<Pair<'_>, Vec<f64>> = BTreeMap::new();
    for one in trusted() {
        let cell = &one.cell;
        let contended = cell.condition == Condition::C && cell.dose >= 1.0;
        if !contended || cell.tenants.len() != tenants || !is_selected(claim, cell.sub_axis) {
            continue;
        }
        let unit = match quantity {
            Quantity::P99 => Some(1.0),
            _ => solo.get(&same_victim(cell)).copied(),
        };
        let aggressor = cell.aggressor.as_deref().unwrap_or_default();
        let values = blocks.entry((cell.sub_axis, &cell.victim, aggressor));
        let value = figure(one).zip(unit).map(|(figure, unit)| figure / unit);
        values.or_default().extend(value);
    }
    let found = blocks.into_iter().filter(|(_, values)| !values.is_empty());
    found
        .map(|((_, victim, aggressor), values)| Found {
            variant: variant.to_owned(),
            key: format!("{victim} beside {} {aggressor}", tenants - 1),
            estimate: interval(quantity, &values).map_err(|error| error.to_string()),
        })
        .collect()
}

/// The growth of the tail over the growth of the median at the smallest dose below 1, block by
/// block: above 1 where the tail moves first.
pub(super) fn early_tail(claim: &Claim, run: &RunRecord, variant: &str) -> Vec<Found> {
    let trusted = || {
        let own = run.cells.iter().filter(|one| one.cell.variant == variant);
        own.filter(|one| one.outcome.is_measured() && open_loop_doubt(one).is_none())
    };
    let spread = |one: &CellResult| {
        Some(one.figures.open_latency_p99_ns? / one.figures.open_latency_p50_ns?)
    };
    let partial =
        || trusted().filter(|one| one.cell.condition == Condition::C && one.cell.dose < 1.0);
    let Some(smallest) = partial().map(|one| one.cell.dose).min_by(f64::total_cmp) else {
        return Vec::new();
    };
    let solo: BTreeMap<_, f64> = trusted()
        .filter(|one| one.cell.condition == Condition::S)
        .filter_map(|one| Some((same_victim(&one.cell), spread(one)?)))
        .collect();
    let mut blocks: BTreeMap<Pair<'_>, Vec<f64>> = BTreeMap::new();
    let of_dose = partial().filter(|one| one.cell.dose <= smallest);
    for one in of_dose.filter(|one| is_selected(claim, one.cell.sub_axis)) {
        let cell = &one.cell;
        let aggressor = cell.aggressor.as_deref().unwrap_or_default();
        let value = spread(one).zip(solo.get(&same_victim(cell)));
        let values = blocks.entry((cell.sub_axis, &cell.victim, aggressor));
        values.or_default().extend(value.map(|(beside, solo)| beside / solo));
    }
    let found = blocks.into_iter().filter(|(_, values)| !values.is_empty());
    found
        .map(|((_, victim, aggressor), values)| Found {
            variant: variant.to_owned(),
            key: format!("{victim} beside {aggressor} at dose {smallest}"),
            estimate: interval(Quantity::EarlyTail, &values).map_err(|error| error.to_string()),
        })
        .collect()
}

/// What the solo cell of a cell has in common with it.
fn same_victim(cell: &Cell) -> (&str, u32, SubAxis, &str) {
    (&cell.group, cell.block, cell.sub_axis, &cell.victim)
}

fn is_selected(claim: &Claim, sub_axis: SubAxis) -> bool {
    // Jitter has no cells of its own.
    claim.select.sub_axis.is_none_or(|wanted| wanted == sub_axis)
}

fn interval(quantity: Quantity, values: &[f64]) -> Result<gpubench_record::Estimate, NoEstimate> {
    if quantity == Quantity::P99 {
        let mean = Effect::of_mean(values)?.interval(Confidence::P95)?;
        return Ok(printed(mean, "ns"));
    }
    let logs = values.iter().map(|value| value.ln()).collect();
    let ratio = LogRatio::from_logs(logs)?.interval(Confidence::P95)?;
    Ok(printed(ratio, "ratio"))
}
