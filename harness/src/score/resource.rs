//! Rows of the resource axes: retention and the other figures of closed-loop rates.

use gpubench_record::{CellResult, Condition, Estimate, Gate, GateState, MechanismRow, SubAxis};
use gpubench_stats::{Confidence, fieller};

use super::cells::{Key, Pair, Pairs};
use super::figures::{Logs, Scale, blocks_needed, in_words, printed};
use super::level::Resource;
use super::probe_figures::bypass;
use super::row::Row;
use super::word::{Evidence, with_bypass};
use super::{Context, reference};
use crate::gate::figure::CLOSED_RATE_PER_S;

/// Shares of the peak of its resource below which an aggressor spoils its row, or is warned of.
const AGGRESSOR_PEAK_MIN: f64 = 0.60;
const AGGRESSOR_PEAK_USUAL: f64 = 0.80;

/// Smallest A/A difference that is reported. A device without noise has smaller ones.
const REPETITION_MIN: f64 = 0.001;

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
    index: Option<Estimate>,
    /// Whether N and U were planned at all.
    has_references: bool,
}

impl Measured {
    fn of(context: &Context<'_>, contended: &Key, mechanism: &MechanismRow, row: &mut Row) -> Self {
        let cells = &context.cells;
        let (solo, native) = (contended.with(Condition::S), cells.native_of(contended));
        row.matrix.aggressor = aggressor(context, contended);
        repetition(context, &solo, row);
        let retention = ratio(context, contended, &solo, "retention", row);
        let efficiency = ratio(context, &solo, &native, "efficiency", row);
        let guarantee = ratio(context, contended, &native, "guarantee", row);
        if let Some(pairs) = cells.pair(contended, &solo) {
            row.matrix.requests = pairs.requests();
        }
        if let Some(modes) = retention.as_ref().and_then(|(logs, _)| logs.two_modes()) {
            row.doubt(modes);
        }
        reference::drift(context, &native, row);
        let unprotected = unprotected(context, contended, mechanism, row);
        let index = match (&retention, &unprotected) {
            (Some((of_r, _)), Some((of_u, same_blocks))) => index(of_r, of_u, *same_blocks, row),
            _ => None,
        };
        let measured = Self {
            has_references: cells.blocks(&native).is_some() && row.matrix.u_kind.is_some(),
            retention: retention.map(|(_, estimate)| estimate),
            guarantee: guarantee.map(|(_, estimate)| estimate),
            index,
        };
        row.matrix.efficiency = efficiency.map(|(_, estimate)| estimate);
        row.matrix.retention.clone_from(&measured.retention);
        row.matrix.guarantee.clone_from(&measured.guarantee);
        row.matrix.isolation_index.clone_from(&measured.index);
        measured
    }
}

fn aggressor(context: &Context<'_>, contended: &Key) -> Option<String> {
    context
        .cells
        .blocks(contended)?
        .values()
        .find_map(|planned| planned.cell.aggressor.clone())
}

/// A ratio of rates with its interval; `None` where it was not planned or cannot be computed.
fn ratio(
    context: &Context<'_>,
    top: &Key,
    bottom: &Key,
    what: &str,
    row: &mut Row,
) -> Option<(Logs, Estimate)> {
    let pairs = context.cells.pair(top, bottom)?;
    row.count(what, &pairs, context);
    starved(what, &pairs, row);
    let logs = Logs::of_rates(&pairs);
    let estimate = row.take(what, logs.ratio())?;
    if let Some(text) = logs.lost_time.in_words(what) {
        row.warn(text);
    }
    Some((logs, estimate))
}

/// Warns where the victim starved in some blocks, so that its rate there is an upper bound.
fn starved(what: &str, pairs: &Pairs<'_>, row: &mut Row) {
    let is_starved = |cell: &CellResult| {
        cell.rates.contains_key(CLOSED_RATE_PER_S)
            && cell.gate_state(&Gate::ClosedRate) == Some(GateState::NotEvaluated)
    };
    let tops = pairs.measured.iter().map(|(_, top, _)| *top);
    let (starved, all) = (
        tops.filter(|top| is_starved(top)).count(),
        pairs.measured.len(),
    );
    if starved > 0 {
        row.warn(format!(
            "{what} is an upper bound: the victim starved in {starved} of {all} blocks, where its \
             rate is an upper bound"
        ));
    }
}

