//! Rows of the jitter axis, one for each planned aggressor: the level of the service jitter, and
//! beside it what decides none: the tail at the offered load, what the queue of the load alone
//! makes of it, and stalls.

use gpubench_record::{CellResult, Condition, Estimate, MechanismRow, counted};

use super::level::{Scale, blocks_needed, of_jitter, reaching};
use super::row::{NOT_EVALUATED, Row};
use super::{Context, reference, word};
use crate::figures::latency::{Tail, UNIT};
use crate::figures::lone::{GROUPS_MIN, LONE_MIN, Lone};
use crate::figures::{Key, Pair, Pairs, in_words, two_modes};
use crate::figures::{latency, lone};
use crate::gate::OPEN_REQUESTS;

/// Smallest distance of two modes, in native medians: half of the bound of `Negligible`.
const MODES_MIN: f64 = 0.05;

/// The word where N and N' differ by more than the bound of `Negligible`.
const BELOW_FLOOR: &str = "below measurement floor";

/// Fewest lone requests of a 99.9th percentile.
const P999_MIN: usize = 3_688;

/// Begins of the texts that a row has for its other figures.
const OTHER_FIGURES: [&str; 4] = [
    "service jitter is ",
    "the 99.9th percentile is ",
    "N' against N: ",
    "tail at the offered load ",
];

const LONG: &str = "% of the time passes inside requests longer than 3 native medians";

/// Whether a text of a row is about another figure of it, and no doubt.
pub fn is_other_figure(text: &str) -> bool {
    let counts = [NOT_EVALUATED, WITHOUT_TAIL].iter().any(|part| text.contains(part));
    counts || OTHER_FIGURES.iter().any(|begin| text.starts_with(begin)) || text.ends_with(LONG)
}

pub(super) fn row(context: &Context<'_>, mechanism: &MechanismRow, pair: &Pair) -> Row {
    let mut row = Row::of_mechanism(context, mechanism, gpubench_record::Axis::Jitter, Some(pair));
    if !row.matrix.outcome.is_measured() {
        return row;
    }
    let Some(contended) = context.cells.contended(&mechanism.variant, pair) else {
        row.doubt("no contended cell was planned");
        return row.finish();
    };
    let native = context.cells.native_of(contended);
    let Some(pairs) = lone::pairs(&context.cells, contended) else {
        row.doubt("no native cell was planned, and the unit of jitter is the native median");
        return row.finish();
    };
    row.matrix.aggressor.clone_from(&pair.aggressor);
    if context.input.plan.user_victim.is_some() && pairs.measured.iter().any(without_schedule) {
        row.warn("the victim follows no schedule: these are service times of a closed loop");
    }
    row.decide_by("jitter", &pairs);
    reference::drift(context, &native, &mut row);
    let found = Lone::of(&pairs);
    service(context, mechanism, &native, &pairs, &found, &mut row);
    if pair.sub_axis == context.input.plan.jitter_from {
        at_load(context, contended, &pairs, &mut row);
    }
    row.finish()
}

/// Warns the first row of a mechanism of the planned aggressors beside which no jitter was planned.
pub(super) fn name_missing(missing: &[Pair], rows: &mut [Row]) {
    let missing: Vec<&str> = missing.iter().filter_map(|pair| pair.aggressor.as_deref()).collect();
    let mut measured = rows.iter_mut().filter(|row| row.matrix.jitter.is_some());
    if let (Some(first), false) = (measured.next(), missing.is_empty()) {
        first.warn(format!("jitter is not measured beside {}", missing.join(", ")));
    }
}

/// Whether the victim of a contended cell followed no arrival schedule.
fn without_schedule((_, top, _): &(u32, &CellResult, &CellResult)) -> bool {
    let victim = top.tenant_results.first();
    victim.is_some_and(|victim| victim.schedule_hash.is_none())
}

/// The service jitter and its level.
fn service(
    context: &Context<'_>,
    mechanism: &MechanismRow,
    native: &Key,
    pairs: &Pairs<'_>,
    found: &Lone,
    row: &mut Row,
) {
    let thresholds = &context.input.plan.thresholds;
    if row.matrix.requests == 0 {
        row.matrix.requests = found.contended_ns.len() as u64;
    }
    if let Some(reason) = unmeasured(context, mechanism, pairs, found) {
        return row.doubt(reason);
    }
    let Some(jitter) = row.take("jitter", found.estimate()) else {
        return;
    };
    row.warn(format!(
        "service jitter is {:.3} ms ({:.3} to {:.3})",
        jitter.value * found.native_median_ns / 1e6,
        jitter.lo * found.native_median_ns / 1e6,
        jitter.hi * found.native_median_ns / 1e6
    ));
    row.matrix.jitter = Some(jitter.clone());
    stalls(found, row);
    floor(context, native, &jitter, row);
    let modes = two_modes(&found.values, MODES_MIN);
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
    let bounds = [thresholds.jitter_negligible, thresholds.service_jitter_low_medium];
    let straddled = bounds
        .into_iter()
        .filter_map(|bound| blocks_needed("jitter", &jitter, bound, Scale::Linear))
        .collect();
    row.set_range(range, straddled);
    if let Some(level) = range.decided() {
        row.matrix.word = Some(word::of_jitter(level).to_owned());
    }
}

