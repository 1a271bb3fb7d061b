//! Energy for a request, and what counters say that tenants used, beside the work that they got
//! done. Blocks are the units. No level follows from these rows.
//!
//! Only cells whose tenants do the same work: requests of different work have no common unit.

use std::collections::BTreeMap;

use gpubench_record::{
    AttributionRow, CellResult, Condition, Counter, EnergyRow, Estimate, MeterReading, TenantShare,
};
use gpubench_stats::Confidence;
use gpubench_stats::effect::Effect;

use super::Context;
use crate::figures::printed;
use crate::figures::rates::{self, Progress};

/// The longest time by which the counter of energy may lag: sensors of power have been seen to
/// update every 20 to 100 ms (arXiv 2312.02741). Intervals are wider by it.
const UPDATE_NS: f64 = 100e6;
/// The variant that energy is compared with begins with this.
const TIME_SLICING: &str = "time-slicing[";

/// The subject of one row. Rows are in the order of these fields.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Subject<'a> {
    position: usize,
    variant: &'a str,
    mechanism: &'a str,
    victim: &'a str,
    condition: Condition,
    tenants: usize,
}

/// One block of a row.
struct Block<'a> {
    number: u32,
    cell: &'a CellResult,
    /// The work of each tenant over what it does alone, where it is known.
    progress: Option<Vec<f64>>,
}

/// The cells with readings whose tenants do the same work, by row and block.
fn blocks<'a>(context: &Context<'a>) -> BTreeMap<Subject<'a>, Vec<Block<'a>>> {
    let input = context.input;
    let position = |variant: &str| match variant == input.plan.reference {
        true => 0,
        false => {
            1 + input.plan.mechanisms.iter().position(|one| one.variant == variant).unwrap_or(999)
        }
    };
    let mut found: BTreeMap<Subject<'a>, Vec<Block<'a>>> = BTreeMap::new();
    for result in input.cells.iter().filter(|one| one.outcome.is_measured()) {
        let cell = &result.cell;
        let contends = cell.condition == Condition::C && cell.is_of_equals() && cell.dose >= 1.0;
        let alone = matches!(cell.condition, Condition::N | Condition::S);
        if result.meters.is_empty() || !cell.shape.is_usual() || !(contends || alone) {
            continue;
        }
        let is_native = |other: &&CellResult| {
            let one = &other.cell;
            (one.condition, one.block) == (Condition::N, cell.block)
                && (&one.victim, &one.group) == (&cell.victim, &cell.group)
                && other.outcome.is_measured()
        };
        let native = input.cells.iter().find(is_native);
        let progress = match native {
            Some(native) if contends => {
                Progress::of(input.plan, input.calibration, result, native).map(|one| one.each)
            }
            _ => None,
        };
        let subject = Subject {
            position: position(&cell.variant),
            variant: &cell.variant,
            mechanism: &cell.mechanism,
            victim: &cell.victim,
            condition: cell.condition,
            tenants: if contends { cell.tenants.len() } else { 1 },
        };
        found.entry(subject).or_default().push(Block {
            number: cell.block,
            cell: result,
            progress,
        });
    }
    found
}

fn mean(values: &[f64], unit: &str) -> Option<Estimate> {
    Some(printed(Effect::of_mean(values).ok()?.interval(Confidence::P95).ok()?, unit))
}

// Energy.

/// Watts in a window, and its length.
fn watts(cell: &CellResult, idle: bool) -> Option<(f64, f64)> {
    let is = |one: &&MeterReading| {
        matches!(one.counter, Counter::Energy | Counter::Power) && one.idle == idle
    };
    let reading = cell.meters.iter().find(is)?;
    let over_ns = reading.over_ns as f64;
    Some((reading.value? * 1e6 / over_ns, over_ns)).filter(|_| over_ns > 0.0)
}

/// Requests of all tenants per second.
fn requests_per_s(cell: &CellResult) -> Option<f64> {
    let others = cell.cell.tenants.iter().skip(1).filter(|_| cell.cell.condition == Condition::C);
    let others = others.map(|one| cell.figures.tenants.get(&one.tenant)?.rate_per_s);
    Some(rates::closed_rate(cell)? + others.sum::<Option<f64>>()?)
}