/// The A/A pair: a repeated cell must give the same rate. One interval in twenty excludes 1 by
/// chance, so this is a warning and no doubt.
fn repetition(context: &Context<'_>, solo: &Key, row: &mut Row) {
    let Some(pairs) = context.cells.pair(&solo.with(Condition::SAgain), solo) else {
        return;
    };
    if let Ok(estimate) = Logs::of_rates(&pairs).ratio() {
        let off = (estimate.value - 1.0).abs() >= REPETITION_MIN;
        if off && (estimate.hi < 1.0 || estimate.lo > 1.0) {
            row.warn(format!(
                "A/A: solo against itself is {}, which excludes 1",
                in_words(&estimate)
            ));
        }
    }
}

/// The cells of the mechanism's unprotected form, and the name of the form in the row.
pub(super) fn unprotected_form<'a>(
    context: &'a Context<'_>,
    contended: &Key,
    mechanism: &MechanismRow,
    row: &mut Row,
) -> Option<(&'a Key, String)> {
    let mut planned = context.input.plan.mechanisms.iter();
    let planned = planned.find(|one| one.variant == mechanism.variant);
    let Some(form) = planned.and_then(|one| one.unprotected.as_deref()) else {
        row.warn("no unprotected form can run here: no effectiveness, no index, L2 at most");
        return None;
    };
    let cells = &context.cells;
    let Some(key) = cells.unprotected(form, &contended.pair, &contended.group) else {
        row.warn(format!(
            "no cell of the unprotected form {form} was planned: L2 at most"
        ));
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
    row.count("effectiveness", &pairs, context);
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
        row.warn(format!(
            "not evaluated: {aggressor} against its resource's peak"
        ));
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

/// The isolation index `1 - ln R / ln U`, with Fieller's interval. The covariance of R and U counts
/// where both come from the same blocks.
fn index(of_r: &Logs, of_u: &Logs, same_blocks: bool, row: &mut Row) -> Option<Estimate> {
    let ratio = if same_blocks {
        let (r, u) = of_r.shared(of_u);
        fieller::paired(&r, &u, Confidence::P95)
    } else {
        fieller::independent(&of_r.logs, &of_u.logs, Confidence::P95)
    };
    let index = ratio
        .and_then(fieller::isolation_index)
        .and_then(fieller::RatioSet::bounded);
    match index {
        Ok(index) => Some(printed(index, "index")),
        Err(error) => {
            row.warn(format!("no isolation index: {error}"));
            None
        }
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
    if row.is_doubtful() {
        return;
    }
    let thresholds = &context.input.plan.thresholds;
    let figures = Resource {
        retention,
        guarantee: measured.guarantee.as_ref(),
        index: measured.index.as_ref(),
        capped: !measured.has_references,
    };
    let range = figures.range(thresholds);
    let straddled = [
        blocks_needed("retention", retention, thresholds.retention_l3, Scale::Log),
        blocks_needed("retention", retention, thresholds.retention_l2, Scale::Log),
        measured
            .guarantee
            .as_ref()
            .and_then(|g| blocks_needed("guarantee", g, thresholds.guarantee_l3, Scale::Log)),
        measured
            .index
            .as_ref()
            .and_then(|i| blocks_needed("index", i, thresholds.index_l1, Scale::Linear)),
    ];
    row.set_range(range, straddled.into_iter().flatten().collect());
    if figures.forfeits_capacity(thresholds) {
        row.warn("isolated, but capacity forfeited");
    }
    if let Some(level) = range.decided() {
        // A bypass of the compute limit does not change other resources.
        let tried = (pair.sub_axis == SubAxis::Sm)
            .then(|| bypass(context.input.probes, &mechanism.variant, "compute"))
            .flatten();
        let (word, warning) = with_bypass(level, Evidence::of(mechanism), tried);
        if let Some(warning) = warning {
            row.warn(warning);
        }
        row.matrix.word = Some(word.to_owned());
    }
}
