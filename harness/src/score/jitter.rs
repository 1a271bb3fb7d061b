//! Rows of the jitter axis: how much longer the latency tail is beside an aggressor than natively.
//!
//! `J = [(q99 - q50)_C - (q99 - q50)_N] / q50_N`. Subtrahend and denominator are native: with solo
//! values there, a mechanism that is slow without a neighbour would have less jitter. Each block
//! gives one value; the interval is a t interval over blocks.

mod tails;

use gpubench_record::{
    Axis, BLOCKS_MIN, CellFigures, CellResult, Condition, Estimate, Gate, GateState, LostKind,
    MechanismRow,
};
use gpubench_stats::effect::Effect;
use gpubench_stats::{Confidence, NoEstimate};

use super::cells::{Key, LeftOut, Pair, Pairs, Reading};
use super::figures::{Scale, blocks_needed, in_words, printed, reaching, two_modes};
use super::level::{Level, LevelRange, of_jitter};
use super::row::Row;
use super::{Context, reference, word};
use crate::gate::{OPEN_REQUESTS, open_loop_doubt};

use tails::{Ends, Tails, with_systematic};

const UNIT: &str = "native medians";

/// Smallest distance of two modes, in native medians: half of the bound of `Negligible`.
const MODES_MIN: f64 = 0.05;

/// The word where the timers of the host are coarser than the bound of `Negligible`.
const BELOW_FLOOR: &str = "below measurement floor";

/// The row of one variant, from the open loops of this pair.
pub(super) fn row(context: &Context<'_>, mechanism: &MechanismRow, pair: &Pair) -> Row {
    let mut row = Row::of_mechanism(context, mechanism, Axis::Jitter, None);
    if !row.matrix.outcome.is_measured() {
        return row;
    }
    let Some(contended) = context.cells.contended(&mechanism.variant, pair) else {
        row.doubt("no contended cell was planned");
        return row.finish();
    };
    let native = context.cells.native_of(contended);
    let Some(mut pairs) = context.cells.pair(contended, &native) else {
        row.doubt("no native cell was planned, and the unit of jitter is the native median");
        return row.finish();
    };
    row.matrix.aggressor = pairs.measured.iter().find_map(|(_, top, _)| top.cell.aggressor.clone());
    if context.input.plan.user_victim.is_some() && pairs.measured.iter().any(without_schedule) {
        row.warn("the victim follows no schedule: these are service times of a closed loop");
    }
    if context.reading == Reading::Printed {
        pairs.only_punctual();
    }
    only_beside_the_aggressor(context, contended, &mut pairs);
    row.decide_by("jitter", &pairs);
    reference::drift(context, &native, &mut row);
    if overload(&pairs, &mut row) == Overload::None {
        from_tails(context, contended, &pairs, &mut row);
    }
    row.finish()
}

/// Whether the victim of a contended cell followed no arrival schedule.
fn without_schedule((_, top, _): &(u32, &CellResult, &CellResult)) -> bool {
    let victim = top.tenant_results.first();
    victim.is_some_and(|victim| victim.schedule_hash.is_none())
}

#[derive(Debug, PartialEq, Eq)]
enum Overload {
    None,
    Some,
}

/// Judges overload beside the aggressor. A victim that keeps up in N and S but not in C has the
/// lowest level. It has no percentiles, because they grow with the length of the run.
fn overload(pairs: &Pairs<'_>, row: &mut Row) -> Overload {
    let overloaded: Vec<&CellResult> =
        pairs.measured.iter().map(|(_, top, _)| *top).filter(|cell| is_overloaded(cell)).collect();
    let (some, all) = (overloaded.len(), pairs.measured.len());
    if some == 0 {
        return Overload::None;
    }
    let mean = |figure: fn(&CellFigures) -> Option<f64>| {
        let figures: Vec<f64> =
            overloaded.iter().filter_map(|cell| figure(&cell.figures)).collect();
        gpubench_stats::moments::mean(&figures).map_or("unknown".to_owned(), |m| format!("{m:.1}"))
    };
    row.warn(format!(
        "overloaded beside the aggressor in {some} of {all} blocks: offered {} per s, goodput {} \
         per s, backlog slope {} per s (means over these blocks)",
        mean(|of| of.offered_per_s),
        mean(|of| of.goodput_per_s),
        mean(|of| of.backlog_slope_per_s),
    ));
    row.matrix.requests = open_requests(pairs);
    if 2 * some > all {
        let range = LevelRange::at(Level::L0);
        row.of_intervals = Some(range);
        if !row.is_doubtful() {
            row.set_range(range, Vec::new());
            row.matrix.word = Some(word::of_jitter(Level::L0).to_owned());
        }
    } else {
        row.doubt(format!("overloaded in {some} of {all} blocks only"));
    }
    Overload::Some
}

/// Leaves out blocks in which C overloaded and S is not measured. N is measured in every block
/// here, so an overload that stays is the aggressor's doing.
fn only_beside_the_aggressor(context: &Context<'_>, contended: &Key, pairs: &mut Pairs<'_>) {
    let solo = context.cells.blocks(&contended.with(Condition::S));
    let kept_up = |block: &u32| {
        solo.and_then(|solo| solo.get(block)).is_some_and(|one| one.measured().is_some())
    };
    let left_out = &mut pairs.left_out;
    pairs.measured.retain(|(block, top, _)| {
        let keep = !is_overloaded(top) || kept_up(block);
        if !keep {
            let why = "C overloaded, and S was not measured".to_owned();
            let kind = LostKind::NotMeasured;
            left_out.insert(*block, LeftOut { kind, why });
        }
        keep
    });
}

