//! Rows of the jitter axis: the level of the growth of the latency tail, and how it splits.

use gpubench_record::{Axis, BLOCKS_MIN, CellResult, Estimate, MechanismRow};

use super::level::{Level, LevelRange, of_jitter};
use super::level::{Scale, blocks_needed, reaching};
use super::row::Row;
use super::{Context, reference, word};
use crate::figures::latency;
use crate::figures::latency::{Jitter, UNIT};
use crate::figures::{Key, Pair, Pairs, in_words, two_modes};
use crate::gate::OPEN_REQUESTS;

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
    let planned = context.cells.pair(contended, &native);
    let (Some(planned), Some(pairs)) = (planned, latency::pairs(&context.cells, contended)) else {
        row.doubt("no native cell was planned, and the unit of jitter is the native median");
        return row.finish();
    };
    row.matrix.aggressor =
        planned.measured.iter().find_map(|(_, top, _)| top.cell.aggressor.clone());
    if context.input.plan.user_victim.is_some() && planned.measured.iter().any(without_schedule) {
        row.warn("the victim follows no schedule: these are service times of a closed loop");
    }
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
    let Some(found) = latency::Overload::of(pairs) else {
        return Overload::None;
    };
    let (some, all) = (found.blocks, pairs.measured.len());
    let text = |mean: Option<f64>| mean.map_or("unknown".to_owned(), |mean| format!("{mean:.1}"));
    row.warn(format!(
        "overloaded beside the aggressor in {some} of {all} blocks: offered {} per s, goodput {} \
         per s, backlog slope {} per s (means over these blocks)",
        text(found.offered_per_s),
        text(found.goodput_per_s),
        text(found.backlog_slope_per_s),
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

fn from_tails(context: &Context<'_>, contended: &Key, pairs: &Pairs<'_>, row: &mut Row) {
    let thresholds = &context.input.plan.thresholds;
    let requests_min = u64::from(thresholds.jitter_requests_min);
    row.matrix.requests = open_requests(pairs);
    let found = Jitter::of(pairs, requests_min);
    let values = &found.values;
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
    let Some(jitter) = row.take("jitter", found.estimate()) else {
        return;
    };
    row.matrix.jitter = Some(jitter.clone());
    split(context, contended, requests_min, row);
    floor(context, &jitter, pairs, row);
    let modes = two_modes(values, MODES_MIN);
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

/// Names the two parts of the jitter.
fn split(context: &Context<'_>, contended: &Key, requests_min: u64, row: &mut Row) {
    let parts = latency::split(&context.cells, contended, requests_min);
    for (what, part) in parts.into_iter().flatten() {
        if let Ok(part) = part {
            row.warn(format!("{what} {}", in_words(&part)));
        }
    }
}

/// Doubts the row where the timers of the host are coarser than the bound of `Negligible` and the
/// jitter lies below what they resolve, or where it is unknown what they resolve.
fn floor(context: &Context<'_>, jitter: &Estimate, pairs: &Pairs<'_>, row: &mut Row) {
    let median_ns = latency::native_median_ns(pairs);
    let floor_ns = match context.input.timer_floor_ns {
        Ok(floor_ns) => floor_ns,
        Err(reason) => {
            return row.doubt(format!("the timer floor of the host is unknown: {reason}"));
        }
    };
    // Virtual time has no floor, and a jitter has medians.
    let (Some(floor_ns), Some(median_ns)) = (floor_ns, median_ns) else {
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
