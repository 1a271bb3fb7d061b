//! The service of a victim natively, solo, and beside smaller numbers of tenants: the share of its
//! open-loop requests that kept the promised latency, and its retention.
//!
//! Only where the profile promises a latency (`slo`), or requests several numbers of tenants
//! (`sweep`), depths or loads. No level follows from these rows.

use gpubench_record::{
    AtLoad, BLOCKS_MIN, CellResult, Condition, Ends, Estimate, Gate, GateState, Outcome,
    ServiceRow, Shape, SubAxis, counted,
};
use gpubench_stats::Confidence;
use gpubench_stats::effect::Effect;
use gpubench_stats::proportion::{TRIALS_MAX, clopper_pearson};

use super::Context;
use crate::figures::latency::{Latency, Quantile, estimate};
use crate::figures::{Key, Logs, Planned, printed, rates};
use crate::gate::{OFFERED_REQUESTS, WITHIN_SLO_REQUESTS, open_loop_doubt};

const UNIT: &str = "ratio";

/// The subject of one row. Rows are in the order of these fields.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Subject<'a> {
    /// Position of the mechanism in the plan; the reference is first.
    position: usize,
    variant: &'a str,
    mechanism: &'a str,
    sub_axis: SubAxis,
    victim: &'a str,
    condition: Condition,
    aggressor: Option<&'a str>,
    tenants: usize,
    shape: Shape,
}

/// One block of a row: its result if it counts, else why it does not.
struct Block<'a> {
    number: u32,
    result: Option<&'a CellResult>,
    doubt: Option<String>,
}

/// The rows, in report order; none where the profile has neither promise nor sweep.
pub(super) fn rows(context: &Context<'_>) -> Vec<ServiceRow> {
    let plan = context.input.plan;
    let are_usual = plan.cells.iter().all(|cell| cell.shape.is_usual());
    if plan.slo_ns.is_none() && plan.sweep.is_empty() && are_usual {
        return Vec::new();
    }
    let victims = context.cells.keys().filter(|key| context.cells.has_victim(key));
    let subjects = victims.filter_map(|key| Some((subject(context, key)?, key)));
    let mut subjects: Vec<(Subject<'_>, &Key)> = subjects.collect();
    subjects.sort();
    // The native cells of all groups make one row.
    let groups = subjects.chunk_by(|(one, _), (other, _)| one == other);
    groups
        .map(|group| {
            let keys: Vec<&Key> = group.iter().map(|(_, key)| *key).collect();
            row(context, &group[0].0, &keys)
        })
        .collect()
}

/// The row of these cells; `None` for repetitions, unprotected forms and partial doses.
fn subject<'a>(context: &'a Context<'_>, key: &'a Key) -> Option<Subject<'a>> {
    let plan = context.input.plan;
    let cell = context.cells.blocks(key)?.values().next()?.cell;
    let busy = match key.condition {
        Condition::N | Condition::S => 1,
        Condition::C if key.dose.is_none() => cell.tenants.len(),
        _ => return None,
    };
    let mut planned = plan.mechanisms.iter();
    let position = planned.position(|one| one.variant == cell.variant);
    Some(Subject {
        position: match position {
            _ if cell.variant == plan.reference => 0,
            Some(position) => position + 1,
            None => usize::MAX,
        },
        variant: &cell.variant,
        mechanism: &cell.mechanism,
        sub_axis: key.pair.sub_axis,
        victim: &cell.victim,
        condition: cell.condition,
        aggressor: cell.aggressor.as_deref(),
        tenants: busy,
        shape: key.shape,
    })
}

/// The blocks of these cells. The promise is about open-loop requests.
fn blocks<'a>(context: &Context<'a>, key: &Key) -> Vec<Block<'a>> {
    let promises = context.input.plan.slo_ns;
    let planned = context.cells.blocks(key).into_iter().flatten();
    let block = |(&number, planned): (&u32, &Planned<'a>)| {
        let result = planned.result;
        let late = promises.and(result).and_then(open_loop_doubt);
        Block {
            number,
            result: planned.measured().filter(|_| late.is_none()),
            doubt: result.and_then(|result| result.outcome.reason.clone()).or(late),
        }
    };
    planned.map(block).collect()
}

