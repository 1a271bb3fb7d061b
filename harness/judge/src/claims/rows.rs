//! Figures of the rows of a record: matrix, probes, faults, numbers of tenants, operator's view.

use gpubench_record::fault::Harm;
use gpubench_record::{
    Claim, Condition, Estimate, FaultTally, MatrixRow, OperatorRow, Outcome, OutcomeKind,
    ProbeFound, Quantity, RunRecord, ServiceRow, SubAxis, VICTIM_DEPTH,
};
use gpubench_stats::{Confidence, Effect};

use super::figures::{Found, inverse, share};
use crate::figures::printed;
use crate::score::SM_FAULT;

/// Class of the faults that check the instrument.
const CONTROL: &str = "control";

pub(super) fn matrix(
    claim: &Claim,
    run: &RunRecord,
    variant: &str,
    pick: fn(&MatrixRow) -> &Option<Estimate>,
) -> Vec<Found> {
    let tenants = run.plan.tenants;
    let depth = claim.select.depth.is_none_or(|depth| depth == VICTIM_DEPTH);
    if claim.select.tenants.is_some_and(|wanted| wanted != tenants) || !depth {
        return Vec::new();
    }
    let select = &claim.select;
    let rows = run.matrix.iter().filter(|row| row.variant == variant);
    let rows = rows.filter(|row| select.is_beside(row.aggressor.as_deref()));
    let of_axis = |axis: &'static str| rows.clone().filter(move |row| row.axis == axis);
    if select.sub_axes.is_empty() {
        let rows = of_axis(claim.axis.as_str());
        return rows.filter_map(|row| found(row, pick(row))).collect();
    }
    let each = select.sub_axes.iter().map(|wanted| {
        // The class of a fault can have the name of a sub-axis of another axis.
        let rows = of_axis(wanted.axis().as_str());
        let rows = rows.filter(|row| row.sub_axis.as_deref() == Some(wanted.as_str()));
        (*wanted, rows.filter_map(|row| found(row, pick(row))).collect::<Vec<_>>())
    });
    let mut all: Vec<(SubAxis, Vec<Found>)> = each.collect();
    if all.iter().any(|(_, rows)| !rows.is_empty()) {
        // A claim about several resources is open where one of them was not measured.
        for (sub_axis, rows) in all.iter_mut().filter(|(_, rows)| rows.is_empty()) {
            let missing = Err("the record has no such row".to_owned());
            let variant = variant.to_owned();
            rows.push(Found { variant, key: sub_axis.as_str().to_owned(), estimate: missing });
        }
    }
    all.into_iter().flat_map(|(_, rows)| rows).collect()
}

pub(super) fn of_sub_axis(
    run: &RunRecord,
    variant: &str,
    sub_axis: &str,
    pick: fn(&MatrixRow) -> &Option<Estimate>,
) -> Vec<Found> {
    let rows = run.matrix.iter().filter(|row| row.variant == variant);
    rows.filter(|row| row.sub_axis.as_deref() == Some(sub_axis))
        .filter_map(|row| found(row, pick(row)))
        .collect()
}

/// The figure of a row. A row with a level has trusted figures, also where they leave two levels
/// open; another inconclusive row has doubts.
fn found(row: &MatrixRow, figure: &Option<Estimate>) -> Option<Found> {
    let trusted = match row.outcome.outcome {
        OutcomeKind::Measured => true,
        OutcomeKind::Inconclusive => row.level.is_some(),
        OutcomeKind::Waived | OutcomeKind::Failed => return None,
    };
    let key = [
        Some(row.sub_axis.as_ref().unwrap_or(&row.axis).clone()),
        row.victim.clone(),
        row.aggressor.as_ref().map(|name| format!("beside {name}")),
    ];
    let key: Vec<String> = key.into_iter().flatten().collect();
    let estimate = match figure {
        Some(figure) if trusted => Ok(figure.clone()),
        Some(_) => Err(because(&row.outcome)),
        // A jitter without a bound, an index without a reference: the row says why.
        None if trusted => {
            let why = row.warnings.first().map_or("", String::as_str);
            Err(format!("the row has no such figure: {why}"))
        }
        None => Err(because(&row.outcome)),
    };
    Some(Found { variant: row.variant.clone(), key: key.join(" "), estimate })
}

