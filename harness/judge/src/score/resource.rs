//! Rows of the resource axes: retention and the other figures of closed-loop rates.

use std::collections::BTreeSet;

use gpubench_record::{Condition, Ends, Estimate, Gate, MechanismRow, SubAxis, Thresholds};
use gpubench_stats::{NoEstimate, ratio};

use super::level::{Resource, Scale, blocks_needed, reaching};
use super::probe_figures::bypass;
use super::reference::Repetition;
use super::row::Row;
use super::word::{enforcing, with_bypass};
use super::{Context, reference};
use crate::figures::{
    Key, Logs, Pair, Pairs, Systematic, TwoModes, in_words, printed, starved as is_starved,
};
use crate::score::level::LevelRange;

/// Shares of the peak of its resource below which an aggressor spoils its row, or is warned of.
const AGGRESSOR_PEAK_MIN: f64 = 0.60;
const AGGRESSOR_PEAK_USUAL: f64 = 0.80;

/// The row of one variant and sub-axis.
pub(super) fn row(context: &Context<'_>, mechanism: &MechanismRow, pair: &Pair) -> Row {
    let mut row = Row::of_mechanism(context, mechanism, pair.sub_axis.axis(), Some(pair));
    if !row.matrix.outcome.is_measured() {
        return row;
    }
    let Some(contended) = context.cells.contended(&mechanism.variant, pair) else {
        row.doubt("no contended cell was planned");
        return row.finish();
    };
    let measured = Measured::of(context, contended, mechanism, &mut row);
    level(context, mechanism, pair, &measured, &mut row);
    row.finish()
}

/// The figures that decide the level.
#[derive(Debug, Default)]
struct Measured {
    retention: Option<Estimate>,
    guarantee: Option<Estimate>,
    /// Both modes of the retention.
    modes: Option<TwoModes>,
}

impl Measured {
    fn of(context: &Context<'_>, contended: &Key, mechanism: &MechanismRow, row: &mut Row) -> Self {
        let cells = &context.cells;
        let (solo, native) = (contended.with(Condition::S), cells.native_of(contended));
        row.matrix.aggressor = aggressor(context, contended);
        repetition(context, &solo, row);
        let retention = deciding(context, contended, &solo, "retention", row);
        let guarantee = deciding(context, contended, &native, "guarantee", row);
        row.matrix.efficiency = efficiency(context, &solo, &native, row);
        if let Some(pairs) = cells.pair(contended, &solo) {
            row.matrix.requests = pairs.requests();
        }
        add(context, contended, &solo, row);
        reference::drift(context, &native, row);
        let unprotected = unprotected(context, contended, mechanism, row);
        if let (Some((of_r, estimate)), Some((of_u, same_blocks))) = (&retention, &unprotected)
            && estimate.ends == Ends::Interval
        {
            row.matrix.isolation_index = isolation_index(of_r, of_u, *same_blocks, row);
        }
        let measured = Self {
            modes: retention
                .as_ref()
                .filter(|(_, estimate)| estimate.ends == Ends::Interval)
                .and_then(|(logs, _)| logs.two_modes()),
            retention: retention.map(|(_, estimate)| estimate),
            guarantee: guarantee.map(|(_, estimate)| estimate),
        };
        row.matrix.retention.clone_from(&measured.retention);
        row.matrix.guarantee.clone_from(&measured.guarantee);
        measured
    }
}

fn aggressor(context: &Context<'_>, contended: &Key) -> Option<String> {
    context.cells.blocks(contended)?.values().find_map(|planned| planned.cell.aggressor.clone())
}

/// A ratio of rates that decides the level, with its interval; `None` where it was not planned or
/// cannot be computed.
fn deciding(
    context: &Context<'_>,
    top: &Key,
    bottom: &Key,
    what: &str,
    row: &mut Row,
) -> Option<(Logs, Estimate)> {
    let pairs = context.cells.pair(top, bottom)?;
    row.decide_by(what, &pairs);
    starved(what, &pairs, row);
    let logs = Logs::of_rates(&pairs);
    let estimate = row.take(what, logs.ratio())?;
    if let Some(text) = logs.systematic.in_words(what) {
        row.warn(text);
    }
    Some((logs, estimate))
}