fn is_overloaded(cell: &CellResult) -> bool {
    cell.gate_state(&Gate::Overload) == Some(GateState::NotEvaluated)
}

fn from_tails(context: &Context<'_>, contended: &Key, pairs: &Pairs<'_>, row: &mut Row) {
    let thresholds = &context.input.plan.thresholds;
    let requests_min = u64::from(thresholds.jitter_requests_min);
    let tails = Tails::new(requests_min);
    row.matrix.requests = open_requests(pairs);
    let blocks: Vec<(f64, Ends)> = pairs
        .measured
        .iter()
        .filter_map(|(_, top, native)| {
            let value = tails.beyond(top, native, native)?;
            Some((value, tails.ends(top, native, value)))
        })
        .collect();
    let values: Vec<f64> = blocks.iter().map(|(value, _)| *value).collect();
    if values.len() < BLOCKS_MIN as usize {
        let (have, need) = (values.len(), BLOCKS_MIN);
        row.doubt(format!(
            "{have} blocks have a p99 of {requests_min} requests or more in both cells, {need} \
             are needed"
        ));
        if values.is_empty() {
            return;
        }
    }
    let Some(jitter) = row.take("jitter", interval(&values)) else {
        return;
    };
    let jitter = with_systematic(jitter, &blocks);
    row.matrix.jitter = Some(jitter.clone());
    split(context, contended, &tails, row);
    floor(context, &jitter, pairs, row);
    let modes = two_modes(&values, MODES_MIN);
    let reach = modes.map(|modes| reaching(&jitter, [modes.low, modes.high]));
    let range = of_jitter(reach.as_ref().unwrap_or(&jitter), thresholds);
    if let Some(text) = modes.map(|modes| modes.in_words(|x| x)) {
        match range.decided() {
            Some(level) => row.warn(format!("{text}; both are at {level}")),
            None => row.doubt(format!("{text}, which leave {range} open")),
        }
    }
    row.of_intervals = Some(range);
    if row.is_doubtful() {
        return;
    }
    let bounds = [thresholds.jitter_negligible, thresholds.jitter_low_medium];
    let straddled = bounds
        .into_iter()
        .filter_map(|bound| blocks_needed("jitter", &jitter, bound, Scale::Linear))
        .collect();
    row.set_range(range, straddled);
    if let Some(level) = range.decided() {
        row.matrix.word = Some(word::of_jitter(level).to_owned());
    }
}

fn interval(values: &[f64]) -> Result<Estimate, NoEstimate> {
    Ok(printed(Effect::of_mean(values)?.interval(Confidence::P95)?, UNIT))
}

/// Names the two parts of the jitter: that of the mechanism itself and that of the neighbour.
fn split(context: &Context<'_>, contended: &Key, tails: &Tails, row: &mut Row) {
    let blocks = |condition: Key| context.cells.blocks(&condition);
    let (Some(c), Some(s), Some(n)) = (
        blocks(contended.clone()),
        blocks(contended.with(Condition::S)),
        blocks(context.cells.native_of(contended)),
    ) else {
        return;
    };
    let cells = |block: &u32| {
        let punctual = |one: &&CellResult| open_loop_doubt(one).is_none();
        let [c, s, n] =
            [c, s, n].map(|all| all.get(block).and_then(|one| one.measured()).filter(punctual));
        Some((c?, s?, n?))
    };
    let (mut own, mut neighbour) = (Vec::new(), Vec::new());
    for (c, s, n) in n.keys().filter_map(cells) {
        own.extend(tails.beyond(s, n, n));
        neighbour.extend(tails.beyond(c, s, n));
    }
    for (what, values) in [("J_mech (S - N)", own), ("J_interf (C - S)", neighbour)] {
        if let Ok(part) = interval(&values) {
            row.warn(format!("{what} {}", in_words(&part)));
        }
    }
}

/// Doubts the row where the timers of the host are coarser than the bound of `Negligible` and the
/// jitter lies below what they resolve, or where it is unknown what they resolve.
fn floor(context: &Context<'_>, jitter: &Estimate, pairs: &Pairs<'_>, row: &mut Row) {
    let medians_ns: Vec<f64> = pairs
        .measured
        .iter()
        .filter_map(|(_, _, native)| native.figures.open_latency_p50_ns)
        .collect();
    let median_ns = gpubench_stats::moments::mean(&medians_ns);
    let floor_ns = match context.input.timer_floor_ns {
        Ok(floor_ns) => floor_ns,
        Err(reason) => {
            return row.doubt(format!("the timer floor of the host is unknown: {reason}"));
        }
    };
    // Virtual time has no floor, and a jitter has medians.
    let (Some(floor_ns), Ok(median_ns)) = (floor_ns, median_ns) else {
        return;
    };
    let floor = floor_ns / median_ns;
    let coarse = floor > context.input.plan.thresholds.jitter_negligible && jitter.hi <= floor;
    if coarse {
        row.matrix.word = Some(BELOW_FLOOR.to_owned());
        row.doubt(format!("{BELOW_FLOOR}: the timers of this host resolve {floor:.3} {UNIT}"));
    }
}

fn open_requests(pairs: &Pairs<'_>) -> u64 {
    let cells = pairs.measured.iter().flat_map(|(_, top, native)| [top, native]);
    cells.filter_map(|cell| cell.requests.get(OPEN_REQUESTS)).sum()
}
