//! Latencies of the open loop: beside busy neighbours over solo, or on their own.

use gpubench_record::{Claim, Condition, Dose, Quantity, RunRecord, SubAxis};

use super::found::Found;
use crate::figures::latency::{Latency, Quantile, estimate};
use crate::figures::{Cells, Key, Reading};

/// The latency of each pair that the claim selects.
pub(super) fn latency(
    claim: &Claim,
    quantity: Quantity,
    run: &RunRecord,
    variant: &str,
) -> Vec<Found> {
    let tenants = claim.select.tenants.unwrap_or(run.plan.tenants);
    let wanted = |key: &Key| key.dose.is_none() && key.fewer.unwrap_or(run.plan.tenants) == tenants;
    let latency = match quantity {
        Quantity::P99 => Latency::P99,
        Quantity::MedianLatency => Latency::OverSolo(Quantile::Median),
        _ => Latency::OverSolo(Quantile::P99),
    };
    let name = |pair: &str, aggressor: &str| format!("{pair} beside {} {aggressor}", tenants - 1);
    found(claim, latency, run, variant, wanted, name)
}

/// The growth of the tail over the growth of the median at the smallest dose below 1, block by
/// block: above 1 where the tail moves first.
pub(super) fn early_tail(claim: &Claim, run: &RunRecord, variant: &str) -> Vec<Found> {
    let own = run.cells.iter().filter(|one| one.cell.variant == variant);
    let contended = own.filter(|one| one.cell.condition == Condition::C);
    let measured = contended.filter(|one| one.outcome.is_measured());
    let Some(smallest) = measured.filter_map(|one| Dose::below_1(one.cell.dose)).min() else {
        return Vec::new();
    };
    let wanted = |key: &Key| key.dose == Some(smallest) && key.fewer.is_none();
    let name =
        |pair: &str, aggressor: &str| format!("{pair} beside {aggressor} at dose {}", smallest.0);
    found(claim, Latency::TailOverMedian, run, variant, wanted, name)
}

/// The figure of each contended pair of a variant that is wanted and has one.
fn found(
    claim: &Claim,
    latency: Latency,
    run: &RunRecord,
    variant: &str,
    wanted: impl Fn(&Key) -> bool,
    name: impl Fn(&str, &str) -> String,
) -> Vec<Found> {
    // A record whose results are not those of its plan has no figures.
    let Ok(cells) = Cells::index(&run.plan, &run.cells, Reading::Printed) else {
        return Vec::new();
    };
    let keys = cells.of(Condition::C).filter(|key| key.variant == variant && wanted(key));
    let keys = keys.filter(|key| is_selected(claim, key.pair.sub_axis));
    let found = keys.filter_map(|key| {
        let aggressor = key.pair.aggressor.as_deref().unwrap_or_default();
        Some(Found {
            variant: variant.to_owned(),
            key: name(&key.pair.victim, aggressor),
            estimate: estimate(&cells, key, latency)?.map_err(|error| error.to_string()),
        })
    });
    found.collect()
}

fn is_selected(claim: &Claim, sub_axis: SubAxis) -> bool {
    // Jitter has no cells of its own.
    claim.select.sub_axis.is_none_or(|wanted| wanted == sub_axis)
}