/// The cost of the mechanism itself, which explains the row and decides nothing.
fn efficiency(context: &Context<'_>, solo: &Key, native: &Key, row: &mut Row) -> Option<Estimate> {
    let pairs = context.cells.pair(solo, native)?;
    row.find(&pairs);
    let ratio = Logs::of_rates(&pairs).ratio();
    ratio.map_err(|error| row.warn(format!("no efficiency: {error}"))).ok()
}

/// Says where the victim starved in some blocks.
fn starved(what: &str, pairs: &Pairs<'_>, row: &mut Row) {
    let tops = pairs.measured.iter().map(|(_, top, _)| *top);
    let starved = tops.filter(|top| is_starved(top).is_some()).count();
    let all = pairs.measured.len();
    if starved > 0 {
        row.warn(format!(
            "{what}: the victim starved in {starved} of {all} blocks: n completions mean a rate \
             between n - 1 and n + 1, and the higher one counts"
        ));
    }
}

/// The A/A pair of the solo rate.
fn repetition(context: &Context<'_>, solo: &Key, row: &mut Row) {
    let Some(pairs) = context.cells.pair(&solo.with(Condition::SAgain), solo) else {
        return;
    };
    if let Ok(estimate) = Logs::of_rates(&pairs).ratio() {
        row.repetition = Some(Repetition {
            of: (solo.variant.clone(), solo.pair.victim.clone()),
            fires: reference::repetition("solo", &estimate, row),
        });
    }
}

pub(super) fn unprotected_form<'a>(
    context: &'a Context<'_>,
    contended: &Key,
    mechanism: &MechanismRow,
    row: &mut Row,
) -> Option<(&'a Key, String)> {
    let mut planned = context.input.plan.mechanisms.iter();
    let planned = planned.find(|one| one.variant == mechanism.variant);
    let Some(form) = planned.and_then(|one| one.unprotected.as_deref()) else {
        row.warn("no unprotected form can run here: no effectiveness, no index");
        return None;
    };
    let cells = &context.cells;
    let Some(key) = cells.unprotected(form, &contended.pair, &contended.group) else {
        row.warn(format!("no cell of the unprotected form {form} was planned"));
        return None;
    };
    let u_kind = if form == mechanism.variant {
        format!("{} (identity)", mechanism.name)
    } else {
        form.to_owned()
    };
    Some((key, u_kind))
}

/// Effectiveness of the aggressor, and whether its blocks are the same as those of the retention.
fn unprotected(
    context: &Context<'_>,
    contended: &Key,
    mechanism: &MechanismRow,
    row: &mut Row,
) -> Option<(Logs, bool)> {
    let (key, u_kind) = unprotected_form(context, contended, mechanism, row)?;
    let Some(pairs) = context.cells.pair(key, &context.cells.native_of(key)) else {
        row.warn("no native cell was planned: no guarantee, no index, L2 at most");
        return None;
    };
    row.matrix.u_kind = Some(u_kind);
    row.count("effectiveness", &pairs);
    let logs = Logs::of_rates(&pairs);
    let estimate = row.take("effectiveness", logs.ratio())?;
    check_aggressor(context, &estimate, row);
    row.matrix.effectiveness = Some(estimate);
    Some((logs, key.group == contended.group))
}

