//! Rows of the resource axes: retention and what else follows from closed-loop rates.

use gpubench_record::{CellResult, Condition, Estimate, GateResult, GateState, MechanismRow};
use gpubench_stats::{Confidence, fieller};

use super::cells::{Key, Pair, Pairs};
use super::figures::{Logs, blocks_needed, printed, told};
use super::level::Resource;
use super::probe_figures::bypass;
use super::row::Row;
use super::word::{Evidence, with_bypass};
use super::{Context, reference};
use crate::gate::CLOSED_RATE_GATE;
use crate::gate::figure::CLOSED_RATE_PER_S;

/// Share of its resource's measured peak that an aggressor must reach alone.
const AGGRESSOR_PEAK_MIN: f64 = 0.80;

/// An A/A difference smaller than this is told by an exact device and moves no level.
const AGAIN_MIN: f64 = 0.001;

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
    level(context, mechanism, &measured, &mut row);
    row.finish()
}

/// What the level is decided from.
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
        let (solo, native) = (contended.with(Condition::S), contended.native());
        row.matrix.aggressor = aggressor(context, contended);
        again(context, &solo, row);
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
            (Some((of_r, _)), Some((of_u, together))) => index(of_r, of_u, *together, row),
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

/// A ratio of rates with its interval; `None` where it was not planned or cannot be had.
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
    Some((logs, estimate))
}

/// Says in how many blocks the victim could not finish requests, so that its rate is a bound.
fn starved(what: &str, pairs: &Pairs<'_>, row: &mut Row) {
    let is_starved = |cell: &CellResult| {
        let is_bound = |gate: &GateResult| {
            gate.gate == CLOSED_RATE_GATE && gate.state == GateState::NotEvaluated
        };
        cell.rates.contains_key(CLOSED_RATE_PER_S) && cell.gates.iter().any(is_bound)
    };
    let tops = pairs.measured.iter().map(|(_, top, _)| *top);
    let (starved, all) = (
        tops.filter(|top| is_starved(top)).count(),
        pairs.measured.len(),
    );
    if starved > 0 {
        row.warn(format!(
            "{what} is at most this: the victim starved in {starved} of {all} blocks, where \
             its rate is the most that it can have been"
        ));
    }
}

/// The A/A pair: the same cell twice must give the same rate. One pair in twenty differs by
/// chance, so this warns and does not judge.
fn again(context: &Context<'_>, solo: &Key, row: &mut Row) {
    let Some(pairs) = context.cells.pair(&solo.with(Condition::SAgain), solo) else {
        return;
    };
    if let Ok(estimate) = Logs::of_rates(&pairs).ratio() {
        let off = (estimate.value - 1.0).abs() >= AGAIN_MIN;
        if off && (estimate.hi < 1.0 || estimate.lo > 1.0) {
            row.warn(format!(
                "A/A: solo against itself is {}, which excludes 1",
                told(&estimate)
            ));
        }
    }
}

/// The cells of the mechanism's unprotected form, and that form as the row names it.
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

/// Effectiveness of the aggressor, and whether its blocks are those of the retention.
fn unprotected(
    context: &Context<'_>,
    contended: &Key,
    mechanism: &MechanismRow,
    row: &mut Row,
) -> Option<(Logs, bool)> {
    let (key, u_kind) = unprotected_form(context, contended, mechanism, row)?;
    let Some(pairs) = context.cells.pair(key, &key.native()) else {
        row.warn("no native cell was planned: no guarantee, no index, L2 at most");
        return None;
    };
    row.matrix.u_kind = Some(u_kind);
    row.count("effectiveness", &pairs, context);
    let logs = Logs::of_rates(&pairs);
    let estimate = row.take("effectiveness", logs.ratio())?;
    bites(context, &estimate, row);
    row.matrix.effectiveness = Some(estimate);
    Some((logs, key.group == contended.group))
}

/// An aggressor that takes nothing even unprotected shows nothing about protection.
fn bites(context: &Context<'_>, effectiveness: &Estimate, row: &mut Row) {
    let most = context.input.plan.thresholds.effectiveness_max;
    if effectiveness.hi > most {
        let told = told(effectiveness);
        row.doubt(format!(
            "the aggressor is too weak to show anything: effectiveness {told}, accepted is up to \
             {most}"
        ));
    }
    let Some(aggressor) = row.matrix.aggressor.clone() else {
        return;
    };
    match context.input.aggressor_peaks.get(&aggressor) {
        None => row.warn(format!(
            "not evaluated: {aggressor} against its resource's peak"
        )),
        Some(share) if *share < AGGRESSOR_PEAK_MIN => row.doubt(format!(
            "{aggressor} alone reaches {share:.2} of its resource's peak, {AGGRESSOR_PEAK_MIN} \
             are needed"
        )),
        Some(_) => {}
    }
}

/// `1 - ln R / ln U` by Fieller; with the covariance where both come from the same blocks.
fn index(of_r: &Logs, of_u: &Logs, together: bool, row: &mut Row) -> Option<Estimate> {
    let ratio = if together {
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

fn level(context: &Context<'_>, mechanism: &MechanismRow, measured: &Measured, row: &mut Row) {
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
        blocks_needed("retention", retention, thresholds.retention_l3),
        blocks_needed("retention", retention, thresholds.retention_l2),
        measured
            .guarantee
            .as_ref()
            .and_then(|g| blocks_needed("guarantee", g, thresholds.guarantee_l3)),
        measured
            .index
            .as_ref()
            .and_then(|i| blocks_needed("index", i, thresholds.index_l1)),
    ];
    row.set_range(range, straddled.into_iter().flatten().collect());
    if figures.forfeits_capacity(thresholds) {
        row.warn("isolated, but capacity forfeited");
    }
    if let Some(level) = range.decided() {
        // Ways past a limit of SMs say nothing of other resources.
        let tried = (row.matrix.sub_axis.as_deref() == Some("sm"))
            .then(|| bypass(context.input.probes, &mechanism.variant, "compute"))
            .flatten();
        let (word, told) = with_bypass(level, Evidence::of(mechanism), tried);
        if let Some(told) = told {
            row.warn(told);
        }
        row.matrix.word = Some(word.to_owned());
    }
}