fn because(outcome: &Outcome) -> String {
    let kind = outcome.outcome.as_str();
    let reason = outcome.reason.as_deref().unwrap_or("no reason given");
    format!("{kind}: {reason}")
}

/// The figures of probes with such a name.
pub(super) fn probe(run: &RunRecord, variant: &str, is: fn(&str) -> bool) -> Vec<Found> {
    let figures = run.probe_figures.iter();
    figures
        .filter(|one| one.variant == variant && is(&one.figure))
        .map(|one| Found::new(variant, &one.figure, one.estimate.clone()))
        .collect()
}

/// The mean number of time slices in which one kernel of a trace ran.
pub(super) fn slices_per_kernel(run: &RunRecord, variant: &str) -> Vec<Found> {
    let own = run.probes.iter().filter(|probe| probe.variant == variant);
    own.filter_map(|probe| match &probe.found {
        ProbeFound::TimeSliceTrace { traces, .. } => {
            let kernels = traces.iter().flat_map(|one| [&one.victim_ns, &one.neighbour_ns]);
            let slices: Vec<f64> = kernels.map(|spans| spans.len() as f64).collect();
            let mean = Effect::of_mean(&slices).ok()?;
            let mean = mean.interval(Confidence::P95).ok()?;
            let figure = printed(mean, "slices");
            Some(Found::new(variant, "kernels of the time-slice trace", figure))
        }
        _ => None,
    })
    .collect()
}

/// The share of the tried routes past a limit of this axis that got past it.
pub(super) fn escapes(run: &RunRecord, variant: &str, axis: &str) -> Vec<Found> {
    let verdicts: Vec<&str> = run
        .probe_figures
        .iter()
        .filter(|one| one.variant == variant)
        .filter(|one| one.explains.as_deref().is_some_and(|of| of.starts_with(axis)))
        .filter_map(|one| one.verdict.as_deref())
        .collect();
    let escaped = verdicts.iter().filter(|verdict| **verdict == "escaped");
    let (escaped, tried) = (escaped.count() as u64, verdicts.len() as u64);
    let figure = share(escaped, tried, "of the tried routes");
    let key = format!("{axis} escapes, {escaped} of {tried}");
    figure.map(|figure| Found::new(variant, key, figure)).into_iter().collect()
}

/// The share of victims with this outcome, of each selected fault.
pub(super) fn faults(
    claim: &Claim,
    quantity: Quantity,
    run: &RunRecord,
    variant: &str,
) -> Vec<Found> {
    let counts = |harm: &Harm| match quantity {
        Quantity::DeadVictims => *harm == Harm::Dead,
        Quantity::DelayedVictims => matches!(harm, Harm::Slowed | Harm::Stalled),
        _ => *harm != Harm::Unharmed,
    };
    let wanted = &claim.select.faults;
    let is_wanted = |tally: &&FaultTally| {
        let named = wanted.contains(&tally.fault) || wanted.contains(&tally.class);
        tally.variant == variant && tally.class != CONTROL && (wanted.is_empty() || named)
    };
    let tallies = run.fault_tallies.iter().filter(is_wanted);
    tallies
        .filter_map(|tally| {
            let victims: u64 = tally.victims.values().map(|&n| u64::from(n)).sum();
            let hit = tally.victims.iter().filter(|(harm, _)| counts(harm));
            let hit: u64 = hit.map(|(_, &n)| u64::from(n)).sum();
            let estimate = match &tally.doubt {
                Some(doubt) => Err(doubt.clone()),
                None if victims == 0 => return None,
                None => share(hit, victims, "of the victims"),
            };
            Some(Found { variant: variant.to_owned(), key: tally.fault.clone(), estimate })
        })
        .collect()
}