/// Doubts the row where the aggressor is too weak: it leaves the unprotected victim nearly all of
/// its rate, or it does not reach the peak of its resource.
fn check_aggressor(context: &Context<'_>, effectiveness: &Estimate, row: &mut Row) {
    let max = context.input.plan.thresholds.effectiveness_max;
    if effectiveness.hi > max {
        let found = in_words(effectiveness);
        row.doubt(format!(
            "the aggressor is too weak to show anything: effectiveness {found}, accepted is up to \
             {max}"
        ));
    }
    let Some(aggressor) = row.matrix.aggressor.clone() else {
        return;
    };
    let peaks = &context.input.calibration.peaks;
    let Some(peak) = peaks.get(&aggressor).filter(|peak| peak.peak_per_s > 0.0) else {
        row.warn(format!("not evaluated: {aggressor} against its resource's peak"));
        return;
    };
    let share = peak.alone_per_s / peak.peak_per_s;
    let reached = format!(
        "{aggressor} without a neighbour reaches {share:.2} of its resource's peak ({}: {:.3e} {} \
         per s, {})",
        peak.ceiling.as_str(),
        peak.peak_per_s,
        peak.unit,
        peak.source
    );
    if share < AGGRESSOR_PEAK_MIN {
        row.doubt(format!("{reached}, {AGGRESSOR_PEAK_MIN} are needed"));
    } else if share < AGGRESSOR_PEAK_USUAL {
        row.warn(format!("{reached}, {AGGRESSOR_PEAK_USUAL} are usual"));
    }
}

fn level(
    context: &Context<'_>,
    mechanism: &MechanismRow,
    pair: &Pair,
    measured: &Measured,
    row: &mut Row,
) {
    let Some(retention) = &measured.retention else {
        return;
    };
    let thresholds = &context.input.plan.thresholds;
    let figures = Resource { retention, guarantee: measured.guarantee.as_ref() };
    let range = match &measured.modes {
        Some(modes) => range(modes, &figures, thresholds, row),
        None => figures.range(thresholds),
    };
    // The guarantee decides only above the bound of L2.
    let guarantee = measured.guarantee.as_ref();
    let guarantee = guarantee.filter(|_| retention.hi >= thresholds.retention_l2);
    let straddled = [
        blocks_needed("retention", retention, thresholds.retention_l3, Scale::Log),
        blocks_needed("retention", retention, thresholds.retention_l2, Scale::Log),
        blocks_needed("retention", retention, thresholds.retention_l1, Scale::Log),
        guarantee.and_then(|g| blocks_needed("guarantee", g, thresholds.guarantee_l3, Scale::Log)),
    ];
    row.of_intervals = Some(range);
    if row.is_doubtful() {
        return;
    }
    row.set_range(range, straddled.into_iter().flatten().collect());
    if figures.forfeits_capacity(thresholds) {
        row.warn("isolated, but capacity forfeited");
    }
    if let Some(level) = range.decided() {
        // A bypass of the compute limit does not change other resources.
        let tried = (pair.sub_axis == SubAxis::Sm)
            .then(|| bypass(context.input.probes, &mechanism.variant, "compute"))
            .flatten();
        let (word, warning) = with_bypass(level, enforcing(mechanism, pair.sub_axis), tried);
        if let Some(warning) = warning {
            row.warn(warning);
        }
        row.matrix.word = Some(word.to_owned());
    }
}

// The isolation index with its interval.

/// The isolation index `1 - ln R / ln U`, with Fieller's interval. The covariance of R and U counts
/// where both come from the same blocks.
fn isolation_index(of_r: &Logs, of_u: &Logs, same_blocks: bool, row: &mut Row) -> Option<Estimate> {
    let ratio = if same_blocks {
        let (r, u) = of_r.shared(of_u);
        ratio::paired(&r, &u, of_r.confidence)
    } else {
        ratio::independent(&of_r.logs, &of_u.logs, of_r.confidence)
    };
    let index = ratio
        .and_then(ratio::isolation_index)
        .and_then(ratio::RatioSet::bounded)
        .and_then(|index| with_systematic(printed(index, "index"), of_r, of_u));
    match index {
        Ok(index) => Some(index),
        Err(error) => {
            row.warn(format!("no isolation index: {error}"));
            None
        }
    }
}