fn row(context: &Context<'_>, key: &Subject<'_>, cells: &[&Key]) -> ServiceRow {
    let blocks: Vec<Block<'_>> = cells.iter().flat_map(|key| blocks(context, key)).collect();
    let measured: Vec<&CellResult> = blocks.iter().filter_map(|block| block.result).collect();
    let count = |result: &CellResult, name: &str| result.requests.get(name).copied();
    let kept: Vec<(u64, u64)> = measured
        .iter()
        .filter_map(|result| {
            let offered = count(result, OFFERED_REQUESTS).filter(|&offered| offered > 0)?;
            Some((count(result, WITHIN_SLO_REQUESTS)?, offered))
        })
        .collect();
    let mut mechanisms = context.input.mechanisms.iter();
    let mechanism = mechanisms.find(|row| row.variant == key.variant);
    let (have, need) = (measured.len(), BLOCKS_MIN as usize);
    let overloaded = measured.iter().filter(|one| is_overloaded(one)).count();
    let outcome = match mechanism {
        Some(mechanism) if !mechanism.outcome.is_measured() => mechanism.outcome.clone(),
        _ if have < need => {
            let why = blocks.iter().find_map(|block| block.doubt.as_ref());
            let why = why.map_or_else(String::new, |why| format!(" ({why})"));
            Outcome::inconclusive(format!(
                "rests on {}, {need} are needed{why}",
                counted(have, "block")
            ))
        }
        // Those that kept up are the lucky ones: their latencies are too good.
        _ if overloaded > 0 && overloaded < have && key.shape.load_pct.is_some() => {
            let of = counted(have, "block");
            Outcome::inconclusive(format!("overloaded in {overloaded} of {of}: no latencies"))
        }
        _ => Outcome::measured(),
    };
    ServiceRow {
        mechanism: key.mechanism.to_owned(),
        variant: key.variant.to_owned(),
        sub_axis: key.sub_axis,
        victim: key.victim.to_owned(),
        condition: key.condition,
        aggressor: key.aggressor.map(str::to_owned),
        tenants: u32::try_from(key.tenants).unwrap_or(u32::MAX),
        outcome,
        retention: (key.condition == Condition::C)
            .then(|| retention(context, cells, &blocks))
            .flatten(),
        within_slo: share_within_slo(&kept),
        requests: kept.iter().map(|(_, offered)| offered).sum(),
        shape: key.shape,
        at_load: key.shape.load_pct.and_then(|_| at_load(context, cells.first()?, &blocks)),
    }
}

/// An M/M/1 queue forgets its state in `1 / (1 - sqrt(load))^2` service times. An open loop of
/// fewer such times seldom sees the queue's long excursions, and its p99 is too low: at 90 % of
/// capacity, by 20 % after ten of them.
const RELAXATIONS_MIN: f64 = 50.0;

fn is_overloaded(result: &CellResult) -> bool {
    result.gate_state(&Gate::Overload) == Some(GateState::NotEvaluated)
}

/// The open loops of these cells: latencies where every block kept up, and the growth of the
/// backlog where none did.
fn at_load(context: &Context<'_>, key: &Key, blocks: &[Block<'_>]) -> Option<AtLoad> {
    let measured: Vec<&CellResult> = blocks.iter().filter_map(|block| block.result).collect();
    let overloaded = measured.iter().filter(|one| is_overloaded(one)).count();
    let mean = |unit: &str, of: &dyn Fn(&CellResult) -> Option<f64>| -> Option<Estimate> {
        let values: Vec<f64> = measured.iter().filter_map(|one| of(one)).collect();
        let found = Effect::of_mean(&values).ok()?.interval(Confidence::P95).ok()?;
        Some(printed(found, unit))
    };
    let quantile = |of: Quantile| {
        let kept_up = overloaded == 0 && !measured.is_empty();
        kept_up.then(|| estimate(&context.cells, key, Latency::Of(of))?.ok()).flatten()
    };
    let solo = Key { shape: Shape::default(), ..key.with(Condition::S) };
    let solo = context.cells.blocks(&solo);
    let of_solo = |one: &CellResult| {
        let solo = rates::closed_rate(solo?.get(&one.cell.block)?.measured()?)?;
        Some(rates::offered_rate(one)? / solo)
    };
    let all = overloaded > 0 && overloaded == measured.len();
    let open_s = context.input.plan.durations.open_ns as f64 / 1e9;
    let relaxations = mean("", &|one| {
        let capacity_per_s = rates::closed_rate(one)?;
        let load = (rates::offered_rate(one)? / capacity_per_s).min(1.0);
        Some(open_s * capacity_per_s * (1.0 - load.sqrt()).powi(2))
    });
    let is_short = relaxations.is_none_or(|one| one.value < RELAXATIONS_MIN);
    let at_least = |one| Estimate { hi: f64::INFINITY, ends: Ends::AtLeast, parts: None, ..one };
    let p99 = quantile(Quantile::P99).map(|one| if is_short { at_least(one) } else { one });
    Some(AtLoad {
        of_solo: mean("of the solo rate", &of_solo),
        completed: mean("per s", &rates::completed_rate),
        p50: quantile(Quantile::Median),
        p99,
        growth: all.then(|| mean("requests per s", &rates::growth)).flatten(),
    })
}