/// Time until a service has a new client after faults of an SM.
pub(super) fn recovery(run: &RunRecord, variant: &str) -> Vec<Found> {
    let rows = run.transients.iter();
    let rows = rows.filter(|row| row.variant == variant && row.event == SM_FAULT);
    rows.map(|row| Found {
        variant: variant.to_owned(),
        key: row.event.clone(),
        estimate: match &row.back {
            Some(back) if row.outcome.is_measured() => Ok(back.clone()),
            _ => Err(because(&row.outcome)),
        },
    })
    .collect()
}

/// Time for the same work beside so many tenants over the time solo.
pub(super) fn slowdown(claim: &Claim, run: &RunRecord, variant: &str) -> Vec<Found> {
    let tenants = claim.select.tenants.unwrap_or(run.plan.tenants);
    let is_wanted = |row: &&ServiceRow| {
        row.variant == variant
            && row.condition == Condition::C
            && row.tenants == tenants
            && is_of_depth(claim, row)
            && is_selected(claim, row.sub_axis, row.aggressor.as_deref())
    };
    let rows = run.service.iter().filter(is_wanted);
    let of_service = rows.filter_map(|row| {
        let estimate = match &row.retention {
            _ if !row.outcome.is_measured() => Err(because(&row.outcome)),
            Some(retention) => inverse(retention.clone()),
            None => return None,
        };
        let aggressor = row.aggressor.as_deref().unwrap_or_default();
        Some(Found {
            variant: variant.to_owned(),
            key: format!("{} beside {} {aggressor}", row.victim, tenants - 1),
            estimate,
        })
    });
    let found: Vec<Found> = of_service.collect();
    if !found.is_empty() || tenants != run.plan.tenants {
        return found;
    }
    let rows = matrix(claim, run, variant, |row| &row.retention);
    rows.into_iter().map(|one| one.map(inverse)).collect()
}

/// Whether a row has the depth of queues that the claim is about; without one, the usual.
fn is_of_depth(claim: &Claim, row: &ServiceRow) -> bool {
    let [own, _] = row.shape.depths();
    row.shape.load_pct.is_none()
        && row.shape.neighbour_depth.is_none()
        && own == claim.select.depth.unwrap_or(VICTIM_DEPTH)
}

fn is_selected(claim: &Claim, sub_axis: SubAxis, aggressor: Option<&str>) -> bool {
    let wanted = &claim.select.sub_axes;
    let is_of = wanted.is_empty() && sub_axis.axis() == claim.axis || wanted.contains(&sub_axis);
    is_of && claim.select.is_beside(aggressor)
}

/// The largest number of tenants that keeps the promised latency.
pub(super) fn tenant_limit(claim: &Claim, run: &RunRecord, variant: &str) -> Vec<Found> {
    let rows = run.tenant_limits.iter();
    rows.filter(|row| row.variant == variant)
        .filter(|row| is_selected(claim, row.sub_axis, Some(&row.aggressor)))
        .filter_map(|row| {
            let estimate = match &row.tenants {
                Some(tenants) => Ok(tenants.clone()),
                None if row.outcome.is_measured() => return None,
                None => Err(because(&row.outcome)),
            };
            Some(Found {
                variant: variant.to_owned(),
                key: format!("{} beside {}", row.victim, row.aggressor),
                estimate,
            })
        })
        .collect()
}

/// A figure of the operator's view.
pub(super) fn operator(
    claim: &Claim,
    run: &RunRecord,
    variant: &str,
    pick: fn(&OperatorRow) -> &Estimate,
) -> Vec<Found> {
    let tenants = claim.select.tenants.unwrap_or(run.plan.tenants);
    let rows = run.operator.iter();
    rows.filter(|row| row.variant == variant && row.tenants == tenants)
        .filter(|row| is_selected(claim, row.sub_axis, Some(&row.aggressor)))
        .map(|row| {
            let key = format!("{} beside {}", row.victim, row.aggressor);
            Found::new(variant, key, pick(row).clone())
        })
        .collect()
}