/// The index where both logarithms may lie anywhere within their systematic parts: it is monotone
/// in each, so its ends are among the four corners. Their distances from its value are added to the
/// ends of the statistical part.
fn with_systematic(index: Estimate, of_r: &Logs, of_u: &Logs) -> Result<Estimate, NoEstimate> {
    let (Some(r), Some(u)) = (of_r.mean(), of_u.mean()) else {
        return Ok(index);
    };
    let (of_r, of_u) = (of_r.systematic, of_u.systematic);
    if u + of_u.up >= 0.0 {
        let what = "the index beyond the systematic part of the effectiveness";
        return Err(NoEstimate::Unbounded { what });
    }
    let at = |r: f64, u: f64| 1.0 - r / u;
    let corners = [
        at(r - of_r.down, u - of_u.down),
        at(r - of_r.down, u + of_u.up),
        at(r + of_r.up, u - of_u.down),
        at(r + of_r.up, u + of_u.up),
    ];
    let from = at(r, u);
    let lo = index.lo - corners.iter().fold(0.0, |most, end| (from - end).max(most));
    let hi = index.hi + corners.iter().fold(0.0, |most, end| (end - from).max(most));
    let systematic = Systematic { known: of_r.known && of_u.known, ..Systematic::default() };
    Ok(systematic.with_ends(index, lo, hi))
}

// The levels of a row whose blocks have two modes.

/// The levels of a row with two modes. A t interval of few blocks with two modes covers too rarely,
/// but whatever the share of each mode, the true mean lies between them. So the row is decided
/// where the whole range has one level, and in doubt elsewhere.
fn range(
    modes: &TwoModes,
    figures: &Resource<'_>,
    thresholds: &Thresholds,
    row: &mut Row,
) -> LevelRange {
    let text = modes.in_words(f64::exp);
    let ends = [modes.low, modes.high];
    let retention = reaching(figures.retention, ends.map(f64::exp));
    let guarantee = figures.guarantee.map(|guarantee| {
        if guarantee.ends != Ends::Interval {
            return guarantee.clone();
        }
        let scale = guarantee.value / figures.retention.value;
        reaching(guarantee, ends.map(|log| scale * log.exp()))
    });
    let range = Resource { retention: &retention, guarantee: guarantee.as_ref() }.range(thresholds);
    match range.decided() {
        Some(level) => row.warn(format!("{text}; both are at {level}")),
        None => row.doubt(format!("{text}, which leave {range} open")),
    }
    range
}

// The part of the retention that the SM clock took.
//
// A neighbour whose power lowers the victim's clock interferes, so the retention stays a ratio of
// rates in time and nothing is widened. The ratio of the clocks says which part of it is power:
// the retention over the ratio of the clocks is a ratio of cycles, which is what the neighbour
// takes of the SMs and of memory.

/// A ratio of clocks below this is reported in words.
const USUAL: f64 = 0.99;

/// Adds the ratio of the clocks to a row, with a warning where it is below [`USUAL`].
pub(super) fn add(context: &Context<'_>, contended: &Key, solo: &Key, row: &mut Row) {
    let Some(pairs) = context.cells.pair(contended, solo) else {
        return;
    };
    // Records of format 1.0, and devices that report no clock, have none.
    let Ok(part) = Logs::of_clocks(&pairs).ratio() else {
        return;
    };
    if part.hi < USUAL
        && let Ok(time) = Logs::of_rates(&pairs).ratio()
    {
        row.warn(format!(
            "clock: beside the neighbour the SMs have {} of their solo clock{}: retention is {:.3} \
             in time and {:.3} in cycles",
            in_words(&part),
            held_by(&pairs),
            time.value,
            time.value / part.value
        ));
    }
    row.matrix.clock_part = Some(part);
}

/// The reasons for which contended cells ran at a lower clock, as NVML names them.
fn held_by(pairs: &Pairs<'_>) -> String {
    let gates = pairs.measured.iter().flat_map(|(_, top, _)| &top.gates);
    let reasons = gates.filter(|gate| gate.gate == Gate::Throttle && gate.detail != "none");
    let reasons: BTreeSet<&str> = reasons.map(|gate| gate.detail.as_str()).collect();
    match reasons.is_empty() {
        true => String::new(),
        false => format!(" ({})", Vec::from_iter(reasons).join("; ")),
    }
}