/// The closed-loop rate over the solo rate of the same block, in the blocks that count.
fn retention(context: &Context<'_>, cells: &[&Key], blocks: &[Block<'_>]) -> Option<Estimate> {
    let contended = cells.first()?;
    let mut pairs = context.cells.pair(contended, &contended.with(Condition::S))?;
    let counts = |number: &u32| {
        let mut blocks = blocks.iter();
        blocks.any(|block| block.number == *number && block.result.is_some())
    };
    pairs.measured.retain(|(number, ..)| counts(number));
    Logs::of_rates(&pairs).ratio().ok()
}

/// The mean over blocks of the share of requests within the promised latency. Its interval is the
/// union of two: a t interval over blocks, which has no width where every block kept all, and
/// Clopper and Pearson's over all requests, which assumes independent requests and is too narrow
/// where they queue.
fn share_within_slo(blocks: &[(u64, u64)]) -> Option<Estimate> {
    let shares: Vec<f64> =
        blocks.iter().map(|&(kept, offered)| kept as f64 / offered as f64).collect();
    let spread = Effect::of_mean(&shares).ok()?.interval(Confidence::P95).ok()?;
    let (kept, offered) = blocks.iter().fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1));
    let (kept, offered) = (u32::try_from(kept).ok()?, u32::try_from(offered).ok()?);
    // With more requests the interval of the counts is far narrower than that of the blocks.
    let pooled = (offered <= TRIALS_MAX)
        .then(|| clopper_pearson(kept, offered, Confidence::P95).ok())
        .flatten();
    let (lo, hi) = pooled.map_or((spread.lo, spread.hi), |pooled| {
        (spread.lo.min(pooled.lo), spread.hi.max(pooled.hi))
    });
    Some(Estimate {
        value: spread.value,
        lo: lo.max(0.0),
        hi: hi.min(1.0),
        ends: Ends::Interval,
        parts: None,
        n: spread.n,
        unit: UNIT.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::share_within_slo as within;

    #[test]
    fn equal_blocks_have_the_interval_of_their_requests() {
        let found = within(&[(100, 100); 8]).expect("a share");
        assert_eq!((found.value, found.hi, found.n), (1.0, 1.0, 8));
        // 1 - (0.025)^(1/800), by Clopper and Pearson.
        assert!((found.lo - 0.995_399).abs() < 1e-5, "{found:?}");
    }

    #[test]
    fn different_blocks_widen_the_interval() {
        let blocks = [(100, 100), (100, 100), (60, 100), (20, 100)];
        let found = within(&blocks).expect("a share");
        assert!((found.value - 0.7).abs() < 1e-12);
        // Mean 0.7, deviation 0.3830, t of 3 degrees 3.1824: 0.7 +/- 0.6094, cut at 1.
        assert!((found.lo - 0.0906).abs() < 1e-3, "{found:?}");
        assert_eq!(found.hi, 1.0);
        assert_eq!(within(&blocks[..1]), None, "one block has no spread");
        assert_eq!(within(&[]), None);
    }
}