/// Why there is no service jitter; `None` where there is.
fn unmeasured(
    context: &Context<'_>,
    mechanism: &MechanismRow,
    pairs: &Pairs<'_>,
    found: &Lone,
) -> Option<String> {
    let planned = context.input.plan.mechanisms.iter();
    let mut planned = planned.filter(|one| one.variant == mechanism.variant);
    let takes_turns = planned.any(|one| one.properties.takes_turns());
    let is_sparse = pairs.measured.iter().all(|(_, top, _)| top.cell.sparse.is_some());
    if found.contended_ns.is_empty() {
        let open = pairs.measured.iter().any(|(_, top, _)| !top.cell.closed_only);
        return Some(if open && !is_sparse {
            "no latencies of single requests: the record has none (formats before 2.4)".to_owned()
        } else {
            "no latencies of single requests: no sparse phase was planned".to_owned()
        });
    }
    if takes_turns && !is_sparse {
        return Some(
            "tenants take turns, and requests in quick succession meet the same part of a turn: \
             service jitter needs a sparse phase"
                .to_owned(),
        );
    }
    let have = found.values.len();
    (have < GROUPS_MIN).then(|| {
        let needed = found.blocks_needed().map_or(String::new(), |blocks| {
            format!(": {blocks} blocks of these cells are needed, {} are there", found.planned)
        });
        format!(
            "{} of {LONE_MIN} requests that found no other, {GROUPS_MIN} are needed{needed}",
            counted(have, "group")
        )
    })
}

/// Long requests, which a quantile of 0.99 does not show.
fn stalls(found: &Lone, row: &mut Row) {
    if let Some(share) = found.stalled_share() {
        row.warn(format!("{:.2} {LONG}", 100.0 * share));
    }
    let p999 = gpubench_stats::Sorted::new(found.contended_ns.clone());
    if let Ok(sorted) = p999
        && found.contended_ns.len() >= P999_MIN
        && let Ok(p999_ns) = sorted.median_unbiased(0.999)
    {
        row.warn(format!("the 99.9th percentile is {:.3} ms", p999_ns / 1e6));
    }
    if found.holds_stalls() {
        row.warn("holds stalls: more than 1 % of requests last more than ten medians");
    }
}

/// Doubts the row where N' against N has as much jitter, and more than the bound of `Negligible`.
fn floor(context: &Context<'_>, native: &Key, jitter: &Estimate, row: &mut Row) {
    let cells = &context.cells;
    let Some(pairs) = cells.pair(&native.with(Condition::NAgain), native) else {
        return;
    };
    let again = Lone::of(&pairs);
    if again.values.len() < GROUPS_MIN {
        return;
    }
    let Ok(again) = again.estimate() else {
        return;
    };
    row.warn(format!("N' against N: {}", in_words(&again)));
    let negligible = context.input.plan.thresholds.jitter_negligible;
    if again.hi > negligible && jitter.hi <= again.hi {
        row.matrix.word = Some(BELOW_FLOOR.to_owned());
        row.doubt(format!("{BELOW_FLOOR}: N' against N has {:.3} {UNIT}", again.hi));
    }
}

// The tail at the offered load: a property of the mechanism and of the queue of the load.

fn at_load(context: &Context<'_>, contended: &Key, lone: &Pairs<'_>, row: &mut Row) {
    let Some(pairs) = latency::pairs(&context.cells, contended) else {
        return;
    };
    row.matrix.requests = open_requests(&pairs);
    if overload(&pairs, row) {
        return;
    }
    let requests_min = u64::from(context.input.plan.thresholds.tail_requests_min);
    let tail = Tail::of(&pairs, requests_min);
    without_tail(&pairs, &tail, row);
    let Some(estimate) = tail.estimate().ok().filter(|_| !tail.values.is_empty()) else {
        return;
    };
    let alone = lone::queue_alone(lone).map_or(String::new(), |[wait_ms, tail]| {
        format!(
            "; the queue of these service times alone gives {tail:.2}, with a mean wait of \
             {wait_ms:.3} ms"
        )
    });
    row.warn(format!("tail at the offered load {}{alone}", in_words(&estimate)));
    row.matrix.tail_at_load = Some(estimate);
}

/// What [`without_tail`] says of blocks.
const WITHOUT_TAIL: &str = " have no tail at the offered load";

/// Counts the blocks that give no tail at the offered load.
fn without_tail(pairs: &Pairs<'_>, tail: &Tail, row: &mut Row) {
    let no_p99 = pairs.measured.len() - tail.values.len();
    let left_out = pairs.left_out.iter().next();
    let why = [
        left_out.map(|(_, one)| format!("{}: {}", pairs.left_out.len(), one.why)),
        (no_p99 > 0).then(|| format!("{no_p99}: too few requests for a p99, or it never ended")),
    ];
    let why: Vec<String> = why.into_iter().flatten().collect();
    if !why.is_empty() {
        let (lost, all) = (no_p99 + pairs.left_out.len(), pairs.measured.len());
        let all = all + pairs.left_out.len();
        row.warn(format!("{lost} of {}{WITHOUT_TAIL} ({})", counted(all, "block"), why.join("; ")));
    }
}

/// Names an overload beside the aggressor: percentiles then grow with the length of the run.
fn overload(pairs: &Pairs<'_>, row: &mut Row) -> bool {
    let Some(found) = latency::Overload::of(pairs) else {
        return false;
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
    true
}

fn open_requests(pairs: &Pairs<'_>) -> u64 {
    let cells = pairs.measured.iter().flat_map(|(_, top, native)| [top, native]);
    cells.filter_map(|cell| cell.requests.get(OPEN_REQUESTS)).sum()
}