pub(super) fn energy(context: &Context<'_>) -> Vec<EnergyRow> {
    let blocks = blocks(context);
    let is_energy = |one: &MeterReading| matches!(one.counter, Counter::Energy | Counter::Power);
    let metered = |of: &[Block<'_>]| of.iter().any(|one| one.cell.meters.iter().any(is_energy));
    let metered = blocks.iter().filter(|(_, of)| metered(of));
    metered.map(|(subject, of)| energy_row(subject, of, &blocks)).collect()
}

fn energy_row(
    subject: &Subject<'_>,
    of: &[Block<'_>],
    all: &BTreeMap<Subject<'_>, Vec<Block<'_>>>,
) -> EnergyRow {
    let wider = |estimate: Option<Estimate>| {
        let over = of.iter().filter_map(|one| Some(watts(one.cell, false)?.1)).reduce(f64::min)?;
        estimate.map(|one| {
            let by = (UPDATE_NS / over) * one.value;
            Estimate { lo: one.lo - by, hi: one.hi + by, ..one }
        })
    };
    let joules = |one: &Block<'_>| Some(watts(one.cell, false)?.0 / requests_per_s(one.cell)?);
    let values = |of: &[Block<'_>], get: &dyn Fn(&Block<'_>) -> Option<f64>| -> Vec<f64> {
        of.iter().filter_map(get).collect()
    };
    // The contexts are those of the solo cell of the variant and block; the pause beside neighbours
    // at work is not idle.
    let solo = Subject { condition: Condition::S, tenants: 1, ..subject.clone() };
    let quiet = if subject.condition == Condition::C { all.get(&solo) } else { None };
    let idle = |one: &Block<'_>| {
        let cell = match quiet {
            Some(quiet) => quiet.iter().find(|solo| solo.number == one.number)?.cell,
            None => one.cell,
        };
        Some(watts(cell, true)?.0 / requests_per_s(one.cell)?)
    };
    let sliced = all.iter().find(|(other, _)| {
        other.variant.starts_with(TIME_SLICING)
            && (other.victim, other.condition, other.tenants)
                == (subject.victim, subject.condition, subject.tenants)
    });
    let over_sliced = |one: &Block<'_>| {
        let other = sliced?.1.iter().find(|other| other.number == one.number)?;
        Some((joules(one)? / joules(other)?).ln())
    };
    let ratio = mean(&values(of, &over_sliced), "ratio").map(|one| Estimate {
        value: one.value.exp(),
        lo: one.lo.exp(),
        hi: one.hi.exp(),
        ..one
    });
    let is_sliced = sliced.is_some_and(|(other, _)| other.variant == subject.variant);
    let reading = of
        .iter()
        .flat_map(|one| &one.cell.meters)
        .find(|one| matches!(one.counter, Counter::Energy | Counter::Power) && !one.idle);
    let part = |at: usize| {
        let watts_of = |one: &Block<'_>| {
            let progress = one.progress.as_ref()?;
            Some(watts(one.cell, false)?.0 * progress.get(at)? / progress.iter().sum::<f64>())
        };
        wider(mean(&values(of, &watts_of), "W"))
    };
    let tenants = of[0].cell.cell.tenants.iter().enumerate();
    EnergyRow {
        mechanism: subject.mechanism.to_owned(),
        variant: subject.variant.to_owned(),
        victim: subject.victim.to_owned(),
        condition: subject.condition,
        tenants: u32::try_from(subject.tenants).unwrap_or(u32::MAX),
        counter: reading.filter(|one| one.value.is_some()).map(|one| one.counter),
        reason: reading.and_then(|one| one.reason.clone()),
        joules: wider(mean(&values(of, &joules), "J per request")),
        idle_joules: mean(&values(of, &idle), "J per request"),
        watts: wider(mean(&values(of, &|one| Some(watts(one.cell, false)?.0)), "W")),
        of_time_slicing: ratio.filter(|_| !is_sliced),
        by_work: tenants
            .filter_map(|(at, one)| {
                Some(TenantShare { tenant: one.tenant.clone(), share: part(at)? })
            })
            .collect(),
    }
}

// Attribution.

pub(super) fn attribution(context: &Context<'_>) -> Vec<AttributionRow> {
    let mut rows = Vec::new();
    for (subject, of) in blocks(context) {
        if subject.condition != Condition::C {
            continue;
        }
        let meters = || of.iter().flat_map(|one| &one.cell.meters);
        let mut counters: Vec<Counter> = meters().map(|one| one.counter).collect();
        counters.retain(|one| !matches!(one, Counter::Energy | Counter::Power));
        counters.sort_unstable();
        counters.dedup();
        let tenants = &of[0].cell.cell.tenants;
        for counter in counters {
            for (at, tenant) in tenants.iter().enumerate() {
                rows.push(attribution_row(&subject, &of, counter, (at, &tenant.tenant)));
            }
        }
    }
    rows
}

/// The percentages of all tenants; those of a counter of the device are the same for each.
fn percents(block: &Block<'_>, counter: Counter) -> Option<Vec<f64>> {
    let readings = || block.cell.meters.iter().filter(|one| one.counter == counter && !one.idle);
    let device = readings().find(|one| one.tenant.is_none());
    let of = |tenant: &str| match device {
        Some(device) => device.value,
        None => readings().find(|one| one.tenant.as_deref() == Some(tenant))?.value,
    };
    block.cell.cell.tenants.iter().map(|one| of(&one.tenant)).collect()
}

fn attribution_row(
    subject: &Subject<'_>,
    of: &[Block<'_>],
    counter: Counter,
    (at, tenant): (usize, &str),
) -> AttributionRow {
    let share = |all: &[f64]| {
        let sum = all.iter().sum::<f64>();
        Some(all.get(at)? / sum).filter(|_| sum > 0.0)
    };
    let reported = |one: &Block<'_>| share(&percents(one, counter)?);
    let known = |one: &Block<'_>| share(one.progress.as_ref()?);
    let values = |get: &dyn Fn(&Block<'_>) -> Option<f64>, unit: &str| {
        mean(&of.iter().filter_map(get).collect::<Vec<_>>(), unit)
    };
    let reasons = of.iter().flat_map(|one| &one.cell.meters);
    let mut reasons = reasons.filter(|one| {
        one.counter == counter && one.tenant.as_deref().is_none_or(|name| name == tenant)
    });
    AttributionRow {
        mechanism: subject.mechanism.to_owned(),
        variant: subject.variant.to_owned(),
        victim: subject.victim.to_owned(),
        tenants: u32::try_from(subject.tenants).unwrap_or(u32::MAX),
        counter,
        tenant: tenant.to_owned(),
        reason: reasons.find_map(|one| one.reason.clone()),
        percent: values(&|one| percents(one, counter)?.get(at).copied(), "percent"),
        reported: values(&reported, "of the sum"),
        known: values(&known, "of the work"),
        error: values(&|one| Some(reported(one)? - known(one)?), "of the device"),
    }
}
